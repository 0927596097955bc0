package guests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	if tasks := groupFile(t, uuid, "pids.max"); tasks != "2000" {
		t.Errorf("the usual bound of tasks is %s", tasks)
	}
	said = update("cpu_cap=40", "cpu_shares=250", "max_lwps=150", "max_swap=512") // it has started without cpu_cap
	for _, want := range []string{"cpu_shares: 100 -> 250 (live)", "max_lwps: 2000 -> 150 (live)"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in %s", want, said)
		}
	}
	weight := func() string { return groupFile(t, uuid, "cpu.weight", "cpu.shares") }
	limited := func(when string) {
		t.Helper()
		inside := "cpu.cfs_quota_us"
		if driver == manifest.LXC {
			inside = "payload/cpu.cfs_quota_us"
		}
		got := groupFile(t, uuid, "cpu.max", inside)
		if !strings.HasPrefix(got, "40000") || weight() != "250" && weight() != "2560" ||
			groupFile(t, uuid, "pids.max") != "150" {
			t.Errorf("%s, the limits are %s, %s and %s", when, got, weight(), groupFile(t, uuid, "pids.max"))
		}
		swap := groupFile(t, uuid, "memory.swap.max", "memory.memsw.limit_in_bytes")
		if swap != mib(512-160) && swap != mib(512) {
			t.Errorf("%s, the limit of swap is %s", when, swap)
		}
	}
	limited("after the update")
	do(t, h, "reboot", "w")
	limited("after a reboot")
	update("ram=112")
	if memory() != mib(112) {
		t.Errorf("after a reboot and an update, the limit of memory is %s", memory())
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// An update limits the CPU time of a running machine at once: the kernel then stops its QEMU, which has no
// control group before. The limits hold after a reboot, and go with the machine.
func TestLimitsOfMachine(t *testing.T) {
	h := home(t)
	do(t, h, "run", service(t, "web"), "--name", "m", "--memory", "128MiB")
	uuid := guest(t, h, "m").UUID
	var plan struct{ Changes []manifest.Change }
	out := do(t, h, "update", "m", "cpu_cap=20", "cpu_shares=50", "ram=192", "--json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]manifest.When{"cpu_cap": manifest.Live, "cpu_shares": manifest.Live,
		"ram": manifest.NextBoot} {
		if i := slices.IndexFunc(plan.Changes, func(c manifest.Change) bool { return c.Path == path }); i < 0 ||
			plan.Changes[i].When != want {
			t.Errorf("%s is not %s in %v", path, want, plan.Changes)
		}
	}
	limited := func(when string) {
		t.Helper()
		quota, weight := groupFile(t, uuid, "cpu.max", "cpu.cfs_quota_us"), groupFile(t, uuid, "cpu.weight", "cpu.shares")
		if !strings.HasPrefix(quota, "20000") || weight != "50" && weight != "512" {
			t.Errorf("%s, the limits are %s and %s", when, quota, weight)
		}
	}
	limited("after the update")
	busy := h.Command("vm", "exec", "m", "--", "sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	throttled := func() string {
		for line := range strings.Lines(groupFile(t, uuid, "cpu.stat")) {
			if n, ok := strings.CutPrefix(line, "nr_throttled "); ok {
				return strings.TrimSpace(n)
			}
		}
		return ""
	}
	for end := time.Now().Add(time.Minute); throttled() == "0"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the kernel never stops the machine")
		}
	}
	do(t, h, "update", "m", "cpu_cap=200")
	do(t, h, "reboot", "-F", "m")
	_ = busy.Wait() // it ends with the machine
	if quota := groupFile(t, uuid, "cpu.max", "cpu.cfs_quota_us"); !strings.HasPrefix(quota, "200000") {
		t.Errorf("after a reboot, the limit is %s", quota)
	}
	do(t, h, "update", "m", "cpu_cap=20")
	limited("after another update")
	refused(t, h, 1, "the threads of a machine", "update", "m", "max_lwps=100", "cpu_cap=10")
	limited("after a refused update")
	removeGuests(t, h)
	leavesNothing(t, h)
}

