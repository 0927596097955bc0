package fake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/provision/driver"
)

func readerOf(b []byte) io.Reader { return bytes.NewReader(b) }

// many is the number of commands that are broken one by one. With more commands
// every second or third is broken, because each takes a creation.
const many = 40

// Break creates environments of drv on h repeatedly and breaks the connection
// to the host at each command in turn: alternately before the command was
// executed and after it, when the answer is lost. Whatever happens, nothing may
// be left afterwards, according to left, which inspects the fake itself, and
// according to Reap.
//
// spec describes an environment; Break changes its label and directory.
func Break(t *testing.T, drv driver.Driver, h *Host, spec driver.Spec, left func(driver.Spec) []string) {
	t.Helper()
	dir := t.TempDir()
	created := 0 // commands of a creation
	once := func(name string) (failed bool) {
		s := spec
		s.Label = labelled(spec.Label, name)
		s.Dir = filepath.Join(dir, s.Label)
		if err := os.Mkdir(s.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		before := len(h.Calls())
		in, err := drv.Create(ctx, h, s)
		created = len(h.Calls()) - before
		h.breakAt(nil)
		if err == nil {
			if err := in.Close(ctx); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
		found, rerr := drv.Reap(ctx, h, driver.Leftover{Label: s.Label, Dir: s.Dir}, true)
		if rerr != nil || len(found) > 0 {
			t.Errorf("%s: Reap finds %q, %v; creation said %v", name, found, rerr, err)
		}
		for _, thing := range left(s) {
			t.Errorf("%s: left behind: %s; creation said %v", name, thing, err)
		}
		if err := os.RemoveAll(s.Dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return err != nil
	}
	if once("whole") {
		t.Fatal("it fails even when nothing is broken")
	}
	calls, failures, broken := created, 0, 0
	step := 1 + calls/many
	for i := 0; i < calls; i += step {
		after := i/step%2 == 1
		n := len(h.Calls()) + i
		var hit []string
		h.breakAt(func(call int, argv []string) (bool, bool) {
			if call != n {
				return false, false
			}
			hit = argv
			return !after, after
		})
		if once(fmt.Sprintf("%d-%v", i, after)) {
			failures++
		}
		if hit != nil {
			broken++
		}
		if t.Failed() {
			t.Fatalf("broken at command %d, %q (after it: %v)", i, hit, after)
		}
	}
	t.Logf("broken at every %d. of %d commands: %d of %d creations failed, nothing was left", step, calls, failures,
		broken)
	if 2*failures < broken {
		t.Errorf("only %d of %d creations failed: somebody swallows errors", failures, broken)
	}
}

// breakAt sets the function that decides before each command whether the
// connection breaks before or after it.
func (h *Host) breakAt(f func(n int, argv []string) (before, after bool)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = f
}
