package ssh

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bakeoff/base/lock"
)

// What a killed controller leaves is found; what a living one, another user or
// one that is about to take its lock has there is left alone.
func TestReap(t *testing.T) {
	t.Setenv("TMPDIR", short(t))
	make := func(name string, old, locked bool) string {
		dir := filepath.Join(baseDir(), dirPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if locked { // a stale lock
			l, err := lock.Try(filepath.Join(dir, lockFile))
			if err != nil {
				t.Fatal(err)
			}
			l.Release()
		}
		if old {
			if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-2*young)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	killed := make("killed", false, true)
	make("former", true, false)
	make("beginning", false, false)
	if err := os.WriteFile(filepath.Join(make("locking", false, false), lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	living, err := newClient(Options{Program: "ssh", Target: "nowhere", Local: nil})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); err == nil {
		t.Error("a new connection leaves what a killed one left")
	}
	make("killed", false, true)
	former := make("former", true, false)
	if os.Geteuid() == 0 {
		if err := os.Lchown(make("another's", true, false), 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(baseDir(), dirPrefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{former, killed}
	for _, dryRun := range []bool{true, false} {
		found, err := Reap(dryRun)
		if slices.Sort(found); err != nil || !slices.Equal(found, want) {
			t.Errorf("dry run %v: %q, %v; want %q", dryRun, found, err, want)
		}
	}
	if found, err := Reap(true); err != nil || len(found) > 0 {
		t.Errorf("afterwards: %q, %v", found, err)
	}
	if _, err := os.Stat(living.dir); err != nil {
		t.Error(err)
	}
	living.mine.Release()
	if found, err := Reap(false); err != nil || !slices.Equal(found, []string{living.dir}) {
		t.Errorf("%q, %v", found, err)
	}
}

// short is a directory whose path is short enough for sockets.
func short(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "reap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