// An update changes the name servers of a running container at once if bakeoff maintains them.
func TestResolversOfRunning(t *testing.T) {
	h := home(t)
	do(t, h, "network", "create", "n1", "--subnet", "10.77.0.0/24")
	path := file(t, "r.json", fmt.Sprintf(`{"brand": "docker", "alias": "r", "image": %q, "ram": 64,
		"nics": [{"nic_tag": "n1"}], "resolvers": ["192.0.2.53"]}`, service(t, "web")))
	do(t, h, "create", "-f", path)
	has := func(want string) {
		t.Helper()
		if got := do(t, h, "exec", "r", "--", "cat", "/etc/resolv.conf"); got != want {
			t.Errorf("it has the resolvers %q instead of %q", got, want)
		}
	}
	said := func(change string) string {
		t.Helper()
		_, errs, code := h.Bakeoff(t, limit, "vm", "update", "r", "-f", file(t, "u.json", change))
		if code != 0 {
			t.Fatal(errs)
		}
		return errs
	}
	has("nameserver 192.0.2.53")
	if got := said(`{"resolvers": ["192.0.2.54"]}`); !strings.Contains(got, "(next boot)") {
		t.Error(got)
	}
	has("nameserver 192.0.2.53")
	if got := said(`{"maintain_resolvers": true}`); !strings.Contains(got, "(live)") {
		t.Error(got)
	}
	has("nameserver 192.0.2.54")
	if got := said(`{"resolvers": ["192.0.2.55", "192.0.2.56"]}`); !strings.Contains(got, "(live)") {
		t.Error(got)
	}
	has("nameserver 192.0.2.55\nnameserver 192.0.2.56")
	if got := said(`{"resolvers": []}`); !strings.Contains(got, "(live)") {
		t.Error(got)
	}
	has("nameserver 10.77.0.1")
	removeGuests(t, h)
	do(t, h, "network", "delete", "n1")
	leavesNothing(t, h)
}

// An update changes the addresses of a running container at once, and the routes that need them. A route
// that the new addresses do not reach is refused, and the container keeps its addresses.
func TestAddressesOfRunning(t *testing.T) {
	h := networkHome(t)
	do(t, h, "network", "create", "n2", "--subnet", "10.76.0.0/24")
	do(t, h, "create", "-f", file(t, "a.json", fmt.Sprintf(`{"brand": "docker", "alias": "a", "image": %q, "ram": 64,
		"nics": [{"nic_tag": "n2", "ips": ["10.76.0.5/24", "10.76.0.6/24"], "gateways": "10.76.0.1"}],
		"routes": {"10.99.0.0/16": "10.76.0.7"}}`, service(t, "web"))))
	mac := guest(t, h, "a").NICs[0].MAC
	has := func(addresses string, routes int) {
		t.Helper()
		var got []string
		for line := range strings.Lines(do(t, h, "exec", "a", "--", "cat", "/proc/net/fib_trie")) {
			if text := strings.TrimLeft(line, " +|-"); strings.HasPrefix(text, "10.76.0.") && !slices.Contains(got,
				strings.TrimSpace(text)) && strings.Contains(line, "|-- ") {
				got = append(got, strings.TrimSpace(text))
			}
		}
		got = slices.DeleteFunc(got, func(a string) bool { return a == "10.76.0.0" || a == "10.76.0.255" })
		slices.Sort(got)
		by := strings.Count(do(t, h, "exec", "a", "--", "cat", "/proc/net/route"), "0003\t") // by a router
		if strings.Join(got, " ") != addresses || by != routes {
			t.Errorf("the container has the addresses %q and %d routes by a router", got, by)
		}
	}
	has("10.76.0.5 10.76.0.6", 2)
	change := func(text string) string { return file(t, "u.json", strings.ReplaceAll(text, "MAC", mac)) }
	at := moments(t, h, "a", change(`{"update_nics": [{"mac": "MAC", "ips": ["10.76.0.8/24", "fd00:7::8/64"]}],
		"set_routes": {"10.98.0.0/16": "10.76.0.7"}}`))
	if at["nics.0.ips"] != manifest.Live || at["routes.10.98.0.0/16"] != manifest.Live {
		t.Errorf("the changes take effect %v", at)
	}
	has("10.76.0.8", 3)
	if out := do(t, h, "exec", "a", "--", "cat", "/proc/net/if_inet6"); !strings.Contains(out, "fd000007") {
		t.Errorf("the container has the addresses %s", out)
	}
	refused(t, h, 1, "nics", "update", "a", "-f", change(`{"update_nics": [{"mac": "MAC", "ips": ["10.75.0.8/24"]}]}`))
	has("10.76.0.8", 3)
	if g := guest(t, h, "a"); len(g.NICs[0].IPs) != 2 || g.NICs[0].IP != "10.76.0.8" {
		t.Errorf("the manifest has %+v", g.NICs)
	}
	if at := moments(t, h, "a", change(`{"update_nics": [{"mac": "MAC", "ips": "dhcp"}]}`)); at["nics.0.ips"] !=
		manifest.NextBoot {
		t.Errorf("the change takes effect %v", at)
	}
	removeGuests(t, h)
	do(t, h, "network", "delete", "n2")
	leavesNothing(t, h)
}
