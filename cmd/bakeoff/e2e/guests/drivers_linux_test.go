package guests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// needsDriver skips a test if the program of a driver that text names is missing.
func needsDriver(t *testing.T, text string) {
	t.Helper()
	for driver, needs := range map[string][2]string{manifest.Runc: {"runc", "runc"}, manifest.LXC: {"lxc-start", "lxc"},
		manifest.Nspawn: {"systemd-nspawn", "systemd-container"}} {
		if _, err := exec.LookPath(needs[0]); err != nil && strings.HasSuffix(text, driver) {
			t.Skipf("needs %s: apt-get install %s", needs[0], needs[1])
		}
	}
}

// patient is a program that prints that it has begun, and that it ends when it is asked to.
const patient = `trap 'echo ended; exit 3' TERM
echo begun
while :; do
	/bin/busybox sleep 1000000 &
	wait
done
`

// Each driver of containers gives a guest the same life: its folders, its metadata, its network
// and its limits, its console, a clean end, snapshots, and nothing that is left.
func TestDrivers(t *testing.T) {
	h := networkHome(t)
	at := filepath.Join(h.Dir, "patient")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "patient"), []byte(patient), 0o600); err != nil {
		t.Fatal(err)
	}
	image := box(t, h, "patient", []string{"/bin/busybox", "sh", "/patient"}, "patient")
	do(t, h, "network", "create", "back", "--subnet", "10.8.0.0/24")
	for _, driver := range manifest.Docker.Drivers() {
		t.Run(driver, func(t *testing.T) {
			needsDriver(t, driver)
			d := driven{Home: h, driver: driver, shared: t.TempDir()}
			d.create(t, image)
			d.checkInside(t)
			d.checkLife(t)
			d.checkKilled(t)
			removeGuests(t, h)
			d.leavesNothing(t)
		})
	}
	removeNetworks(t, h)
}

// driven is a guest of a driver, with the alias g.
type driven struct {
	e2e.Home
	driver string
	shared string // a folder of this machine
	uuid   string
}

func (d *driven) create(t *testing.T, image string) {
	t.Helper()
	do(t, d.Home, "create", "-f", file(t, "g.yaml", fmt.Sprintf(`
brand: lx
driver: %s
alias: g
image: %s
ram: 64
cpu_cap: 50
user: "1000:1000"
nics: [{nic_tag: back, ips: 10.8.0.2/24}]
customer_metadata: {greeting: hello}
filesystems:
  - {source: %[3]s, target: /shared, type: lofs}
  - {source: %[3]s, target: /fixed/part, type: lofs, options: [ro]}
`, d.driver, image, d.shared)))
	g := guest(t, d.Home, "g")
	d.uuid = g.UUID
	if g.Driver != d.driver || g.State != vm.Running {
		t.Errorf("it is %+v", g)
	}
	if got := do(t, d.Home, "list", "-H", "-o", "alias,driver,state", "driver="+d.driver); got !=
		"g  "+d.driver+"  running" {
		t.Errorf("list prints %q", got)
	}
	d.says(t, "begun", 1)
}

// says waits until the console has a line a number of times.
func (d *driven) says(t *testing.T, line string, times int) {
	t.Helper()
	var logs string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if logs = do(t, d.Home, "logs", "g"); strings.Count(logs, line) == times {
			return
		}
	}
	t.Fatalf("the console has %q instead of %d times %q", logs, times, line)
}

// sh executes a line of shell in the guest.
func (d *driven) sh(t *testing.T, line string) string {
	t.Helper()
	return do(t, d.Home, "exec", "g", "--", "/bin/busybox", "sh", "-c", line)
}

// holders are the programs of this machine that hold the containers of drivers.
var holders = map[string]string{manifest.Nspawn: "systemd-nspawn", manifest.LXC: "lxc-start"}

