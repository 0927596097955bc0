package guests

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/suite"
	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/prepare/install/rescue"
	"bakeoff/provision/image"
	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// envQuota is set in the process of TestQuota whose temporary files are on a file system without quotas
// yet: to its name, its device or file, and where it is mounted.
const envQuota = "BAKEOFF_TEST_QUOTA"

// Where the state folder is on a file system with quotas, a container cannot write more than its quota. An
// update of the quota takes effect at once. Snapshots and reprovision keep it, and a delete removes
// it, also after kills. This is btrfs; TestQuotaOfProjects repeats it on ext4 and XFS, and TestQuotaOnZFS on
// ZFS.
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
	without, fix := "has no project quotas", "mount it with the option prjquota"
	switch h.system {
	case "btrfs":
		without, fix = "has no quotas", "run `btrfs quota enable"
	case "zfs":
		without, fix = "zfs is not installed", "run `apt-get install zfsutils-linux`"
		h.run(t, "mv", zfsProgram, zfsProgram+".away")
	}
	refused(t, h.Home, 1, without+"; remove it, or "+fix, "create", "-f", one)
	begun := time.Now()
	do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(`{"brand": "lx", "alias": "g", "image": %q, "ram": 256}`,
		image)))
	creation := time.Since(begun)
	h.write(t, "old", 5, "")
	switch h.system {
	case "btrfs":
		h.run(t, "btrfs", "quota", "enable", h.at)
		refused(t, h.Home, 1, "was started before its storage had quotas", "update", "g", "quota=1")
		if got := guest(t, h.Home, "g").Quota; got != 10 {
			t.Errorf("after a refused update the quota is %d", got)
		}
		do(t, h.Home, "reboot", "g")
	case "zfs":
		h.run(t, "mv", zfsProgram+".away", zfsProgram)
		do(t, h.Home, "reboot", "g")
	default:
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

	if h.system == "zfs" {
		h.checkDataset(t, image)
	}
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
	if h.system == "zfs" { // which reserves nothing
		h.write(t, "a", 1000, "")
	} else {
		h.reserve(t, "a", 1000)
	}
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
		switch h.system {
		case "btrfs":
			got = h.ofSubvolumes(t)
		case "zfs":
			got = h.ofDatasets(t)
		default:
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

// zfsProgram changes datasets.
const zfsProgram = "/usr/sbin/zfs"

// datasets are those that bakeoff has made.
func (h quotaHome) datasets(t *testing.T) (all []string) {
	t.Helper()
	for name := range strings.FieldsSeq(h.run(t, "zfs", "list", "-H", "-o", "name", "-r", h.from)) {
		if strings.Contains(name, "/bakeoff-") {
			all = append(all, name)
		}
	}
	return all
}

func (h quotaHome) ofDatasets(t *testing.T) (gib []int) {
	t.Helper()
	for _, name := range h.datasets(t) {
		n, err := strconv.Atoi(strings.TrimSpace(h.run(t, "zfs", "get", "-Hp", "-o", "value", "refquota", name)))
		if err != nil {
			t.Fatal(err)
		}
		gib = append(gib, n>>30)
	}
	return gib
}

// checkDataset asserts that the files of a guest are there again after a restart of the host, which mounts
// no datasets of guests, and that a guest is deleted although its dataset cannot be destroyed. "clean" shows
// the dataset, and destroys it when that is possible.
func (h quotaHome) checkDataset(t *testing.T, image string) {
	create := func() (name, at string) {
		do(t, h.Home, "create", "-f", file(t, "g.json", fmt.Sprintf(
			`{"brand": "lx", "alias": "g", "image": %q, "ram": 256, "quota": 1}`, image)))
		h.write(t, "kept", 1, "")
		all := h.datasets(t)
		if len(all) != 1 {
			t.Fatalf("there are the datasets %q", all)
		}
		at = strings.TrimSpace(h.run(t, "findmnt", "-n", "-o", "TARGET", "-S", all[0]))
		return all[0], at
	}
	_, at := create()
	for _, command := range []string{"start", "create-snapshot"} {
		do(t, h.Home, "stop", "g")
		h.run(t, "umount", at)
		args := []string{command, "g"}
		if command == "create-snapshot" {
			args = append(args, "s")
		}
		do(t, h.Home, args...)
		h.run(t, "test", "-e", at+"/upper/kept")
	}
	do(t, h.Home, "start", "g")
	h.limits(t, 1)
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "rm", "/kept")
	do(t, h.Home, "rollback-snapshot", "g", "s")
	do(t, h.Home, "start", "g")
	do(t, h.Home, "exec", "g", "--", "/bin/busybox", "test", "-e", "/kept")

	// As after a kill while a start copies what the guest has written before there were quotas.
	before := filepath.Join(h.Variable("BAKEOFF_STATE"), "env", "vm-"+guest(t, h.Home, "g").UUID, "upper")
	for _, command := range []string{"", "rollback-snapshot"} {
		do(t, h.Home, "stop", "g")
		h.run(t, "mkdir", "-p", before+"/first")
		want := "first"
		if command != "" {
			do(t, h.Home, command, "g", "s")
			want = "kept"
		}
		do(t, h.Home, "start", "g")
		if got := do(t, h.Home, "exec", "g", "--", "/bin/busybox", "ls", "/"); strings.Contains(got, "first") !=
			(want == "first") || strings.Contains(got, "kept") != (want == "kept") {
			t.Errorf("the guest has %q instead of %s", got, want)
		}
	}

	h.waits(t, "/", "unshare", "--mount", "--propagation", "private") // it has copies of the mounts
	do(t, h.Home, "delete", "g")
	if all := h.datasets(t); len(all) > 0 {
		t.Errorf("the datasets are left: %q", all)
	}

	_, at = create()
	end := h.waits(t, at)
	do(t, h.Home, "delete", "g")
	h.leaves(t, "dataset is busy", end)

	dataset, _ := create()
	h.run(t, "zfs", "snapshot", dataset+"@ours")
	do(t, h.Home, "delete", "g")
	h.leaves(t, "filesystem has children", func() { h.run(t, "zfs", "destroy", h.datasets(t)[0]+"@ours") })
}

// waits starts a program in a folder, by another one, which runs until end is called.
func (h quotaHome) waits(t *testing.T, dir string, argv ...string) (end func()) {
	t.Helper()
	argv = append(argv, "sh", "-c", "echo; exec sleep 1000000")
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = dir
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() { c.Process.Kill(); c.Wait() })
	t.Cleanup(end)
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has its mounts
		t.Fatal(err)
	}
	return end
}

