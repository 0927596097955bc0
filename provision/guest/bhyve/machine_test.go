package bhyve

import (
	"net/netip"
	"strings"
	"testing"

	"bakeoff/base/unit"
	"bakeoff/reach/conn"
)

// The command lines are those of the manuals.
func TestCommandLine(t *testing.T) {
	m := Machine{Name: "g", CPUs: 2, Memory: 512 * unit.MiB, Pins: []int{4, 6},
		Firmware: "/fw", Variables: "/vars", Second: "/dev/nmdm1A", Config: "/conf",
		Devices: []string{Disk(VirtioBlk, "/d"), Disk(CD, "/i.iso"), Card("virtio-net", "bog1", "02:00:00:00:00:01", 1400),
			Card("e1000", "bog2", "02:00:00:00:00:02", 0), Agent("/dir")}}
	want := "bhyve -H -A -P -u -c 2 -m 512M -p 0:4 -p 1:6 -s 0:0,hostbridge -s 1:0,lpc -s 2:0,virtio-blk,/d " +
		"-s 3:0,ahci-cd,/i.iso,ro -s 4:0,virtio-net,bog1,type=tap,mac=02:00:00:00:00:01,mtu=1400 " +
		"-s 5:0,e1000,bog2,type=tap,mac=02:00:00:00:00:02 -s 6:0,virtio-console,bakeoff=/dir/c -l com1,stdio " +
		"-l com2,/dev/nmdm1A " +
		"-l bootrom,/fw,/vars -k /conf -s 31:0,xhci,tablet g"
	if got := strings.Join(m.CommandLine(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "bhyveload -c stdio -m 512M -d /d -e autoboot_delay=0 g"
	if got := strings.Join(m.LoadLine("/d"), " "); got != want {
		t.Errorf("got %s", got)
	}
}

// The password of the screen is in a file. bhyve replaces %(name) in values.
func TestScreen(t *testing.T) {
	s := Screen{At: netip.MustParseAddrPort("127.0.0.1:5901"), Password: "a=%(b)"}
	want := "pci.0.30.0.device=fbuf\npci.0.30.0.tcp=127.0.0.1:5901\npci.0.30.0.password=a=%%(b)\n"
	if got := s.Config(); got != want {
		t.Errorf("got %s", got)
	}
	s.Password = ""
	if got := s.Config(); strings.Contains(got, "password") {
		t.Errorf("without a password: %s", got)
	}
}

func TestWhy(t *testing.T) {
	for exit, want := range map[conn.Exit]string{{}: "the guest restarted", {Code: 1}: "the guest powered itself off",
		{Code: 2}: "the guest halted", {Code: 3}: "the guest's processor gave up (triple fault)", {Code: 4}: "bhyve failed",
		{Code: 71}: "bhyve has ended", {Code: 1, Signal: "killed"}: "bhyve has ended"} {
		if got := Why(exit); got != want {
			t.Errorf("%v: %s", exit, got)
		}
	}
}
