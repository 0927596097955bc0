package ssh_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/ssh"
	"bakeoff/reach/conn/sshtest"
)

// tmpfs is a small disk.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: a small file system is mounted")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("needs a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// files lists what is below dir.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A disk that is full is our failure, with its reason, and nothing half
// written stays behind.
func TestFullDisk(t *testing.T) {
	s := sshtest.Start(t)
	c := open(t, options(t, s))
	small := tmpfs(t, "64k")
	err := c.Push(t.Context(), small+"/file", 0o600, bytes.NewReader(make([]byte, 1<<20)))
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("a push: %v of kind %q", err, fault.Of(err))
	}
	if left := files(t, small); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}

	o := options(t, s)
	o.Dir = tmpfs(t, "1m")
	_, err = ssh.Open(t.Context(), o)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "No space left") {
		t.Errorf("the agent: %v of kind %q", err, fault.Of(err))
	}
	if left := files(t, o.Dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