// leaves asserts that "clean" shows a dataset, fails to destroy it, and destroys it after a change.
func (h quotaHome) leaves(t *testing.T, why string, change func()) {
	t.Helper()
	all := h.datasets(t)
	if len(all) != 1 {
		t.Fatalf("the datasets are left: %q", all)
	}
	want := "found dataset " + all[0] + "  (dataset of a deleted guest"
	if out, errs, _ := h.Bakeoff(t, limit, "clean", "--dry-run"); !strings.Contains(out, want) {
		t.Errorf("clean lists %s%s", out, errs)
	}
	if _, errs, code := h.Bakeoff(t, limit, "clean"); code == 0 || !strings.Contains(errs, why) {
		t.Errorf("clean: exit code %d: %s", code, errs)
	}
	change()
	if out, errs, code := h.Bakeoff(t, limit, "clean"); code != 0 || !strings.Contains(out, all[0]) {
		t.Errorf("clean: exit code %d: %s%s", code, out, errs)
	}
	h.limits(t)
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
	d := buildDebian(t, strings.Join(quotaPackages, ",")+",xfsprogs,quota", func(root string) { addTests(t, h, root) })
	var all []mounted
	for _, at := range []mounted{{system: "xfs", make: "mkfs.xfs -q -f /dev/vdb"},
		{system: "ext4", make: "mkfs.ext4 -q -F -O quota,project -E quotatype=prjquota /dev/vdb"}} {
		at.device, at.limited = "/dev/vdb", at.make+" && mount -o prjquota /dev/vdb /q"
		at.make, at.remove = at.make+" && mount /dev/vdb /q", "umount /q"
		all = append(all, at)
	}
	quotasIn(t, h, d, all)
}

