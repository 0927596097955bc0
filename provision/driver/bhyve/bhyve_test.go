package bhyve_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/bhyve"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest/bhyve/bhyvetest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

func left(h *bhyvetest.Host) func(driver.Spec) []string {
	return func(spec driver.Spec) []string {
		out := drivertest.Remains(spec)
		m := bhyvetest.State{}
		h.State(&m, func() bool {
			for name, v := range m.VMs {
				if v.Label == spec.Label {
					out = append(out, "machine "+name)
				}
			}
			return false
		})
		return out
	}
}

func TestDriver(t *testing.T) {
	if drivertest.Victim() {
		drivertest.Run(t, bhyve.Driver{}, drivertest.Options{Host: bhyvetest.New(fake.Dir(t))})
		return
	}
	disk, agent := fake.Root(t)
	h := bhyvetest.New(fake.Dir(t))
	drivertest.Run(t, bhyve.Driver{}, drivertest.Options{Host: h, Options: param.Values{"disk": disk}, Agent: agent,
		Left: left(h), Memory: 128 * unit.MiB,
		NoVolume: true, Without: map[string]string{"network": "the fake carries no packets",
			"volumes": "the fake's guest mounts nothing"}})
}

func TestBroken(t *testing.T) {
	t.Parallel()
	disk, agent := fake.Root(t)
	h := bhyvetest.New(t.TempDir())
	fake.Break(t, bhyve.Driver{}, h.Host, driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB,
		Agent:   agent,
		Options: param.Values{"disk": disk, "loader": "uefi", "controller": "nvme"}}, left(h))
}

// A tap is made, put into the bridge, and goes, when the guest cannot take its
// address: the fake's has no vtnet0.
func TestTap(t *testing.T) {
	disk, agent := fake.Root(t)
	h := bhyvetest.New(t.TempDir())
	s := driver.Spec{Label: "bn", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk},
		Network: &netns.Network{Bridge: "bridge7", Addr: netip.MustParsePrefix("198.18.9.2/24"), MAC: "02:b0:00:00:09:02"}}
	if in, err := (bhyve.Driver{}).Create(t.Context(), h, s); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "vtnet0") {
		t.Fatalf("%v, %v", in, err)
	}
	m := bhyvetest.State{}
	h.State(&m, func() bool { return false })
	if len(m.Taps) > 0 || len(left(h)(s)) > 0 {
		t.Errorf("left behind: %v, %v", m.Taps, left(h)(s))
	}
}

func TestFake(t *testing.T) {
	h := bhyvetest.New(t.TempDir())
	for _, argv := range []string{"bhyvectl --vm=x --get-lowmem", "bhyvectl --destroy --vm=x", "bhyvectl --dance",
		"bhyveload -m 1M -d /no x", "bhyve x", "bhyve -s 3:0,floppy,x y", "ifconfig x up", "ifconfig bridge7 addm x"} {
		if exit, err := h.Exec(context.Background(), conn.Command(strings.Fields(argv)...)); err != nil || exit.OK() {
			t.Errorf("%s: %v, %v", argv, exit, err)
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel() // it waits
	disk, agent := fake.Root(t)
	h := bhyvetest.New(t.TempDir())
	fake.Hang(t, bhyve.Driver{}, h.Host, driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB,
		Agent:   agent,
		Options: param.Values{"disk": disk, "boot-timeout": "2s"}}, 2*time.Second, left(h))
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	for _, o := range []param.Values{{"disk": "/d"}, {"disk": "/d", "loader": "uefi"},
		{"disk": "tank/vm/base@clean", "backing": "zvol"}} {
		fake.Inject(t, bhyve.Driver{}, func() *fake.Host { return bhyvetest.New(t.TempDir()).Host },
			driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0},
				Memory: 128 * unit.MiB, Agent: "/agent", Options: o})
	}
}

