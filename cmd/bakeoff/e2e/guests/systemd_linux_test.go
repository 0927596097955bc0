package guests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/provision/vm/manifest"
)

// A host on which systemd is PID 1 holds its guests in units. Guests with autoboot come back
// after a reboot, before which they were shut down, and after a power cut; stopped ones do
// not. The host is a Debian under emulation, and its guests are containers.
func TestSystemdHoldsGuests(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	d := buildDebian(t, "crun,systemd-container,lxc", func(root string) {
		programs := filepath.Dir(h.Command().Path)
		for _, name := range []string{"bakeoff", "bakeoff-agent"} {
			copyFile(t, filepath.Join(programs, name), filepath.Join(root, "usr/local/bin", name), 0o755)
		}
		dir := tiny(t, h)
		for name, mode := range map[string]os.FileMode{"wait": 0o755, "service.yaml": 0o644} {
			copyFile(t, filepath.Join(dir, name), filepath.Join(root, "srv/tiny", name), mode)
		}
		writeIn(t, root, "etc/systemd/system/serial-getty@ttyS0.service.d/shell.conf",
			"[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 %I dumb\n", 0o644)
	})
	do(t, h, "create", "-f", file(t, "host.json", d.manifest("host", `, "restart": "always"`)))
	c := &console{h: h, uuid: guest(t, h, "host").UUID}
	c.await(t)
	if got := c.run(t, "bakeoff vm service install 2>&1"); !strings.Contains(got, "nothing was changed; add --yes") {
		t.Errorf("without --yes: %s", got)
	}
	c.run(t, "! ls /etc/systemd/system/bakeoff*")
	for _, guest := range [][2]string{{"a", manifest.Crun}, {"b", manifest.Nspawn}, {"c", manifest.LXC},
		{"stopped", manifest.Crun}} {
		c.run(t, "bakeoff vm run /srv/tiny --memory 32MiB --name "+guest[0]+" --driver "+guest[1])
		if guest[0] == "a" { // without the installed units
			c.run(t, "systemctl is-active bakeoff-vm@$(bakeoff vm lookup alias=a) && bakeoff vm service install --yes")
		}
	}
	c.run(t, "bakeoff vm stop stopped")
	const states = "bakeoff vm list -p -s alias -o alias,state"
	const want = "a:running\nb:running\nc:running\nstopped:stopped"
	if got := c.run(t, states); got != want {
		t.Fatalf("before the reboot: %s", got)
	}
	got := c.run(t, "systemctl is-active $(bakeoff vm lookup | sed s/^/bakeoff-vm@/); true")
	if strings.Count(got, "active") != 4 || strings.Count(got, "inactive") != 1 {
		t.Errorf("the units are %s", got)
	}
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boots := map[string]bool{c.run(t, bootID): true}
	comeBack := func(after string) {
		t.Helper()
		got := ""
		for end := time.Now().Add(bootLimit); time.Now().Before(end); time.Sleep(time.Second) {
			c.await(t)
			id, code, ok := c.try(bootID, 10*time.Second)
			if !ok || code != "0" || boots[id] {
				continue // the host has not gone yet
			}
			if got, _, _ = c.try(states, time.Minute); got == want {
				boots[id] = true
				return
			}
		}
		t.Fatalf("after %s: %s", after, got)
	}
	c.try("systemctl reboot", 10*time.Second)
	comeBack("a reboot")
	// Four were shut down by then: three with the host.
	if got := c.run(t, `cat /var/lib/bakeoff/vm/*/journal.ndjson | grep -c "asked to end"`); got != "3" {
		t.Errorf("%s guests were shut down with the host", got)
	}
	killProcesses(t, h.Dir, "guest="+c.uuid) // the power is cut
	comeBack("a power cut")
	if got := c.run(t, `cat /var/lib/bakeoff/vm/*/journal.ndjson | grep -c "asked to end"`); got != "3" {
		t.Errorf("%s guests were shut down before the power was cut", got)
	}
	c.run(t, "bakeoff vm service remove --yes && ! ls /etc/systemd/system/bakeoff*")
	c.run(t, "for g in $(bakeoff vm lookup); do bakeoff vm delete $g || exit 1; done")
	if got := c.run(t, "bakeoff vm list -H; systemctl list-units --all --plain --no-legend 'bakeoff-vm@*'"); got != "" {
		t.Errorf("left are %s", got)
	}
	do(t, h, "delete", "host")
	leavesNothing(t, h)
}