// A dataset limits containers on ZFS as other quotas do. This happens in the rescue system of "bakeoff
// install", which has OpenZFS.
func TestQuotaOnZFS(t *testing.T) {
	takesMinutes(t)
	h := home(t)
	// The tests of "bakeoff install" start from the same rescue system.
	r, err := rescue.Builder{Store: &image.Store{Dir: image.DirIn(h.Variable("BAKEOFF_CACHE")), Host: local.Conn{}},
		Say: func(line string) { t.Log(line) }}.Get(t.Context(), rescue.Release)
	if err != nil {
		t.Fatal(err)
	}
	d := debian{disk: filepath.Join(t.TempDir(), "disk.raw"), kernel: filepath.Join(r.Dir, "vmlinuz"),
		initrd: filepath.Join(r.Dir, "initrd")}
	quotaHome{}.run(t, "cp", "--sparse=always", filepath.Join(r.Dir, "disk"), d.disk)
	root := t.TempDir()
	addTests(t, h, root)
	c := exec.Command("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-ec",
		`mount -o loop "$1" "$2"; cp -a "$3/." "$2"; rm -f "$2/etc/resolv.conf"; cp /etc/resolv.conf "$2/etc"
		for d in dev proc; do mount --rbind "/$d" "$2/$d"; done
		at=$2; shift 3
		chroot "$at" apt-get -q update; chroot "$at" apt-get -q install -y --no-install-recommends "$@"`,
		"sh", d.disk, t.TempDir(), root)
	c.Args = append(c.Args, quotaPackages...)
	c.Env = append(os.Environ(), "TMPDIR=/tmp", "DEBIAN_FRONTEND=noninteractive")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	at := mounted{system: "zfs", clones: "zfs create q/a && zfs create q/b", device: "q",
		make:   "zpool create -f -O compression=off -m /q q /dev/vdb",
		remove: "zpool destroy q"}
	at.limited = at.make
	quotasIn(t, h, d, []mounted{at})
}

// addTests adds bakeoff and the tests of quotas to the root of a Debian, and a shell at its serial line.
func addTests(t *testing.T, h e2e.Home, root string) {
	t.Helper()
	programs := filepath.Dir(h.Command().Path)
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		copyFile(t, filepath.Join(programs, name), filepath.Join(root, "usr/local/bin", name), 0o755)
	}
	for name, pkg := range quotaTests {
		c := exec.Command("go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(root, "srv", name), pkg)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	writeIn(t, root, "etc/systemd/system/serial-getty@ttyS0.service.d/shell.conf",
		"[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear --keep-baud 115200 %I dumb\n", 0o644)
}

// quotaPackages have the programs that start containers.
var quotaPackages = []string{"crun", "systemd-container", "lxc", "busybox-static"}

// quotaTests are the packages of the tests of quotas, by the name of the program.
var quotaTests = map[string]string{"quota.test": "bakeoff/provision/quota", "guests.test": ".",
	"disk.test": "bakeoff/provision/disk"}

// mounted is a file system at /q of a machine whose second disk is /dev/vdb: commands that make and mount it,
// without quotas where it can be, and with quotas, and one that removes it. clones makes the folders /q/a and
// /q/b, between which copies of disks share blocks; it is "" where other tests show that.
type mounted struct{ system, device, make, limited, clones, remove string }

// quotasIn executes the tests of quotas in a machine, on each of the file systems.
func quotasIn(t *testing.T, h e2e.Home, d debian, all []mounted) {
	text := strings.Replace(d.manifest("host", ""), `"virtio"}`, `"virtio"}, {"size": 8192, "model": "virtio"}`, 1)
	do(t, h, "create", "-f", file(t, "host.json", text))
	c := &console{h: h, uuid: guest(t, h, "host").UUID}
	c.await(t)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(quotaTests))) { // the short one first
		for _, at := range all {
			t.Run(name+" "+at.system, func(t *testing.T) {
				env, first := "BAKEOFF_TEST_QUOTA_AT=/q", at.limited
				switch name {
				case "disk.test":
					if at.clones == "" {
						t.Skip("TestCopy of provision/disk shows it")
					}
					env, first = "BAKEOFF_TEST_CLONES='/q/a /q/b'", at.make+" && "+at.clones
				case "guests.test":
					env, first = envQuota+"='"+at.system+" "+at.device+" /q' TMPDIR=/q "+suite.Programs+"=/usr/local/bin", at.make
				}
				c.run(t, "mkdir -p /q && cd / && "+first)
				out, code, ok := c.try("cd /srv && "+env+" ./"+name+" -test.v -test.timeout 2h "+
					"-test.run '^(TestQuota|TestLimits|TestCopy)$' >log 2>&1; echo $? >code; tail -c 60000 log; test $(cat code) = 0",
					2*time.Hour)
				if !ok || code != "0" || !strings.Contains(out, "--- PASS: Test") {
					t.Errorf("exit code %q (answered: %v)\n%s", code, ok, out)
				} else {
					t.Log(out)
				}
				c.run(t, at.remove)
			})
		}
	}
	do(t, h, "delete", "host")
	leavesNothing(t, h)
}
