package guests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// envBtrfs is set in the process of TestQuota whose temporary files are on btrfs, to their folder.
const envBtrfs = "BAKEOFF_TEST_BTRFS"

// Where the state folder is on a btrfs with quotas, a container cannot write more than its quota. An
// update of the quota takes effect at once. Snapshots and reprovision keep it, and a delete removes
// it, also after kills.
func TestQuota(t *testing.T) {
	if at := os.Getenv(envBtrfs); at != "" {
		onBtrfs{networkHome(t), at}.check(t)
		return
	}
	e2e.NeedsRoot(t)
	t.Parallel()
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		t.Skip("needs mkfs.btrfs: apt-get install btrfs-progs")
	}
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "btrfs") {
		t.Skip("needs a kernel with btrfs")
	}
	at, err := os.MkdirTemp("", "q") // short: below it are sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(at); err != nil {
			t.Error(err)
		}
	})
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", `truncate -s 6G "$1"
		mkfs.btrfs -q "$1"; mount -o loop "$1" "$2"; TMPDIR="$2" exec "$3" -test.run '^TestQuota$' -test.v`, "sh",
		filepath.Join(t.TempDir(), "file"), at, os.Args[0])
	c.Env = append(os.Environ(), envBtrfs+"="+at)
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP: TestQuota") {
		t.Skipf("%s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestQuota") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// full is what programs print that write more than the quota.
const full = "Disk quota exceeded"

// onBtrfs is a home below the root of a btrfs.
type onBtrfs struct {
	e2e.Home
	at string
}

func (h onBtrfs) check(t *testing.T) {
	image := box(t, h.Home, "waits", []string{"/bin/busybox", "sleep", "1000000"})
	one := file(t, "g.json", fmt.Sprintf(`{"brand": "lx", "alias": "g", "image": %q, "ram": 256, "quota": 1}`, image))
	refused(t, h.Home, 1, "quota: 1: the btrfs of the state folder has no quotas; remove it, or run `btrfs quota enable",
		"create", "-f", one)
	do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(`{"brand": "lx", "alias": "g", "image": %q, "ram": 256}`,
		image)))
	h.write(t, "old", 5, "")
	h.btrfs(t, "quota", "enable", h.at)
	refused(t, h.Home, 1, "has run since before its storage had quotas", "update", "g", "quota=1")
	if got := guest(t, h.Home, "g").Quota; got != 10 {
		t.Errorf("after a refused update the quota is %d", got)
	}
	do(t, h.Home, "reboot", "g")
	h.limits(t, "10.00GiB") // the default

	if _, errs, _ := h.Bakeoff(t, limit, "vm", "update", "g", "quota=1"); !strings.Contains(errs, "(live)") {
		t.Errorf("update prints %q", errs)
	}
	h.limits(t, "1.00GiB")
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "cmp", "-n", "1000", "/old", "/dev/zero") // from before the quotas
	h.reserve(t, "a", 1000)
	h.write(t, "b", 30, full)
	do(t, h.Home, "create-snapshot", "g", "full")
	do(t, h.Home, "reboot", "g")
	h.write(t, "b", 30, full)
	do(t, h.Home, "update", "g", "quota=2")
	h.write(t, "b", 30, "")
	do(t, h.Home, "rollback-snapshot", "g", "full")
	h.limits(t, "1.00GiB") // as in the snapshot
	h.write(t, "b", 30, full)
	do(t, h.Home, "update", "g", "quota=0")
	h.limits(t, "none")
	h.write(t, "b", 30, "")
	do(t, h.Home, "update", "g", "quota=3")

	other := file(t, "image.json", fmt.Sprintf(`{"image": %q}`, image))
	do(t, h.Home, "reprovision", "g", "-f", other)
	h.limits(t, "3.00GiB")
	if got := do(t, h.Home, "exec", "g", "--", "/bin/busybox", "ls", "/"); strings.Contains(got, "old") {
		t.Errorf("after reprovision the guest has %q", got)
	}
	do(t, h.Home, "stop", "g")
	do(t, h.Home, "update", "g", "quota=4")
	do(t, h.Home, "start", "g")
	h.limits(t, "4.00GiB")
	do(t, h.Home, "delete", "g")
	h.limits(t)
	do(t, h.Home, "create", "-f", one)
	h.limits(t, "1.00GiB")
	do(t, h.Home, "delete", "g")

	for _, driver := range manifest.LX.Drivers() {
		t.Run(driver, func(t *testing.T) { h.checkFull(t, image, driver) })
	}

	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	k := killer{Home: h.Home, r: rand.New(rand.NewPCG(seed, 0)), sources: [][]string{{image, "--brand", "docker",
		"--memory", "32MiB"}}}
	for range kills {
		k.killOne(t)
		k.check(t)
	}
	for _, g := range guests(t, h.Home) {
		do(t, h.Home, "start", g.UUID)
		do(t, h.Home, "delete", g.UUID)
	}
	do(t, h.Home, "create", "-f", one) // it removes what a killed create left
	do(t, h.Home, "delete", "g")
	h.limits(t)
	leavesNothing(t, h.Home)
}

// checkFull asserts that a guest of a driver whose quota is used up still starts, executes programs,
// stops, and removes files.
func (h onBtrfs) checkFull(t *testing.T, image, driver string) {
	needsDriver(t, driver)
	do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(
		`{"brand": "lx", "driver": %q, "alias": "g", "image": %q, "ram": 256, "quota": 1}`, driver, image)))
	h.reserve(t, "a", 1000)
	h.write(t, "b", 30, full)
	do(t, h.Home, "stop", "g")
	do(t, h.Home, "start", "g")
	h.write(t, "b", 30, full)
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "rm", "/a")
	h.write(t, "b", 30, "")
	do(t, h.Home, "delete", "g")
	h.limits(t)
}

// btrfs executes a command of the program btrfs.
func (h onBtrfs) btrfs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("btrfs", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("btrfs %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// limits asserts that the subvolumes are those of guests that run, with these limits.
func (h onBtrfs) limits(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(h.btrfs(t, "subvolume", "list", h.at)) {
		f := strings.Fields(line) // ID 256 gen 9 top level 5 path …
		for line := range strings.Lines(h.btrfs(t, "qgroup", "show", "-r", h.at)) {
			// 0/256 16.00KiB 16.00KiB 1.00GiB path
			if q := strings.Fields(line); len(q) > 3 && q[0] == "0/"+f[1] {
				got = append(got, q[3])
			}
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the subvolumes have the limits %q instead of %q", got, want)
	}
}

// write writes a file of the guest again, in MiB, and asserts how that fails; "" is not at all.
func (h onBtrfs) write(t *testing.T, name string, size int, fails string) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, "vm", "exec", "g", "--", "/bin/busybox", "dd", "if=/dev/zero", "of=/"+name,
		"bs=1M", fmt.Sprint("count=", size), "conv=fsync")
	if (code == 0) != (fails == "") || !strings.Contains(errs, fails) {
		t.Errorf("writing %d MiB: exit code %d\n%s%s", size, code, out, errs)
	}
}

// reserve gives a file of the guest space, in MiB, which takes no time.
func (h onBtrfs) reserve(t *testing.T, name string, size int) {
	t.Helper()
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "fallocate", "-l", fmt.Sprint(size<<20), "/"+name)
	if g := guest(t, h.Home, "g"); g.State != vm.Running {
		t.Errorf("the guest is %s", g.State)
	}
}