// A clone of a snapshot is the guest's disk, and goes after the machine that
// has it open; there is no second one of that name.
func TestClone(t *testing.T) {
	disk, agent := fake.Root(t)
	h := bhyvetest.New(t.TempDir())
	if err := os.Link(disk, filepath.Join(h.Dir, "base.raw")); err != nil {
		t.Fatal(err)
	}
	s := driver.Spec{Label: "bz", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": bhyvetest.Snapshot, "backing": "zvol"}}
	in, err := bhyve.Driver{}.Create(t.Context(), h, s)
	if err != nil {
		t.Fatal(err)
	}
	clone := "tank/vm/bakeoff-bz"
	if i := slices.IndexFunc(h.Calls(), func(a []string) bool { return a[0] == "bhyve" }); i < 0 ||
		!slices.Contains(h.Calls()[i], "2:0,virtio-blk,/dev/zvol/"+clone) {
		t.Errorf("the clone is not the disk: %q", h.Calls())
	}
	for _, argv := range []string{"zfs destroy " + clone, "zfs clone " + bhyvetest.Snapshot + " " + clone,
		"zfs clone tank/vm/other@x tank/vm/y", "zfs promote " + clone} {
		if exit, err := h.Exec(t.Context(), conn.Command(strings.Fields(argv)...)); err != nil || exit.OK() {
			t.Errorf("%s: %v, %v", argv, exit, err)
		}
	}
	found, err := bhyve.Driver{}.Reap(t.Context(), h, driver.Leftover{Label: s.Label, Dir: s.Dir}, true)
	if err != nil || !slices.Contains(found, "volume "+clone) {
		t.Errorf("Reap finds %q, %v", found, err)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	m := bhyvetest.State{}
	h.State(&m, func() bool { return false })
	if l := left(h)(s); len(m.Vols)+len(l) > 0 {
		t.Errorf("left behind: %v, %v", m.Vols, l)
	}
}

// Volumes are disks of the guest's controller, after the one with the root: a file, and a zvol
// with its block size. The fake's guest has no such disks, so that it cannot format them, and
// nothing is left.
func TestVolumes(t *testing.T) {
	disk, agent := fake.Root(t)
	h := bhyvetest.New(t.TempDir())
	h.Passed = append(h.Passed, "ls", "cat")
	h.Programs["truncate"] = func(c *fake.Call) int { return c.Real(c.Argv...) }
	h.Programs["test"] = func(c *fake.Call) int { // the device of a zvol is there
		if strings.HasPrefix(fake.Last(c.Argv), "/dev/zvol/tank/vm/bakeoff-") {
			return 0
		}
		return c.Real(c.Argv...)
	}
	s := driver.Spec{Label: "bv", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk, "controller": "nvme"}, Volumes: []volume.Volume{
			{Path: "/raw", Backing: volume.FFS, Size: unit.MiB}, {Path: "/mem", Backing: volume.Tmpfs, Size: unit.MiB},
			{Path: "/zvol", Backing: volume.Zvol, Size: unit.MiB, Pool: "tank/vm",
				Properties: map[string]string{"volblocksize": "64KiB"}}}}
	_, err := bhyve.Driver{}.Create(t.Context(), h, s)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "no disk with the number 1 among nda nvd") {
		t.Errorf("a guest without the disks: %v", err)
	}
	var called []string
	for _, argv := range h.Calls() {
		called = append(called, strings.Join(argv, " "))
	}
	all := strings.Join(called, "\n")
	for _, want := range []string{"truncate -s 1048576 " + s.Dir + "/volume-2f726177.ffs",
		"zfs create -V 1048576 -o volblocksize=65536 tank/vm/bakeoff-",
		"-s 4:0,nvme," + s.Dir + "/volume-2f726177.ffs -s 5:0,nvme,/dev/zvol/tank/vm/bakeoff-"} {
		if !strings.Contains(all, want) {
			t.Errorf("not called: %s\n%s", want, all)
		}
	}
	m := bhyvetest.State{}
	h.State(&m, func() bool { return false })
	if l := left(h)(s); len(m.Vols)+len(l) > 0 {
		t.Errorf("left behind: %v, %v", m.Vols, l)
	}
}
