package quota

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// envAt is a folder on a file system with quotas, in which TestLimits runs.
const envAt = "BAKEOFF_TEST_QUOTA_AT"

// A limit holds for a folder and what is in it, changes at once, and goes with the folder. This is a btrfs
// that the test makes. TestQuotaOfProjects and TestQuotaOnZFS of package e2e/guests run it on ext4, XFS and ZFS,
// in machines whose kernels have what is needed.
func TestLimits(t *testing.T) {
	if at := os.Getenv(envAt); at != "" {
		limits(t, at)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("mkfs.btrfs"); err != nil {
		t.Skip("needs mkfs.btrfs: apt-get install btrfs-progs")
	}
	if known, _ := os.ReadFile("/proc/filesystems"); !strings.Contains(string(known), "btrfs") {
		t.Skip("needs a kernel with btrfs")
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-ec", `truncate -s 4G "$1/file"
		mkfs.btrfs -q "$1/file"; mount -o loop "$1/file" "$2"; btrfs quota enable "$2"
		exec "$3" -test.run '^TestLimits$' -test.v`, "sh", dir, at, os.Args[0])
	c.Env = append(os.Environ(), envAt+"="+at)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLimits") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func limits(t *testing.T, at string) {
	out, err := conn.Output(t.Context(), local.Conn{}, "stat", "-f", "-c", "%T", at)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(out))
	l, full := On(local.Conn{}, name), error(unix.EDQUOT)
	fill := allocate
	switch name {
	case "xfs":
		full = unix.ENOSPC
	case "zfs":
		fill = write // ZFS reserves nothing
	}
	dir, other := filepath.Join(at, "a"), filepath.Join(at, "b")
	err = errors.Join(l.Check(t.Context(), at), l.Make(t.Context(), dir), os.Mkdir(other, 0o755),
		os.Mkdir(filepath.Join(dir, "in"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{dir: true, other: false} {
		if can, err := l.Limitable(t.Context(), at); can != want || err != nil {
			t.Errorf("%s: %v, %v", at, can, err)
		}
	}
	limit := func(gib int) {
		t.Helper()
		if err := l.Limit(t.Context(), dir, gib); err != nil {
			t.Fatal(err)
		}
	}
	reserve := func(name string, mib int64, want error) {
		t.Helper()
		done := make(chan error)
		go func() { done <- asContainer(name, mib<<20, fill) }()
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("%d MiB in %s: %v instead of %v", mib, name, err, want)
		}
	}
	limit(1)
	reserve(filepath.Join(dir, "in/a"), 900, nil)
	reserve(filepath.Join(dir, "b"), 200, full)
	reserve(filepath.Join(other, "a"), 200, nil)
	limit(2)
	reserve(filepath.Join(dir, "b"), 200, nil)
	limit(1) // less than what it contains
	reserve(filepath.Join(dir, "c"), 10, full)
	limit(0)
	if err := os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "in/b")); err != nil {
		t.Error(err)
	}
	reserve(filepath.Join(dir, "c"), 1000, nil)
	limit(1)
	p, projected := l.(projects)
	var id uint32
	if projected {
		if id, _, err = p.kernel.project(dir); err != nil || !ours(id) {
			t.Errorf("project %d: %v", id, err)
		}
	}
	if err := errors.Join(l.Free(t.Context(), dir), os.RemoveAll(dir), l.Free(t.Context(), dir)); err != nil {
		t.Fatal(err)
	}
	if projected { // XFS frees the blocks of removed files later
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			known, err := p.kernel.known(at, id)
			if err == nil && !known {
				break
			}
			if err != nil || time.Now().After(end) {
				t.Fatalf("project %d is left: %v", id, err)
			}
		}
	}
	if err := l.Make(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	reserve(filepath.Join(dir, "a"), 1100, nil) // without a limit
}

// asContainer fills a new file as overlayfs does for a container: without CAP_SYS_RESOURCE. On
// ext4, no limit holds for programs with this capability. Its thread keeps no capabilities, and ends with
// its goroutine.
func asContainer(name string, bytes int64, fill func(f *os.File, bytes int64) error) error {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return fill(f, bytes)
}

func allocate(f *os.File, bytes int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, bytes) }

// write writes what no file system compresses.
func write(f *os.File, bytes int64) error {
	block := make([]byte, 1<<20)
	rand.Read(block) // never fails
	for at := int64(0); at < bytes; at += int64(len(block)) {
		binary.LittleEndian.PutUint64(block, uint64(at)) // no two blocks are equal
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Sync()
}
