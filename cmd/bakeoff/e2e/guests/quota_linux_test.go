package guests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// envQuota is set in the process of TestQuota whose temporary files are on a file system without quotas
// yet: to its name, its device or file, and where it is mounted.
const envQuota = "BAKEOFF_TEST_QUOTA"

// Where the state folder is on a file system with quotas, a container cannot write more than its quota. An
// update of the quota takes effect at once. Snapshots and reprovision keep it, and a delete removes
// it, also after kills. This is btrfs; TestQuotaOfProjects repeats it on ext4 and XFS.
func TestQuota(t *testing.T) {
	if f := strings.Fields(os.Getenv(envQuota)); len(f) == 3 {
		quotaHome{Home: containerHome(t), system: f[0], from: f[1], at: f[2]}.check(t)
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
	image := filepath.Join(t.TempDir(), "file")
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", `truncate -s 6G "$1"
		mkfs.btrfs -q "$1"; mount -o loop "$1" "$2"; TMPDIR="$2" exec "$3" -test.run '^TestQuota$' -test.v`, "sh",
		image, at, os.Args[0])
	c.Env = append(os.Environ(), envQuota+"=btrfs "+image+" "+at)
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP: TestQuota") {
		t.Skipf("%s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestQuota") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// containerHome is a home for tests of containers alone.
func containerHome(t *testing.T) e2e.Home {
	t.Helper()
	for program, pkg := range map[string]string{"crun": "crun", "busybox": "busybox-static"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: apt-get install %s", program, pkg)
		}
	}
	return homeWithout(t)
}

// quotaHome is a home below the root of a file system that is named as mkfs does.
type quotaHome struct {
	e2e.Home
	system, from, at string
}

// full is what programs print that write more than the quota.
func (h quotaHome) full() string {
	if h.system == "xfs" {
		return "No space left on device"
	}
	return "Disk quota exceeded"
}

// check is TestQuota in a home.
func (h quotaHome) check(t *testing.T) {
	image := box(t, h.Home, "waits", []string{"/bin/busybox", "sleep", "1000000"})
	one := file(t, "g.json", fmt.Sprintf(`{"brand": "lx", "alias": "g", "image": %q, "ram": 256, "quota": 1}`, image))
	without, fix := "has no quotas", "run `btrfs quota enable"
	if h.system != "btrfs" {
		without, fix = "has no project quotas", "mount it with the option prjquota"
	}
	refused(t, h.Home, 1, without+"; remove it, or "+fix, "create", "-f", one)
	begun := time.Now()
	do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(`{"brand": "lx", "alias": "g", "image": %q, "ram": 256}`,
		image)))
	creation := time.Since(begun)
	h.write(t, "old", 5, "")
	if h.system == "btrfs" {
		h.run(t, "btrfs", "quota", "enable", h.at)
		refused(t, h.Home, 1, "has run since before its storage had quotas", "update", "g", "quota=1")
		if got := guest(t, h.Home, "g").Quota; got != 10 {
			t.Errorf("after a refused update the quota is %d", got)
		}
		do(t, h.Home, "reboot", "g")
	} else {
		do(t, h.Home, "stop", "g")
		h.mountWithQuotas(t)
		do(t, h.Home, "start", "g")
	}
	h.limits(t, 10) // the default

	if _, errs, _ := h.Bakeoff(t, limit, "vm", "update", "g", "quota=1"); !strings.Contains(errs, "(live)") {
		t.Errorf("update prints %q", errs)
	}
	h.limits(t, 1)
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "cmp", "-n", "1000", "/old", "/dev/zero") // from before the quotas
	if h.system == "btrfs" {
		h.reserve(t, "a", 1000)
	} else {
		h.write(t, "a", 1000, "") // a copy would not contain reserved blocks
		h.seesLimit(t)
	}
	h.write(t, "b", 30, h.full())
	do(t, h.Home, "create-snapshot", "g", "full")
	do(t, h.Home, "reboot", "g")
	h.write(t, "b", 30, h.full())
	do(t, h.Home, "update", "g", "quota=2")
	h.write(t, "b", 30, "")
	do(t, h.Home, "update", "g", "quota=1") // less than what it has written
	h.write(t, "c", 1, h.full())
	do(t, h.Home, "update", "g", "quota=2")
	h.write(t, "c", 1, "")
	do(t, h.Home, "rollback-snapshot", "g", "full")
	h.limits(t, 1) // as in the snapshot
	h.write(t, "b", 30, h.full())
	do(t, h.Home, "update", "g", "quota=0")
	h.limits(t, 0)
	h.write(t, "b", 30, "")
	do(t, h.Home, "update", "g", "quota=3")

	other := file(t, "image.json", fmt.Sprintf(`{"image": %q}`, image))
	do(t, h.Home, "reprovision", "g", "-f", other)
	h.limits(t, 3)
	if got := do(t, h.Home, "exec", "g", "--", "/bin/busybox", "ls", "/"); strings.Contains(got, "old") {
		t.Errorf("after reprovision the guest has %q", got)
	}
	do(t, h.Home, "stop", "g")
	do(t, h.Home, "update", "g", "quota=4")
	do(t, h.Home, "start", "g")
	h.limits(t, 4)
	do(t, h.Home, "delete", "g")
	h.limits(t)
	do(t, h.Home, "create", "-f", one)
	h.limits(t, 1)
	do(t, h.Home, "delete", "g")

	for _, driver := range manifest.LX.Drivers() {
		t.Run(driver, func(t *testing.T) { h.checkFull(t, image, driver) })
	}

	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	k := killer{Home: h.Home, r: rand.New(rand.NewPCG(seed, 0)), sources: [][]string{{image, "--brand", "docker",
		"--memory", "32MiB"}}, within: creation}
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
func (h quotaHome) checkFull(t *testing.T, image, driver string) {
	needsDriver(t, driver)
	do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(
		`{"brand": "lx", "driver": %q, "alias": "g", "image": %q, "ram": 256, "quota": 1}`, driver, image)))
	h.reserve(t, "a", 1000)
	h.write(t, "b", 30, h.full())
	do(t, h.Home, "stop", "g")
	do(t, h.Home, "start", "g")
	h.write(t, "b", 30, h.full())
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "rm", "/a")
	h.write(t, "b", 30, "")
	do(t, h.Home, "delete", "g")
	h.limits(t)
}

