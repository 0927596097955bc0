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

// house is a driver whose environments stand on something. Its environments
// are nothing but a note of their options.
type house struct {
	driver.Driver
	founded, closed int
	fail            error
	specs           []driver.Spec
}

func (h *house) Doc() driver.Doc { return driver.Doc{Name: "house"} }
func (h *house) Create(_ context.Context, _ conn.Conn, s driver.Spec) (driver.Instance, error) {
	h.specs = append(h.specs, s)
	return nothing{}, nil
}

type nothing struct{ driver.Instance }

func (nothing) Close(context.Context) error { return nil }

func (h *house) Found(_ context.Context, _ conn.Conn, s driver.Spec) (driver.Foundation, error) {
	if s.Options.Text("plain") != "" {
		return nil, nil
	}
	h.founded++
	if h.fail != nil {
		return nil, h.fail
	}
	return soil{h, param.Values{"at": s.Dir}}, nil
}

type soil struct {
	h       *house
	options param.Values
}

func (s soil) Options() param.Values       { return s.options }
func (s soil) Close(context.Context) error { s.h.closed++; return nil }

// What environments stand on is made once for those with the same options,
// leased like an environment, and gone with the lessor.
func TestGround(t *testing.T) {
	state := t.TempDir()
	l, err := Open(t.Context(), Config{StateDir: state, CacheDir: t.TempDir(), Host: local.Conn{}, Run: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{}
	lease := func(options param.Values) error {
		le, err := l.Lease(t.Context(), h, manifest.Contender{Name: "x", Driver: "house", CPUs: 1, Options: options}, driver.Image{})
		if err == nil {
			err = le.Return(t.Context())
		}
		return err
	}
	for _, o := range []param.Values{{"a": "1"}, {"a": "1"}, {"a": "2"}, {"plain": "yes"}, {"plain": "yes"}} {
		if err := lease(o); err != nil {
			t.Fatal(err)
		}
	}
	if h.founded != 2 {
		t.Errorf("made %d times for two kinds of options", h.founded)
	}
	at := []string{}
	for _, s := range h.specs {
		at = append(at, s.Options.Text("at"))
	}
	if at[0] == "" || at[0] != at[1] || at[0] == at[2] || at[3] != "" || h.specs[3].Options.Text("plain") != "yes" {
		t.Errorf("the environments stand on %q", at)
	}
	if _, err := os.Stat(at[0]); err != nil {
		t.Error(err)
	}
	if leases, err := Leases(state); err != nil || len(leases) != 2 {
		t.Errorf("leases %v, %v; want those of the two grounds", leases, err)
	}
	h.fail = errors.New("no ground")
	if err := lease(param.Values{"a": "3"}); !errors.Is(err, h.fail) {
		t.Errorf("a ground that fails: %v", err)
	}
	if err := l.Close(t.Context()); err != nil {
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
