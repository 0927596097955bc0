package lease

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn/local"
)

// here is this machine.
type here struct{ local.Conn }

func (here) Keep(_ context.Context, path string, data []byte) error { return local.Keep(path, data) }
func (here) Remove(_ context.Context, path string) error            { return os.RemoveAll(path) }

// A lease that somebody wrote by hand must not make clean remove what is not
// ours.
func TestForeignLeasesAreRefused(t *testing.T) {
	f := Folder{State: t.TempDir()}
	good := Lease{Schema: Schema, Label: "a1-2", Driver: "host", Dir: f.Place("a1-2"), Started: time.Now()}
	b, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := f.decode(b); err != nil || l.IsKept() {
		t.Fatalf("a true lease: %+v, %v", l, err)
	}
	for name, change := range map[string]func(*Lease){
		"a directory elsewhere": func(r *Lease) { r.Dir = "/etc" },
		"a directory above":     func(r *Lease) { r.Dir += "/../.." },
		"a label with a path":   func(r *Lease) { r.Label = "../x"; r.Dir = filepath.Join(f.State, "x") },
		"another schema":        func(r *Lease) { r.Schema = "v2" },
		"another lifetime":      func(r *Lease) { r.Lifetime = "long" },
		"a foreign namespace":   func(r *Lease) { r.Network = "prod"; r.Dir = "" },
		"a setting of others":   func(r *Lease) { r.Settings = map[string]Setting{"kernel/core_pattern": {From: "1"}} },
		"a setting with a program": func(r *Lease) {
			r.Settings = map[string]Setting{"net/ipv4/ip_forward": {From: "|/bin/sh"}}
		},
		"a setting above":   func(r *Lease) { r.Settings = map[string]Setting{"net/ipv4/conf/../forwarding": {From: "1"}} },
		"a setting between": func(r *Lease) { r.Settings = map[string]Setting{"net/ipv4/conf/a/b/forwarding": {From: "1"}} },
	} {
		l := good
		change(&l)
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.decode(b); err == nil {
			t.Errorf("%s was believed", name)
		}
	}
}

// A damaged lease is an error with its path.
func TestADamagedLease(t *testing.T) {
	f := Folder{At: here{}, State: t.TempDir()}
	if err := os.MkdirAll(f.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	path := f.path("x")
	if err := os.WriteFile(path, []byte(`{"schema":"bakeoff/lease/v1"`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.All(t.Context()); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
		t.Errorf("a damaged lease: %v; want Invalid with its path", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/lease/v1","label":"a-1","driver":"host","dir":"/s/env/a-1"}`))
	f.Add([]byte(`{"schema":"bakeoff/lease/v1","label":"net-1","network":"bo-1"}`))
	f.Add([]byte(`{"schema":"bakeoff/lease/v1","label":"a-1","dir":"/s/env/a-1","run":"studio","lifetime":"kept"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Folder{State: "/s"}.decode(b)
		if err == nil && l.Dir != "" && !strings.HasPrefix(l.Dir, "/s/env/") {
			t.Errorf("lease %q names %q", b, l.Dir)
		}
	})
}