// run executes a program of the host.
func (h quotaHome) run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// mountWithQuotas mounts the file system again. Processes of guests that were stopped may still end.
func (h quotaHome) mountWithQuotas(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command("umount", h.at).CombinedOutput()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	h.run(t, "mount", "-o", "prjquota", h.from, h.at)
}

// seesLimit asserts that the guest sees its limit as the size of its file system.
func (h quotaHome) seesLimit(t *testing.T) {
	t.Helper()
	out := do(t, h.Home, "exec", "g", "--", "/bin/busybox", "df", "-P", "-m", "/")
	// Filesystem 1048576-blocks Used Available Capacity Mounted on
	if f := strings.Fields(out[strings.LastIndexByte(out, '\n')+1:]); len(f) < 2 || f[1] != "1024" {
		t.Errorf("df prints %s", out)
	}
}

// limits asserts that the folders with limits are those of guests that run, with these limits in GiB. 0
// is none. What is removed may go a moment later.
func (h quotaHome) limits(t *testing.T, want ...int) {
	t.Helper()
	var got []int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if h.system == "btrfs" {
			got = h.ofSubvolumes(t)
		} else {
			got = h.ofProjects(t)
		}
		if slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("the limits are %d GiB instead of %d", got, want)
}

func (h quotaHome) ofSubvolumes(t *testing.T) (gib []int) {
	t.Helper()
	for line := range strings.Lines(h.run(t, "btrfs", "subvolume", "list", h.at)) {
		f := strings.Fields(line) // ID 256 gen 9 top level 5 path …
		for line := range strings.Lines(h.run(t, "btrfs", "qgroup", "show", "--gbytes", "-r", h.at)) {
			// 0/256 0.00GiB 0.00GiB 1.00GiB path
			if q := strings.Fields(line); len(q) > 3 && q[0] == "0/"+f[1] {
				n, _ := strconv.ParseFloat(strings.TrimSuffix(q[3], "GiB"), 64) // or none
				gib = append(gib, int(n))
			}
		}
	}
	return gib
}

