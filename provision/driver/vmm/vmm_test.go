package vmm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/driver/vmm"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

type openbsd struct {
	VMs map[string]int // name → number
	N   int
}

func label(name string) string { return strings.TrimPrefix(name, "bakeoff-") }

// host is a fake OpenBSD. A guest serves while vmctl waits for its end.
func host(dir string) *fake.Host {
	state := func(c *fake.Call, f func(m *openbsd) bool) {
		m := openbsd{VMs: map[string]int{}}
		if err := c.Host.State(&m, func() bool { return f(&m) }); err != nil {
			c.Failf("%v", err)
		}
	}
	socket := func(id int) string { return filepath.Join(dir, fmt.Sprintf("s%d", id)) }
	vmctl := func(c *fake.Call) (code int) {
		flags, rest, err := fake.Options(c.Argv[min(2, len(c.Argv)):], "b:d:m:Lcfwi:n:B:r:t:s:")
		if err != nil || len(c.Argv) < 2 {
			return c.Failf("usage: %v", err)
		}
		switch what := c.Argv[1]; {
		case what == "status" && len(rest) == 0:
			c.Printf("   ID   PID VCPUS  MAXMEM  CURMEM     TTY        OWNER    STATE NAME\n")
			state(c, func(m *openbsd) bool {
				for name, id := range m.VMs {
					c.Printf("%5d %5d     1    128M    120M   ttyp1         root  running %s\n", id, 1000+id, name)
				}
				return false
			})
			return 0
		case what == "create" && len(rest) == 1 && flags['s'] != nil:
			return c.Real("truncate", "-s", fake.Last(flags['s']), rest[0])
		case what == "create" && len(rest) == 1:
			return c.Real("cp", fake.Last(flags['b']), rest[0])
		case what == "start" && len(rest) == 1:
			disk, ok := strings.CutPrefix(flags['d'][0], "qcow2:")
			code = 1
			state(c, func(m *openbsd) bool {
				if _, there := m.VMs[rest[0]]; there || !ok || flags['L'] == nil || m.N > 200 {
					return false
				}
				if _, err := c.Host.Install(disk, rest[0]); err != nil {
					return false
				}
				m.N++
				m.VMs[rest[0]], code = m.N, 0
				return true
			})
			return code
		case what == "wait" && len(rest) == 1:
			id := 0
			state(c, func(m *openbsd) bool { id = m.VMs[rest[0]]; return false })
			if id == 0 {
				return c.Failf("vm not found")
			}
			os.Remove(socket(id))
			c.Serve(c.Ctx, socket(id), fake.Place{Label: label(rest[0]), Root: filepath.Join(dir, "guests", rest[0]),
				CPUSet: []int{0}, Memory: 96 * unit.MiB}, nil)
			return 0
		case what == "stop" && len(rest) == 1 && flags['f'] != nil && flags['w'] != nil:
			code = 1
			state(c, func(m *openbsd) bool {
				if _, there := m.VMs[rest[0]]; !there || fake.Empty(label(rest[0])) != nil {
					return false
				}
				os.RemoveAll(filepath.Join(dir, "guests", rest[0]))
				delete(m.VMs, rest[0])
				code = 0
				return true
			})
			return code
		}
		return c.Failf("usage: %q", c.Argv)
	}
	return &fake.Host{Dir: dir, Programs: map[string]fake.Program{"vmctl": vmctl,
		"uname": func(c *fake.Call) int {
			c.Printf("%s\n", map[string]string{"-s": "OpenBSD", "-r": "7.6"}[c.Argv[1]])
			return 0
		},
		"id": func(c *fake.Call) int { c.Printf("0\n"); return 0 },
	}, Links: func(network, address string) (string, string, bool) {
		var id int
		_, err := fmt.Sscanf(address, "100.64.%d.3:7311", &id)
		return "unix", socket(id), err == nil && network == "tcp"
	}}
}

func left(h *fake.Host) func(driver.Spec) []string {
	return func(spec driver.Spec) []string {
		out := drivertest.Remains(spec)
		m := openbsd{}
		h.State(&m, func() bool { return false })
		if _, there := m.VMs["bakeoff-"+spec.Label]; there {
			out = append(out, "machine "+spec.Label)
		}
		return out
	}
}

func TestDriver(t *testing.T) {
	if drivertest.Victim() {
		drivertest.Run(t, vmm.Driver{}, drivertest.Options{Host: host(fake.Dir(t))})
		return
	}
	disk, agent := fake.Root(t)
	h := host(fake.Dir(t))
	drivertest.Run(t, vmm.Driver{}, drivertest.Options{Host: h, Options: param.Values{"disk": disk}, Agent: agent,
		Left:     left(h),
		NoVolume: true, Without: map[string]string{"network": "no address of the experiment's yet",
			"volumes": "the fake's guest mounts nothing"}})
}

func TestBroken(t *testing.T) {
	t.Parallel()
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	fake.Break(t, vmm.Driver{}, h, driver.Spec{Label: "vt", CPUs: 1, CPUSet: []int{0}, Memory: 96 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk, "kernel": "/bsd"}}, left(h))
}

func TestFake(t *testing.T) {
	h := host(t.TempDir())
	for _, argv := range []string{"vmctl", "vmctl dance", "vmctl start -Z x", "vmctl start -d raw x",
		"vmctl stop -f -w x", "vmctl wait x"} {
		if exit, err := h.Exec(context.Background(), conn.Command(strings.Fields(argv)...)); err != nil || exit.OK() {
			t.Errorf("%s: %v, %v", argv, exit, err)
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel() // it waits
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	fake.Hang(t, vmm.Driver{}, h, driver.Spec{Label: "vt", CPUs: 1, CPUSet: []int{0}, Memory: 96 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk, "boot-timeout": "2s"}}, 2*time.Second, left(h))
}

// Nothing that a lab file says is read by a program as more than a name.
func TestInjection(t *testing.T) {
	fake.Inject(t, vmm.Driver{}, func() *fake.Host { return host(t.TempDir()) },
		driver.Spec{Label: "vt", CPUs: 1, CPUSet: []int{0},
			Memory: 96 * unit.MiB, Agent: "/agent", Options: param.Values{"disk": "/d"}})
}

// A volume is a raw disk after the one with the root. The fake's guest has no such disk, so
// that it cannot format it, and nothing is left.
func TestVolumes(t *testing.T) {
	disk, agent := fake.Root(t)
	h := host(t.TempDir())
	s := driver.Spec{Label: "vv", Dir: t.TempDir(), CPUs: 1, CPUSet: []int{0}, Memory: 96 * unit.MiB, Agent: agent,
		Options: param.Values{"disk": disk}, Volumes: []volume.Volume{
			{Path: "/data", Backing: volume.FFS, Size: 3*unit.MiB - 1}}}
	_, err := vmm.Driver{}.Create(t.Context(), h, s)
	if !fault.Is(err, fault.Subject) {
		t.Errorf("a guest without the disk: %v", err)
	}
	var all strings.Builder
	for _, argv := range h.Calls() {
		fmt.Fprintln(&all, strings.Join(argv, " "))
	}
	for _, want := range []string{"vmctl create -s 3M " + s.Dir + "/volume0.img", "-d raw:" + s.Dir + "/volume0.img"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("not called: %s\n%s", want, all.String())
		}
	}
	if l := left(h)(s); len(l) > 0 {
		t.Errorf("left behind: %v", l)
	}
}
