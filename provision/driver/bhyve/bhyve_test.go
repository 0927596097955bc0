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
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

type freebsd struct {
	VMs  map[string]*vm
	Taps map[string]string // interface → bridge
	N    int
	Vols []string // clones of the one snapshot that there is
}

type vm struct {
	Loaded, Running bool
	Label           string
}

func host(dir string) *fake.Host {
	with := func(f func(c *fake.Call, m *freebsd) int) fake.Program {
		return func(c *fake.Call) (code int) {
			m := freebsd{VMs: map[string]*vm{}, Taps: map[string]string{}}
			if err := c.Host.State(&m, func() bool { code = f(c, &m); return code == 0 }); err != nil {
				return c.Failf("%v", err)
			}
			return code
		}
	}
	fixed := func(out string) fake.Program {
		return func(c *fake.Call) int { c.Printf("%s\n", out); return 0 }
	}
	return &fake.Host{Dir: dir, Passed: []string{"cp"}, Programs: map[string]fake.Program{
		"uname": func(c *fake.Call) int {
			c.Printf("%s\n", map[string]string{"-s": "FreeBSD", "-r": "14.2-RELEASE"}[c.Argv[1]])
			return 0
		},
		"id": fixed("0"), "sysctl": fixed("beavis"), "ifconfig": with(ifconfig), "bhyvectl": with(bhyvectl),
		"bhyveload": with(bhyveload),
		"bhyve":     run, "zfs": with(zfs),
		"pgrep": with(func(c *fake.Call, m *freebsd) int {
			for name, v := range m.VMs {
				if n, err := fake.Populated(c.Ctx, v.Label); err == nil && n > 0 &&
					strings.HasPrefix(c.Argv[2], "bhyve: "+name+"(") {
					c.Printf("77\n")
					return 0
				}
			}
			return 1
		}),
	}}
}

func ifconfig(c *fake.Call, m *freebsd) int {
	a := c.Argv[1:]
	if strings.Join(a, " ") == "tap create" {
		c.Printf("tap%d\n", m.N)
		m.Taps["tap"+string(rune('0'+m.N%10))], m.N = "", m.N+1
		return 0
	}
	_, there := m.Taps[a[0]]
	switch {
	case len(a) == 3 && a[1] == "addm" && a[0] == "bridge7":
		if in, ok := m.Taps[a[2]]; !ok || in != "" {
			return c.Failf("BRDGADD %s: Device busy", a[2])
		}
		m.Taps[a[2]] = a[0]
	case !there:
		return c.Failf("interface %s does not exist", a[0])
	case len(a) == 3 && a[1] == "name" && len(a[2]) <= 15:
		delete(m.Taps, a[0])
		m.Taps[a[2]] = ""
	case len(a) == 2 && a[1] == "destroy":
		delete(m.Taps, a[0])
	case len(a) == 1, len(a) == 2 && a[1] == "up":
	default:
		return c.Failf("bad value %q", a)
	}
	return 0
}

func bhyvectl(c *fake.Call, m *freebsd) int {
	var name string
	var destroy bool
	for _, a := range c.Argv[1:] {
		if n, ok := strings.CutPrefix(a, "--vm="); ok {
			name = n
		} else if a == "--destroy" {
			destroy = true
		} else if a != "--get-lowmem" {
			return c.Failf("unrecognized option %s", a)
		}
	}
	v := m.VMs[name]
	if v == nil {
		return c.Failf("VM:%s is not created.", name)
	}
	if destroy {
		if err := fake.Empty(v.Label); err != nil {
			return c.Failf("%v", err)
		}
		os.RemoveAll(filepath.Join(c.Host.Dir, "guests", name))
		delete(m.VMs, name)
	}
	return 0
}

const snapshot = "tank/vm/base@clean"

