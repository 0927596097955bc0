//go:build unix

package lock

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is being started has the files of the one that starts it for a moment:
// that does not keep a lock which was given back.
func TestReleaseWhileTheFileIsOpenElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := unix.Dup(int(l.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	l.Release()
	if Held(path) {
		t.Error("the lock is still held")
	}
}

// A user without a home in which to write has no lock, instead of one that fails.
func TestOfMachine(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid              int
		home, lock, want string
	}{
		{0, home, "", "/var/run/bakeoff.lock"},
		{0, home, "/else", "/else"},
		{1000, home, "/else", "/else"},
		{1000, home, "", home + "/.local/state/bakeoff/machine.lock"},
		{1000, "", "", ""},
		{1000, "relative", "", ""},
		{1000, file, "", ""},
	} {
		getenv := func(name string) string {
			return map[string]string{"HOME": c.home, "BAKEOFF_LOCK": c.lock, "XDG_STATE_HOME": "/elsewhere"}[name]
		}
		if got := OfMachine(getenv, c.uid); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 1 {
		t.Errorf("asking created %v, %v", left, err)
	}
}