func (h quotaHome) ofProjects(t *testing.T) (gib []int) {
	t.Helper()
	for line := range strings.Lines(h.run(t, "repquota", "-P", "-n", h.at)) {
		// #1234567890 -- 5120 0 1048576 7 0 0
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[0], "#") && f[0] != "#0" {
			kib, err := strconv.Atoi(f[4])
			if err != nil {
				t.Fatal(err)
			}
			gib = append(gib, kib>>20)
		}
	}
	return gib
}

// write writes a file of the guest again, in MiB, and asserts how that fails; "" is not at all.
func (h quotaHome) write(t *testing.T, name string, size int, fails string) {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, "vm", "exec", "g", "--", "/bin/busybox", "dd", "if=/dev/zero", "of=/"+name,
		"bs=1M", fmt.Sprint("count=", size), "conv=fsync")
	if (code == 0) != (fails == "") || !strings.Contains(errs, fails) {
		t.Errorf("writing %d MiB: exit code %d\n%s%s", size, code, out, errs)
	}
}

// reserve gives a file of the guest space, in MiB, which takes no time.
func (h quotaHome) reserve(t *testing.T, name string, size int) {
	t.Helper()
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "fallocate", "-l", fmt.Sprint(size<<20), "/"+name)
	if g := guest(t, h.Home, "g"); g.State != vm.Running {
		t.Errorf("the guest is %s", g.State)
	}
}

// Project quotas of ext4 and XFS limit containers as those of btrfs do. Many kernels for machines of clouds
// have no project quotas, so this happens in a Debian under emulation.
func TestQuotaOfProjects(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	tests := []string{"quota.test", "guests.test"}
	d := buildDebian(t, "crun,systemd-container,lxc,busybox-static,xfsprogs,quota", func(root string) {
		programs := filepath.Dir(h.Command().Path)
		for _, name := range []string{"bakeoff", "bakeoff-agent"} {
			copyFile(t, filepath.Join(programs, name), filepath.Join(root, "usr/local/bin", name), 0o755)
		}
		for i, pkg := range []string{"bakeoff/provision/quota", "."} {
			c := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(root, "srv", tests[i]), pkg)
			c.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		writeIn(t, root, "etc/systemd/system/serial-getty@ttyS0.service.d/shell.conf",
			"[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 %I dumb\n", 0o644)
	})
	text := strings.Replace(d.manifest("host", ""), `"virtio"}`, `"virtio"}, {"size": 8192, "model": "virtio"}`, 1)
	do(t, h, "create", "-f", file(t, "host.json", text))
	c := &console{h: h, uuid: guest(t, h, "host").UUID}
	c.await(t)
	mkfs := map[string]string{"xfs": "mkfs.xfs -q -f", "ext4": "mkfs.ext4 -q -F -O quota,project -E quotatype=prjquota"}
	for i, name := range tests {
		for _, system := range []string{"xfs", "ext4"} {
			t.Run(name+" "+system, func(t *testing.T) {
				env, option := "BAKEOFF_TEST_QUOTA_AT=/q", "-o prjquota "
				if i > 0 {
					env, option = envQuota+"='"+system+" /dev/vdb /q' TMPDIR=/q "+suite.Programs+"=/usr/local/bin", ""
				}
				c.run(t, "mkdir -p /q && cd / && "+mkfs[system]+" /dev/vdb && mount "+option+"/dev/vdb /q")
				out, code, ok := c.try("cd /srv && "+env+" ./"+name+" -test.v -test.timeout 2h "+
					"-test.run '^(TestQuota|TestLimits)$' >log 2>&1; echo $? >code; tail -c 60000 log; test $(cat code) = 0",
					2*time.Hour)
				if !ok || code != "0" || !strings.Contains(out, "--- PASS: Test") {
					t.Errorf("exit code %q (answered: %v)\n%s", code, ok, out)
				} else {
					t.Log(out)
				}
				c.run(t, "umount /q")
			})
		}
	}
	do(t, h, "delete", "host")
	leavesNothing(t, h)
}