// zfs has one snapshot of a volume, whose content is the file base.raw.
func zfs(c *fake.Call, m *freebsd) int {
	a := c.Argv[1:]
	switch {
	case strings.Join(a, " ") == "list -H -t volume -o name,mountpoint":
		c.Printf("tank/vm/base\t-\n")
		for _, v := range m.Vols {
			c.Printf("%s\t-\n", v)
		}
	case len(a) == 3 && a[0] == "clone" && a[1] == snapshot && !slices.Contains(m.Vols, a[2]) &&
		strings.HasPrefix(a[2], "tank/vm/"):
		m.Vols = append(m.Vols, a[2])
	case strings.Join(a, " ") == "list -H -o name tank/vm", len(a) == 5 && a[0] == "list" && slices.Contains(m.Vols, a[4]):
	case a[0] == "create" && a[1] == "-V":
		m.Vols = append(m.Vols, a[len(a)-1])
	case len(a) == 3 && a[0] == "destroy" && a[1] == "-f" && slices.Contains(m.Vols, a[2]):
		if len(m.VMs) > 0 {
			return c.Failf("cannot destroy '%s': dataset is busy", a[2])
		}
		m.Vols = slices.DeleteFunc(m.Vols, func(v string) bool { return v == a[2] })
	case len(a) == 2 && a[0] == "destroy" && slices.Contains(m.Vols, a[1]):
		if v := m.VMs[filepath.Base(a[1])]; v != nil {
			return c.Failf("cannot destroy '%s': dataset is busy", a[1])
		}
		m.Vols = slices.DeleteFunc(m.Vols, func(v string) bool { return v == a[1] })
	default:
		return c.Failf("cannot %q", a)
	}
	return 0
}

// content is the file with what a disk holds.
func (m *freebsd) content(h *fake.Host, disk string) string {
	if v, ok := strings.CutPrefix(disk, "/dev/zvol/"); ok && slices.Contains(m.Vols, v) {
		return filepath.Join(h.Dir, "base.raw")
	}
	return disk
}

func bhyveload(c *fake.Call, m *freebsd) int {
	flags, rest, err := fake.Options(c.Argv[1:], "CSc:d:e:h:l:m:")
	if err != nil || len(rest) != 1 || !strings.HasSuffix(fake.Last(flags['m']), "M") {
		return c.Failf("usage: %v", err)
	}
	if _, err := os.Stat(m.content(c.Host, fake.Last(flags['d']))); err != nil || m.VMs[rest[0]] != nil {
		return c.Failf("vm_create: File exists, or no disk: %v", err)
	}
	m.VMs[rest[0]] = &vm{Loaded: true, Label: strings.TrimPrefix(rest[0], "bakeoff-")}
	return 0
}

// run is bhyve: it goes on as long as the guest does.
func run(c *fake.Call) int {
	flags, rest, err := fake.Options(c.Argv[1:], "AaCDeHhPSuWwxYc:f:g:G:k:K:l:m:n:o:p:r:s:U:")
	if err != nil || len(rest) != 1 {
		c.Failf("usage: %v", err)
		return 4
	}
	name := rest[0]
	var disk, socket string
	for _, s := range flags['s'] {
		f := strings.Split(s, ",")
		switch f[1] {
		case "hostbridge", "lpc", "virtio-net":
		case "virtio-blk", "nvme", "ahci-hd":
			if strings.HasPrefix(s, "3:0,") { // the others are volumes
				disk = f[2]
			}
		case "virtio-console":
			_, socket, _ = strings.Cut(f[2], "=")
		default:
			c.Failf("unknown device %q", s)
			return 4
		}
	}
	rom := len(flags['l']) == 2 && strings.HasPrefix(flags['l'][1], "bootrom,")
	m := freebsd{VMs: map[string]*vm{}, Taps: map[string]string{}}
	ok := false
	c.Host.State(&m, func() bool {
		v := m.VMs[name]
		if v == nil && rom {
			v = &vm{Loaded: true, Label: strings.TrimPrefix(name, "bakeoff-")}
			m.VMs[name] = v
		}
		ok = v != nil && v.Loaded && !v.Running
		disk = m.content(c.Host, disk)
		if ok {
			v.Running = true
		}
		return ok
	})
	root, err := "", error(nil)
	if ok {
		root, err = c.Host.Install(disk, name)
	}
	if !ok || err != nil {
		c.Failf("the machine %s cannot run: %v", name, err)
		return 4
	}
	c.Serve(c.Ctx, socket, fake.Place{Label: strings.TrimPrefix(name, "bakeoff-"), Root: root, CPUSet: []int{0},
		Memory: 128 * unit.MiB}, nil)
	return 0
}

