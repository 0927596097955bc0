// Package bhyvetest is a double of a FreeBSD with bhyve for tests. It knows what the manuals say
// about the programs, and refuses the rest. Its guests are empty, or programs on this machine below
// a root of their own.
package bhyvetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest/bhyve"
)

// Snapshot is the one snapshot of a volume that there is. Its content is the file base.raw in the
// folder of the host.
const Snapshot = "tank/vm/base@clean"

// State is what the kernel knows. It outlives processes.
type State struct {
	VMs  map[string]*VM
	Taps map[string]string // interface → bridge
	N    int               // of the next tap device
	Vols []string          // clones of Snapshot, and other volumes
}

// VM is a machine, which exists until it is destroyed.
type VM struct {
	Loaded, Running bool
	Label           string // of the control group of its programs
}

// Host is a host with bhyve.
type Host struct {
	*fake.Host
	// NoFirmware is a host without the package edk2-bhyve.
	NoFirmware bool
	// Starts is what a guest does when it starts; nil runs on.
	Starts func(*Machine)
	// HasTap finds tap devices that another double has made; nil finds none.
	HasTap func(name string) bool
	// Deaf are guests that do nothing if their power button is pressed.
	Deaf bool

	mu   sync.Mutex
	live []*Machine
}

// New is a host whose state is in a folder.
func New(dir string) *Host {
	h := &Host{}
	with := func(f func(c *fake.Call, m *State) int) fake.Program {
		return func(c *fake.Call) (code int) {
			m := State{VMs: map[string]*VM{}, Taps: map[string]string{}}
			if err := c.Host.State(&m, func() bool { code = f(c, &m); return code == 0 }); err != nil {
				return c.Failf("%v", err)
			}
			return code
		}
	}
	fixed := func(out string) fake.Program {
		return func(c *fake.Call) int { c.Printf("%s\n", out); return 0 }
	}
	h.Host = &fake.Host{Dir: dir, Programs: map[string]fake.Program{
		"uname": func(c *fake.Call) int {
			c.Printf("%s\n", map[string]string{"-s": "FreeBSD", "-r": "14.2-RELEASE"}[c.Argv[1]])
			return 0
		},
		"id": fixed("0"), "sysctl": fixed("beavis"), "ifconfig": with(ifconfig), "bhyvectl": with(h.bhyvectl),
		"bhyveload": with(bhyveload), "bhyve": h.run, "zfs": with(zfs), "makefs": makefs,
		"pgrep": with(h.pgrep), "pkill": h.pkill, "test": h.test, "cp": copyFile,
		"kldstat": func(*fake.Call) int { return 0 },
	}}
	return h
}

// Machine is the last one with a name that was started in this process; nil if it does not run.
func (h *Host) Machine(name string) *Machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range slices.Backward(h.live) {
		if m.Name == name {
			return m
		}
	}
	return nil
}

func (h *Host) add(m *Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = append(h.live, m)
}

func (h *Host) drop(m *Machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = slices.DeleteFunc(h.live, func(x *Machine) bool { return x == m })
}

// NewVariables is the content of the file with the variables of a firmware that never ran.
const NewVariables = "no variables\n"

// copyFile is cp. The firmware is not on this machine.
func copyFile(c *fake.Call) int {
	if len(c.Argv) != 3 || c.Argv[1] != bhyve.FirmwareVariables {
		return c.Real(c.Argv...)
	}
	if err := os.WriteFile(c.Argv[2], []byte(NewVariables), 0o644); err != nil {
		return c.Failf("%v", err)
	}
	return 0
}

func (h *Host) test(c *fake.Call) int {
	if len(c.Argv) == 3 && c.Argv[1] == "-e" && slices.Contains([]string{bhyve.Firmware, bhyve.FirmwareCode,
		bhyve.FirmwareVariables}, c.Argv[2]) {
		if h.NoFirmware {
			return 1
		}
		return 0
	}
	return c.Real(c.Argv...)
}

// named is the machine whose process a pattern of pgrep means.
func named(argv []string, flags ...string) (string, bool) {
	if len(argv) != len(flags)+2 || !slices.Equal(argv[1:len(argv)-1], flags) {
		return "", false
	}
	name, ok := strings.CutPrefix(argv[len(argv)-1], "bhyve: ")
	return strings.TrimSuffix(name, "( |$)"), ok && strings.HasSuffix(name, "( |$)")
}

func (h *Host) pgrep(c *fake.Call, m *State) int {
	name, ok := named(c.Argv, "-f")
	if !ok {
		return c.Failf("%q", c.Argv)
	}
	v := m.VMs[name]
	if v == nil {
		return 1
	}
	if n, err := fake.Populated(c.Ctx, v.Label); h.Machine(name) == nil && (err != nil || n == 0) {
		return 1
	}
	c.Printf("77\n")
	return 0
}