// checkInside looks at what a program in the guest sees, and at what holds the guest.
func (d *driven) checkInside(t *testing.T) {
	t.Helper()
	var held []string
	for _, p := range processes(t, "vm-"+d.uuid) {
		_, line, _ := strings.Cut(p, " ")
		program, _, _ := strings.Cut(line, " ")
		held = append(held, filepath.Base(program))
	}
	filter, want := "0", []string(nil)
	if holder := holders[d.driver]; holder != "" { // these have a filter of system calls
		filter, want = "2", []string{holder}
	}
	if !slices.Equal(held, want) {
		t.Errorf("the guest is held by %q instead of %q", held, want)
	}
	if got := d.sh(t, "/bin/busybox sed -n 's/^Seccomp:.//p' /proc/self/status"); got != filter {
		t.Errorf("the filter of system calls is %s instead of %s", got, filter)
	}
	const greeting = "/bin/busybox cat /var/lib/bakeoff/metadata/customer_metadata/greeting"
	if got := d.sh(t, greeting); got != "hello" {
		t.Errorf("the metadata says %q", got)
	}
	do(t, d.Home, "update", "g", "-f", file(t, "u.json", `{"set_customer_metadata": {"greeting": "ciao"}}`))
	if got := d.sh(t, greeting); got != "ciao" {
		t.Errorf("after an update the metadata says %q", got)
	}
	d.sh(t, "echo inside >/shared/from")
	if text, err := os.ReadFile(filepath.Join(d.shared, "from")); err != nil || string(text) != "inside\n" {
		t.Errorf("the shared folder has %q, %v", text, err)
	}
	if got := d.sh(t, "echo x 2>/dev/null >/fixed/part/from; /bin/busybox cat /fixed/part/from"); got != "inside" {
		t.Errorf("a folder that is read-only has %q", got)
	}
	eventually(t, d.Home, "g", "ping", "-c", "1", "-W", "1", "10.8.0.1")
	// 50 % of a CPU, and 64 MiB.
	if _, _, code := d.Bakeoff(t, limit, "vm", "exec", "g", "--", "/bin/busybox", "dd", "if=/dev/zero", "of=/dev/null",
		"bs=128M", "count=1"); code != 128+int(syscall.SIGKILL) {
		t.Errorf("a program with 128 MiB in 64 MiB ended with %d", code)
	}
	if quota := d.quota(t); quota != .5 {
		t.Errorf("it may use %v CPUs", quota)
	}
}

// quota is how many CPUs' worth of time the kernel lets the guest use, or an innermost group of
// it.
func (d *driven) quota(t *testing.T) float64 {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup/cpu/bakeoff/", "/sys/fs/cgroup/bakeoff/"} {
		for _, below := range []string{"/payload/", "/"} {
			in := dir + "vm-" + d.uuid + below
			max, err := os.ReadFile(in + "cpu.max")
			f := strings.Fields(string(max))
			if err != nil {
				quota, qerr := os.ReadFile(in + "cpu.cfs_quota_us")
				period, perr := os.ReadFile(in + "cpu.cfs_period_us")
				f = strings.Fields(string(quota) + " " + string(period))
				err = errors.Join(qerr, perr)
			}
			if err != nil || len(f) != 2 {
				continue
			}
			quota, qerr := strconv.ParseFloat(f[0], 64)
			period, perr := strconv.ParseFloat(f[1], 64)
			if qerr == nil && perr == nil && quota > 0 {
				return quota / period
			}
		}
	}
	return 0
}

// checkLife stops, starts and reboots the guest, and returns to a snapshot.
func (d *driven) checkLife(t *testing.T) {
	t.Helper()
	d.sh(t, "echo one >/kept")
	do(t, d.Home, "stop", "g")
	d.says(t, "ended", 1)
	if g := guest(t, d.Home, "g"); g.State != vm.Stopped || g.Supervisor != 0 {
		t.Errorf("after stop: %+v", g)
	}
	d.hasInits(t, 0)
	do(t, d.Home, "start", "g")
	d.says(t, "begun", 2)
	do(t, d.Home, "reboot", "g")
	d.says(t, "ended", 2)
	d.says(t, "begun", 3)
	do(t, d.Home, "create-snapshot", "g", "one")
	d.sh(t, "echo two >/kept; echo x >/since")
	do(t, d.Home, "rollback-snapshot", "g", "one")
	if got := d.sh(t, "/bin/busybox cat /kept; /bin/busybox ls /since 2>/dev/null; true"); got != "one" {
		t.Errorf("after the rollback: %q", got)
	}
	eventually(t, d.Home, "g", "ping", "-c", "1", "-W", "1", "10.8.0.1")
	do(t, d.Home, "kill", "-s", "TERM", "g")
	d.awaits(t, vm.Stopped)
	if g := guest(t, d.Home, "g"); g.Exit == nil || *g.Exit != 3 {
		t.Errorf("after SIGTERM: %+v", g.Status)
	}
	another := manifest.Crun
	if d.driver == another {
		another = manifest.LXC
	}
	refused(t, d.Home, 1, "it is fixed", "update", "g", "driver="+another)
	do(t, d.Home, "start", "g")
}

// awaits waits for a state of the guest.
func (d *driven) awaits(t *testing.T, want vm.State) {
	t.Helper()
	var g vm.Guest
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if g = guest(t, d.Home, "g"); g.State == want {
			return
		}
	}
	t.Fatalf("it is %s instead of %s: %+v", g.State, want, g.Status)
}

