package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/param"
)

// The real thing: a full disk is a failure of what is measured.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root on Linux, to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	p, env := cell(t, param.Values{"op": "seq-write", "size": "8MiB"})
	env.Dir = filepath.Join(dir, "files")
	if err := prepare(context.Background(), p, env); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error is %v", err)
	}
	if left, _ := os.ReadDir(env.Dir); len(left) != 0 {
		t.Errorf("%v is left on the full disk", left)
	}
	// And a file system in memory has no cold state.
	p["size"], p["op"], p["cache"] = "256KiB", "seq-read", "cold"
	if err := prepare(context.Background(), p, env); err != nil {
		t.Fatal(err)
	}
	if _, err := runLoop(context.Background(), p, env); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "use cache=warm") {
		t.Errorf("cold reads from a tmpfs: %v", err)
	}
}