func (h *Host) pkill(c *fake.Call) int {
	name, ok := named(c.Argv, "-TERM", "-f")
	m := h.Machine(name)
	if !ok || m == nil {
		return 1
	}
	if !h.Deaf {
		m.End(bhyve.PoweredOff)
	}
	return 0
}

func ifconfig(c *fake.Call, m *State) int {
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

func (h *Host) bhyvectl(c *fake.Call, m *State) int {
	var name, do string
	for _, a := range c.Argv[1:] {
		if n, ok := strings.CutPrefix(a, "--vm="); ok {
			name = n
		} else if slices.Contains([]string{"--destroy", "--inject-nmi", "--get-lowmem"}, a) {
			do = a
		} else {
			return c.Failf("unrecognized option %s", a)
		}
	}
	v, process := m.VMs[name], h.Machine(name)
	switch {
	case v == nil:
		return c.Failf("VM:%s is not created.", name)
	case do == "--inject-nmi" && process != nil:
		process.interrupted()
	case do == "--destroy":
		if process != nil {
			process.End(bhyve.Failed)
		}
		if err := fake.Empty(v.Label); err != nil {
			return c.Failf("%v", err)
		}
		os.RemoveAll(filepath.Join(c.Host.Dir, "guests", name))
		delete(m.VMs, name)
	}
	return 0
}

// zfs has one snapshot of a volume.
func zfs(c *fake.Call, m *State) int {
	a := c.Argv[1:]
	switch {
	case strings.Join(a, " ") == "list -H -t volume -o name,mountpoint":
		c.Printf("tank/vm/base\t-\n")
		for _, v := range m.Vols {
			c.Printf("%s\t-\n", v)
		}
	case len(a) == 3 && a[0] == "clone" && a[1] == Snapshot && !slices.Contains(m.Vols, a[2]) &&
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
func (m *State) content(h *fake.Host, disk string) string {
	if v, ok := strings.CutPrefix(disk, "/dev/zvol/"); ok && slices.Contains(m.Vols, v) {
		return filepath.Join(h.Dir, "base.raw")
	}
	return disk
}

func bhyveload(c *fake.Call, m *State) int {
	flags, rest, err := fake.Options(c.Argv[1:], "CSc:d:e:h:l:m:")
	if err != nil || len(rest) != 1 || !strings.HasSuffix(fake.Last(flags['m']), "M") {
		return c.Failf("usage: %v", err)
	}
	if _, err := os.Stat(m.content(c.Host, fake.Last(flags['d']))); err != nil || m.VMs[rest[0]] != nil {
		return c.Failf("vm_create: File exists, or no disk: %v", err)
	}
	m.VMs[rest[0]] = &VM{Loaded: true, Label: labelOf(rest[0])}
	return 0
}

func labelOf(name string) string { return strings.TrimPrefix(name, "bakeoff-") }

// makefs makes a file with the names and the contents of the files in a folder.
func makefs(c *fake.Call) int {
	flags, rest, err := fake.Options(c.Argv[1:], "B:b:d:F:f:M:m:N:O:o:R:s:S:T:t:xDZ")
	if err != nil || len(rest) != 2 || fake.Last(flags['t']) != "cd9660" || !slices.Contains(flags['o'], "rockridge") {
		return c.Failf("usage: %v", err)
	}
	entries, err := os.ReadDir(rest[1])
	text := strings.Join(flags['o'], " ") + "\n"
	for _, e := range entries {
		b, rerr := os.ReadFile(filepath.Join(rest[1], e.Name()))
		if rerr != nil {
			return c.Failf("%v", rerr)
		}
		text += e.Name() + ":\n" + string(b)
	}
	if err == nil {
		err = os.WriteFile(rest[0], []byte(text), 0o644)
	}
	if err != nil {
		return c.Failf("%v", err)
	}
	return 0
}

// exists tells whether a disk of bhyve exists.
func (m *State) exists(disk string) error {
	if v, ok := strings.CutPrefix(disk, "/dev/zvol/"); ok && slices.Contains(m.Vols, v) {
		return nil
	}
	_, err := os.Stat(disk)
	return err
}

// lines reads a file of -k.
func lines(file string) (map[string]string, error) {
	b, err := os.ReadFile(file)
	out := map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		key, value, ok := strings.Cut(line, "=")
		if err == nil && (!ok || value == "") {
			err = fmt.Errorf("%s: invalid config option '%s'", file, line)
		}
		out[key] = strings.ReplaceAll(value, "%%", "%")
	}
	return out, err
}