// checkKilled kills the supervisor and the init process. There are never two containers of the
// guest.
func (d *driven) checkKilled(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(guest(t, d.Home, "g").Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.awaits(t, vm.Failed)
	do(t, d.Home, "start", "g")
	inits := d.hasInits(t, 1)
	eventually(t, d.Home, "g", "ping", "-c", "1", "-W", "1", "10.8.0.1")
	if err := syscall.Kill(inits[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.awaits(t, vm.Failed)
	d.hasInits(t, 0)
	do(t, d.Home, "start", "g")
	d.hasInits(t, 1)
	if err := syscall.Kill(guest(t, d.Home, "g").Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.awaits(t, vm.Failed)
	do(t, d.Home, "delete", "g")
	d.hasInits(t, 0)
}

// hasInits waits until the containers of the guest have a number of init processes.
func (d *driven) hasInits(t *testing.T, want int) (pids []int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		pids = nil
		names, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			line, lerr := os.ReadFile(name)
			group, gerr := os.ReadFile(filepath.Join(filepath.Dir(name), "cgroup"))
			pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if errors.Join(lerr, gerr, perr) == nil && bytes.HasPrefix(line, []byte("/.bakeoff/agent\x00container-init")) &&
				bytes.Contains(group, []byte("/vm-"+d.uuid)) {
				pids = append(pids, pid)
			}
		}
		if len(pids) == want {
			return pids
		}
	}
	t.Fatalf("the guest has the init processes %v instead of %d", pids, want)
	return nil
}

// leavesNothing looks where drivers leave something.
func (d *driven) leavesNothing(t *testing.T) {
	t.Helper()
	for _, at := range []string{"/run/systemd/nspawn/propagate/vm-" + d.uuid, "/run/netns/bo-vm-" + d.uuid} {
		if _, err := os.Lstat(at); err == nil {
			t.Errorf("%s is left", at)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/bakeoff/vm-", "/sys/fs/cgroup/bakeoff/vm-"} {
		if left, err := filepath.Glob(pattern + d.uuid); err != nil || len(left) > 0 {
			t.Errorf("control groups are left: %q, %v", left, err)
		}
	}
}

// A driver that cannot run a guest is refused with the reason before anything is made.
func TestRefusedDrivers(t *testing.T) {
	h := networkHome(t)
	image := box(t, h, "box", sleeps)
	for _, c := range []struct{ brand, driver, says string }{
		{"docker", "jail", "jails are a technology of FreeBSD"},
		{"joyent", "qemu", "guests of brand joyent are containers; use crun, runc, nspawn or lxc"},
		{"lx", "nspwan", "there is no such driver"},
		{"microvm", "lxc", "guests of brand microvm are machines; use qemu or firecracker"},
		{"kvm", "firecracker", "it runs guests of brand microvm only; use qemu"},
		{"bhyve", "bhyve", "driver bhyve: the host runs Linux"},
		{"kvm", "bhyve", "it runs guests of brand bhyve only; use qemu"},
	} {
		text := fmt.Sprintf("{brand: %s, driver: %s, image: %s}", c.brand, c.driver, image)
		refused(t, h, 1, c.says, "create", "-f", file(t, "g.yaml", text))
	}
	refused(t, h, 2, "guests of brand kvm are machines", "run", image, "--brand", "kvm", "--driver", "lxc")
	refused(t, h, 2, "jails are a technology of FreeBSD", "run", image, "--driver", "jail")

	refused(t, h, 2, "Firecracker shares no folders", "run", image, "--driver", "firecracker", "-v", "/srv:/srv")
	if _, err := exec.LookPath("firecracker"); err != nil {
		refused(t, h, 1, "driver firecracker: firecracker is not installed", "run", image, "--driver", "firecracker")
	}

	// A machine without LXC.
	programs := t.TempDir()
	for _, dir := range filepath.SplitList(h.Variable("PATH")) {
		all, err := os.ReadDir(dir)
		for _, e := range all {
			if to := filepath.Join(programs, e.Name()); !strings.HasPrefix(e.Name(), "lxc-") {
				_ = os.Symlink(filepath.Join(dir, e.Name()), to) // the first one in PATH counts
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	without := h
	without.Env = append(without.Env[:len(without.Env):len(without.Env)], "PATH="+programs)
	refused(t, without, 1, "driver lxc: not installed: lxc-start", "run", image, "--driver", "lxc")
	if all := guests(t, h); len(all) != 0 {
		t.Errorf("guests were made: %+v", all)
	}
	leavesNothing(t, h)
}
