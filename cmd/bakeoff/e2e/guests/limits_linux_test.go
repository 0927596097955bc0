package guests

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/base/unit"
	"bakeoff/provision/vm/manifest"
)

// groupFile reads a file of the control group of a container: the first of names that exists.
func groupFile(t *testing.T, uuid string, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, hierarchy := range []string{"", "*/"} {
			found, err := filepath.Glob("/sys/fs/cgroup/" + hierarchy + "bakeoff/vm-" + uuid + "/" + name)
			if err != nil || len(found) == 0 {
				continue
			}
			text, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(text))
		}
	}
	t.Skip("needs the control group controllers cpu and memory")
	return ""
}

// An update changes the limits of a running container at once, and says so. Memory below what the
// programs use is refused, and nothing changes then.
func TestLimitsOfRunning(t *testing.T) {
	for _, driver := range []string{"crun", "nspawn", "lxc"} {
		t.Run(driver, func(t *testing.T) { limitsOfRunning(t, driver) })
	}
}

func limitsOfRunning(t *testing.T, driver string) {
	h := home(t)
	if _, errs, code := h.Bakeoff(t, limit, "vm", "run", service(t, "web"), "--brand", "docker", "--driver", driver,
		"--name", "w", "--memory", "128MiB"); code != 0 {
		if strings.Contains(errs, "not installed") {
			t.Skip(errs)
		}
		t.Fatal(errs)
	}
	uuid := guest(t, h, "w").UUID
	memory := func() string { return groupFile(t, uuid, "memory.max", "memory.limit_in_bytes") }
	mib := func(n int64) string { return strconv.FormatInt(n*int64(unit.MiB), 10) }
	update := func(properties ...string) string {
		t.Helper()
		_, errs, code := h.Bakeoff(t, limit, append([]string{"vm", "update", "w"}, properties...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		return errs
	}
	said := update("ram=96", "cpu_cap=50", "ports=80")
	for _, want := range []string{"ram: 128 -> 96 (live)", "cpu_cap: 100 -> 50 (live)", "(next boot)"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in %s", want, said)
		}
	}
	quota := func() string { return groupFile(t, uuid, "cpu.max", "cpu.cfs_quota_us") }
	if memory() != mib(96) || !strings.HasPrefix(quota(), "50000") {
		t.Errorf("the limits are %s and %s", memory(), quota())
	}
	if driver == manifest.LXC { // its programs are in a second group
		if got := groupFile(t, uuid, "payload/cpu.max", "payload/cpu.cfs_quota_us"); !strings.HasPrefix(got, "50000") {
			t.Errorf("the inner limit is %s", got)
		}
	}
	hog := h.Command("vm", "exec", "w", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=48M") // it fills one buffer
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- hog.Wait() }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		used, err := strconv.ParseInt(groupFile(t, uuid, "memory.current", "memory.usage_in_bytes"), 10, 64)
		if err == nil && used > 48<<20 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("dd does not fill its buffer: %d, %v", used, err)
		}
	}
	refused(t, h, 1, "the programs use", "update", "w", "ram=24", "cpu_cap=20", "alias=other")
	g := guest(t, h, "w")
	if g.RAM != 96 || g.CPUCap != 50 || g.Alias != "w" || memory() != mib(96) || !strings.HasPrefix(quota(), "50000") {
		t.Errorf("after the refusal, the guest has %d MiB and %d %%, and the limits are %s and %s", g.RAM, g.CPUCap, memory(),
			quota())
	}
	update("max_physical_memory=160", "cpu_cap=0")
	if memory() != mib(160) || strings.HasPrefix(quota(), "50000") {
		t.Errorf("the limits are %s and %s", memory(), quota())
	}
	select {
	case err := <-ended:
		t.Errorf("dd has ended: %v", err)
	default:
	}
	do(t, h, "reboot", "w")
	<-ended
	if memory() != mib(160) {
		t.Errorf("after a reboot, the limit of memory is %s", memory())
	}
	update("ram=112")
	if memory() != mib(112) {
		t.Errorf("after a reboot and an update, the limit of memory is %s", memory())
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}
