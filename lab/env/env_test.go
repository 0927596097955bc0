package env

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
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

func TestDirs(t *testing.T) {
	getenv := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	for _, c := range []struct {
		env          map[string]string
		uid          int
		state, cache string
	}{
		{nil, 0, "/var/lib/bakeoff", "/var/cache/bakeoff"},
		{map[string]string{"HOME": "/home/u"}, 1000, "/home/u/.local/state/bakeoff", "/home/u/.cache/bakeoff"},
		{map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/x"}, 1000, "/home/u/.local/state/bakeoff", "/x/bakeoff"},
		{map[string]string{"BAKEOFF_STATE": "/s"}, 0, "/s", "/var/cache/bakeoff"},
	} {
		if s, k := Dirs(getenv(c.env), c.uid); s != c.state || k != c.cache {
			t.Errorf("%v as %d: %s and %s, want %s and %s", c.env, c.uid, s, k, c.state, c.cache)
		}
	}
}

// A lease that somebody wrote by hand must not make clean remove what is not
// ours.
func TestForeignLeasesRemoveNothing(t *testing.T) {
	state := t.TempDir()
	good := Lease{Schema: LeaseSchema, Label: "a1-2", Driver: "host", Dir: filepath.Join(state, envDir, "a1-2"),
		Started: time.Now()}
	b, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decode(b, state); err != nil {
		t.Fatalf("a true lease: %v", err)
	}
	for name, change := range map[string]func(*Lease){
		"a directory elsewhere": func(r *Lease) { r.Dir = "/etc" },
		"a directory above":     func(r *Lease) { r.Dir += "/../.." },
		"a label with a path":   func(r *Lease) { r.Label = "../x"; r.Dir = filepath.Join(state, "x") },
		"another schema":        func(r *Lease) { r.Schema = "v2" },
		"a foreign namespace":   func(r *Lease) { r.Network = "prod"; r.Dir = "" },
	} {
		r := good
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(b, state); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
	if err := os.MkdirAll(filepath.Join(state, leaseDir), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(state, leaseDir, "x.json")
	if err := os.WriteFile(path, []byte(`{"schema":"bakeoff/lease/v1"`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Leases(state); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged lease: %v; want Invalid with its path", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/lease/v1","label":"a-1","driver":"host","dir":"/s/env/a-1"}`))
	f.Add([]byte(`{"schema":"bakeoff/lease/v1","label":"net-1","network":"bo-1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b, "/s")
		if err == nil && r.Dir != "" && !strings.HasPrefix(r.Dir, "/s/env/") {
			t.Errorf("lease %q names %q", b, r.Dir)
		}
	})
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
		b, err := json.Marshal(Lease{Schema: LeaseSchema, Label: label, Driver: "none", PID: pid, Dir: Place(state, label)})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(state, leaseDir, label+".json"), b, 0o600); err != nil {
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
		if err := os.Remove(filepath.Join(state, leaseDir, label+".json")); err != nil {
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
