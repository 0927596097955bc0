package env

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/lease"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/probe"
)

func TestLayoutKeepsTheGeneratorAway(t *testing.T) {
	l := Layout{CPUs: []int{0, 1, 2, 5}}
	if s := l.Subject(2); !slices.Equal(s, []int{2, 5}) || !slices.Equal(l.Others(s), []int{0, 1}) {
		t.Errorf("subject %v, others %v", s, l.Others(s))
	}
	if l.Shared(2) {
		t.Error("two of four CPUs leave some to the generator")
	}
	one := Layout{CPUs: []int{3}}
	if s := one.Subject(1); !slices.Equal(s, []int{3}) || !slices.Equal(one.Others(s), []int{3}) || !one.Shared(1) {
		t.Error("one CPU must be shared, and be said to be")
	}
	if s := l.Subject(9); len(s) != 4 {
		t.Errorf("nine CPUs of four: %v", s)
	}
}

// Runs with state folders of their own share the lock of the host. A dry run needs
// no lock: it tells what is in use from what is left over.
func TestOneRunPerHost(t *testing.T) {
	if probe.Memory() == 0 {
		t.Skip("bakeoff does not measure on this system")
	}
	lock := filepath.Join(t.TempDir(), "lock")
	open := func(state, lock string) (*Manager, error) {
		return Open(t.Context(), Config{StateDir: state, CacheDir: t.TempDir(), HostLock: lock, Host: local.Conn{}}, nil)
	}
	state := t.TempDir()
	first, err := open(state, lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.TempDir(), lock); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "measures on this host") {
		t.Errorf("a second run on the host: %v", err)
	}
	if m, err := open(t.TempDir(), lock+"2"); err != nil {
		t.Errorf("a run with a lock of its own: %v", err)
	} else if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for label, pid := range map[string]int{"mine-1": os.Getpid(), "dead-1": os.Getpid() + 1} {
		b, err := json.Marshal(lease.Lease{Schema: lease.Schema, Label: label, Driver: "none", PID: pid,
			Dir: Place(state, label)})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, "lease", label+".json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Cleaner{StateDir: state, HostLock: lock, Host: local.Conn{}}
	found, err := c.Clean(t.Context(), true)
	inUse := map[string]bool{}
	for _, f := range found {
		inUse[f.Lease.Label] = f.InUse
	}
	if err != nil || len(inUse) != 2 || !inUse["mine-1"] || inUse["dead-1"] {
		t.Errorf("dry run while a run measures: %v, %v", inUse, err)
	}
	if _, err := c.Clean(t.Context(), false); !fault.Is(err, fault.Unsupported) {
		t.Errorf("clean while a run measures: %v", err)
	}
	for _, label := range []string{"mine-1", "dead-1"} {
		if err := os.Remove(filepath.Join(state, "lease", label+".json")); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m, err := open(t.TempDir(), lock); err != nil {
		t.Errorf("a run after the first one ended: %v", err)
	} else if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A kept lease outlives runs: Open and clean leave what it names, and clean shows it. One
// without a lifetime, as older programs wrote them, is of a run.
func TestKeptLeases(t *testing.T) {
	if probe.Memory() == 0 {
		t.Skip("bakeoff does not measure on this system")
	}
	state := t.TempDir()
	folder := lease.Folder{At: Here{local.Conn{}}, State: state}
	for label, lifetime := range map[string]lease.Lifetime{"kept-1": lease.Kept, "run-1": lease.Run, "old-1": ""} {
		l := lease.Lease{Label: label, Driver: "driver", Owner: "owner", Lifetime: lifetime, Dir: folder.Place(label)}
		for _, dir := range []string{folder.Dir(), filepath.Join(l.Dir, "sub")} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := folder.Write(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	drivers := []driver.Driver{leftBehind{}}
	c := Cleaner{StateDir: state, Host: local.Conn{}, Drivers: drivers}
	for _, dryRun := range []bool{true, false} {
		found, err := c.Clean(t.Context(), dryRun)
		if err != nil || len(found) != 3 {
			t.Fatalf("%+v, %v", found, err)
		}
		for _, f := range found {
			kept := f.Lease.Label == "kept-1"
			if f.Err != "" || len(f.Left) == 0 || f.Kept != kept || f.InUse || f.Removed == (kept || dryRun) {
				t.Errorf("dry run %v: %+v", dryRun, f)
			}
		}
	}
	m, err := Open(t.Context(), Config{StateDir: state, CacheDir: t.TempDir(), Host: local.Conn{}}, drivers)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := Leases(state)
	if err != nil || len(left) != 1 || left[0].Label != "kept-1" || left[0].Owner != "owner" {
		t.Errorf("leases %+v, %v", left, err)
	}
	dirs, err := filepath.Glob(filepath.Join(folder.EnvDir(), "*", "sub"))
	if err != nil || !slices.Equal(dirs, []string{filepath.Join(folder.Place("kept-1"), "sub")}) {
		t.Errorf("directories %q, %v", dirs, err)
	}
}

// leftBehind is a driver that finds nothing of its own.
type leftBehind struct{ driver.Driver }

func (leftBehind) Doc() driver.Doc { return driver.Doc{Name: "driver"} }

func (leftBehind) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, nil
}

// The error for a state folder that cannot be created says how to set another.
func TestOpenWithoutAStateFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{StateDir: filepath.Join(file, "state"), Host: local.Conn{}}, nil)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "set BAKEOFF_STATE to another folder") {
		t.Errorf("Open below a file: %v", err)
	}
}
