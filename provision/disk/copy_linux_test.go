package disk

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bakeoff/reach/conn/local"
)

// envClones is set in the process of TestCopy whose files are on a file system that shares blocks: the folder
// of a disk, and that of its copy.
const envClones = "BAKEOFF_TEST_CLONES"

// On btrfs, XFS and ZFS, the copy of a raw disk takes no space of its own. Everywhere it has the same bytes,
// and the disk stays as it is when its copy changes.
func TestCopy(t *testing.T) {
	if dirs := strings.Fields(os.Getenv(envClones)); len(dirs) == 2 {
		if used := copied(t, dirs[0], dirs[1]); used > 4<<20 {
			t.Errorf("the copy of 32 MiB takes %d bytes", used)
		}
		return
	}
	copied(t, t.TempDir(), t.TempDir())
	for name, pkg := range map[string]string{"btrfs": "btrfs-progs", "xfs": "xfsprogs"} {
		t.Run(name, func(t *testing.T) { copyOn(t, name, pkg) })
	}
}

// copyOn is TestCopy on a file system with this name, which mkfs.NAME of a package makes.
func copyOn(t *testing.T, name, pkg string) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("mkfs." + name); err != nil {
		t.Skipf("needs mkfs.%s: apt-get install %s", name, pkg)
	}
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "\t"+name+"\n") {
		t.Skip("needs a kernel with " + name)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", `truncate -s 512M "$1"
		mkfs."$3" -q "$1"; mount -o loop "$1" "$2"; exec "$4" -test.run '^TestCopy$' -test.v`, "sh",
		filepath.Join(dir, "file"), at, name, os.Args[0])
	c.Env = append(os.Environ(), envClones+"="+at+" "+at)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestCopy") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// copied copies a disk in a folder to another one, and returns how many bytes of the file system the copy takes.
func copied(t *testing.T, base, dir string) uint64 {
	t.Helper()
	from, to := filepath.Join(base, "from.raw"), filepath.Join(dir, "to.raw")
	want := bytes.Repeat([]byte("thirteen letters"), 2<<20)
	if err := os.WriteFile(from, want, 0o600); err != nil {
		t.Fatal(err)
	}
	free := func() uint64 {
		t.Helper()
		syscall.Sync()
		_ = exec.Command("zpool", "sync").Run() // ZFS counts what a transaction group has written
		var at syscall.Statfs_t
		if err := syscall.Statfs(dir, &at); err != nil {
			t.Fatal(err)
		}
		return at.Bfree * uint64(at.Bsize)
	}
	before := free()
	if err := Copy(t.Context(), local.Conn{}, from, "raw", to); err != nil {
		t.Fatal(err)
	}
	used := before - min(before, free())
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes became %d others (%v)", len(want), len(got), err)
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("other"), 4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(from); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the disk has changed with its copy (%v)", err)
	}
	return used
}
