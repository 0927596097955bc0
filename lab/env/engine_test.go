package env

import (
	"context"
	"errors"
	"os"
	"testing"

	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// daemonic is a driver whose environments share an engine. Its environments
// are nothing but a note of their options.
type daemonic struct {
	driver.Driver
	started, closed int
	fail            error
	specs           []driver.Spec
}

func (h *daemonic) Doc() driver.Doc { return driver.Doc{Name: "daemonic"} }
func (h *daemonic) Create(_ context.Context, _ conn.Conn, s driver.Spec) (driver.Instance, error) {
	h.specs = append(h.specs, s)
	return nothing{}, nil
}

type nothing struct{ driver.Instance }

func (nothing) Close(context.Context) error { return nil }

func (h *daemonic) StartEngine(_ context.Context, _ conn.Conn, s driver.Spec) (driver.Engine, error) {
	if s.Options.Text("plain") != "" {
		return nil, nil
	}
	h.started++
	if h.fail != nil {
		return nil, h.fail
	}
	return daemon{h, param.Values{"at": s.Dir}}, nil
}

type daemon struct {
	h       *daemonic
	options param.Values
}

func (s daemon) Options() param.Values       { return s.options }
func (s daemon) Close(context.Context) error { s.h.closed++; return nil }

// Environments with the same options share one engine. It has a lease as an
// environment has, and it is gone with the manager.
func TestEngine(t *testing.T) {
	state := t.TempDir()
	m, err := Open(t.Context(), Config{StateDir: state, CacheDir: t.TempDir(), Host: local.Conn{}, Run: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &daemonic{}
	lease := func(options param.Values) error {
		e, err := m.Lease(t.Context(), h, manifest.Contender{Name: "x", Driver: "daemonic", CPUs: 1, Options: options},
			driver.Image{})
		if err == nil {
			err = e.Return(t.Context())
		}
		return err
	}
	for _, o := range []param.Values{{"a": "1"}, {"a": "1"}, {"a": "2"}, {"plain": "yes"}, {"plain": "yes"}} {
		if err := lease(o); err != nil {
			t.Fatal(err)
		}
	}
	if h.started != 2 {
		t.Errorf("made %d times for two kinds of options", h.started)
	}
	at := []string{}
	for _, s := range h.specs {
		at = append(at, s.Options.Text("at"))
	}
	if at[0] == "" || at[0] != at[1] || at[0] == at[2] || at[3] != "" || h.specs[3].Options.Text("plain") != "yes" {
		t.Errorf("the environments use %q", at)
	}
	if _, err := os.Stat(at[0]); err != nil {
		t.Error(err)
	}
	if leases, err := Leases(state); err != nil || len(leases) != 2 {
		t.Errorf("leases %v, %v; want those of the two engines", leases, err)
	}
	h.fail = errors.New("no engine")
	if err := lease(param.Values{"a": "3"}); !errors.Is(err, h.fail) {
		t.Errorf("an engine that fails: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases, err := Leases(state)
	if err != nil || len(leases) != 0 || h.closed != 2 {
		t.Errorf("left %v, %v; closed %d", leases, err, h.closed)
	}
	if _, err := os.Stat(at[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}