func left(h *fake.Host) func(driver.Spec) []string {
	return func(spec driver.Spec) []string {
		out := drivertest.Remains(spec)
		m := freebsd{}
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
		drivertest.Run(t, bhyve.Driver{}, drivertest.Options{Host: host(fake.Dir(t))})
		return
	}
	disk, agent := fake.Root(t)
	h := host(fake.Dir(t))
	drivertest.Run(t, bhyve.Driver{}, drivertest.Options{Host: h, Options: param.Values{"disk": disk}, Agent: agent,
		Left: left(h), Memory: 128 * unit.MiB,
		NoVolume: true, Without: map[string]string{"network": "the fake carries no packets",
			"volumes": "the fake's guest mounts nothing"}})
}

func TestBroken(t *testing.T) {
	t.Parallel()
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	fake.Break(t, bhyve.Driver{}, h, driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB,
		Agent:   agent,
		Options: param.Values{"disk": disk, "loader": "uefi", "controller": "nvme"}}, left(h))
}

// A tap is made, put into the bridge, and goes, when the guest cannot take its
// address: the fake's has no vtnet0.
func TestTap(t *testing.T) {
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	s := driver.Spec{Label: "bn", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk},
		Network: &netns.Network{Bridge: "bridge7", Addr: netip.MustParsePrefix("198.18.9.2/24"), MAC: "02:b0:00:00:09:02"}}
	if in, err := (bhyve.Driver{}).Create(t.Context(), h, s); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "vtnet0") {
		t.Fatalf("%v, %v", in, err)
	}
	m := freebsd{}
	h.State(&m, func() bool { return false })
	if len(m.Taps) > 0 || len(left(h)(s)) > 0 {
		t.Errorf("left behind: %v, %v", m.Taps, left(h)(s))
	}
}

func TestFake(t *testing.T) {
	h := host(t.TempDir())
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
	h := host(t.TempDir())
	fake.Hang(t, bhyve.Driver{}, h, driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB,
		Agent:   agent,
		Options: param.Values{"disk": disk, "boot-timeout": "2s"}}, 2*time.Second, left(h))
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	for _, o := range []param.Values{{"disk": "/d"}, {"disk": "/d", "loader": "uefi"},
		{"disk": "tank/vm/base@clean", "backing": "zvol"}} {
		fake.Inject(t, bhyve.Driver{}, func() *fake.Host { return host(t.TempDir()) },
			driver.Spec{Label: "bt", CPUs: 1, CPUSet: []int{0},
				Memory: 128 * unit.MiB, Agent: "/agent", Options: o})
	}
}

// A clone of a snapshot is the guest's disk, and goes after the machine that
// has it open; there is no second one of that name.
func TestClone(t *testing.T) {
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	if err := os.Link(disk, filepath.Join(h.Dir, "base.raw")); err != nil {
		t.Fatal(err)
	}
	s := driver.Spec{Label: "bz", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 128 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": snapshot, "backing": "zvol"}}
	in, err := bhyve.Driver{}.Create(t.Context(), h, s)
	if err != nil {
		t.Fatal(err)
	}
	clone := "tank/vm/bakeoff-bz"
	if i := slices.IndexFunc(h.Calls(), func(a []string) bool { return a[0] == "bhyve" }); i < 0 ||
		!slices.Contains(h.Calls()[i], "3:0,virtio-blk,/dev/zvol/"+clone) {
		t.Errorf("the clone is not the disk: %q", h.Calls())
	}
	for _, argv := range []string{"zfs destroy " + clone, "zfs clone " + snapshot + " " + clone,
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
	m := freebsd{}
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
	h := host(t.TempDir())
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
		"-s 8:0,nvme," + s.Dir + "/volume-2f726177.ffs -s 9:0,nvme,/dev/zvol/tank/vm/bakeoff-"} {
		if !strings.Contains(all, want) {
			t.Errorf("not called: %s\n%s", want, all)
		}
	}
	m := freebsd{}
	h.State(&m, func() bool { return false })
	if l := left(h)(s); len(m.Vols)+len(l) > 0 {
		t.Errorf("left behind: %v, %v", m.Vols, l)
	}
}
