package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// An environment of another controller with the same label or directory is
// refused and stays.
func TestNewFindsAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	spec := driver.Spec{Label: fmt.Sprintf("found-%d", os.Getpid()), Dir: t.TempDir(), CPUSet: []int{0}}
	e, err := New(t.Context(), local.Conn{}, spec)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := New(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Lab) ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	own := netns.Own(spec.Label)
	if err := setup.Environment(wire.Setup{Network: &wire.Netns{Name: own}}); err != nil {
		t.Fatal(err)
	}
	refused("network namespace " + own + " exists already")
	if err := (setup.Teardown{Netns: own}).Run(); err != nil {
		t.Error(err)
	}
	g, err := e.Layout.Create(t.Context(), local.Conn{}, spec.Label, cgroup.Limits{CPUSet: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	refused("control group ")
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	root := filepath.Join(spec.Dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), local.Conn{}, spec); err != nil {
		t.Errorf("a directory: %v", err)
	}
	if err := unix.Mount("none", root, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	refused("mount " + root)
	if err := unix.Unmount(root, 0); err != nil {
		t.Error(err)
	}
}

// A setup that was started creates nothing after Close, even if no step waited
// for it.
func TestCloseWaitsForSetup(t *testing.T) {
	e := &Env{Host: local.Conn{}, Spec: driver.Spec{Label: "x-none", Dir: filepath.Join(t.TempDir(), "none")}}
	waited := false
	e.begun = func() error { waited = true; return errors.New("reported before") }
	if err := e.Close(t.Context()); err != nil || !waited {
		t.Errorf("%v, waited: %v", err, waited)
	}
}

// A limit and the steps beside it all end before an error is returned.
func TestLimitWhile(t *testing.T) {
	limited := errors.New("limit")
	for _, volumes := range [][]volume.Volume{nil, {{Path: "/data"}}} {
		e := &Env{Host: local.Conn{}, Spec: driver.Spec{Volumes: volumes}}
		stepped := false
		err := e.LimitWhile(func() error { return limited }, func() error { stepped = true; return nil })
		if !errors.Is(err, limited) || stepped != (volumes == nil) {
			t.Errorf("%d volumes: %v, stepped: %v", len(volumes), err, stepped)
		}
	}
}
