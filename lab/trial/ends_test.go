package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/wire"
)

// end is a host with counters of its own: joules that grow by step with every
// reading.
type end struct {
	env.Here
	step     float64
	read     atomic.Int64
	sessions atomic.Int64
	// met, where there is one, is what both ends reach before either goes on.
	met  func() error
	fail error
	cpus []int // that were asked for last
}

func (e *end) Session() int         { return int(e.sessions.Load()) }
func (e *end) CPUs() ([]int, error) { return []int{4, 5, 6}, nil }

func (e *end) Counters(_ context.Context, cpus []int) (facts.Counters, error) {
	e.cpus = cpus
	if e.met != nil {
		if err := e.met(); err != nil {
			return facts.Counters{}, err
		}
	}
	n := e.read.Add(1)
	joules, switches := 100+e.step*float64(n), float64(n)
	return facts.Counters{AtNS: n, Joules: &joules, ContextSwitches: &switches, CPUSet: cpus}, e.fail
}

// twoEnds is an environment on one host with its load from another.
func twoEnds(t *testing.T) (r *runner, en *environment, x *target, near, far *end) {
	t.Helper()
	near, far = &end{Here: env.Here{Conn: nowhere{}}, step: 7}, &end{Here: env.Here{Conn: nowhere{}}, step: 3}
	d := &dice{}
	open := func(e *end, name string) *env.Manager {
		l, err := env.Open(t.Context(), env.Config{StateDir: filepath.Join(t.TempDir(), name), Host: e, Name: name}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close(context.Background()) })
		return l
	}
	here, there := open(near, "server"), open(far, "client")
	leased, err := here.Lease(t.Context(), &shelf{name: "shelf"}, manifest.Contender{Name: "a", CPUs: 1}, driver.Image{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leased.Return(context.Background()) })
	en = &environment{Environment: leased}
	x = &target{Target: execution.Target{Subject: leased.Instance}, work: d, generator: there}
	return &runner{Options: Options{Now: time.Now}}, en, x, near, far
}

// What both hosts counted is in the line and in the raw output, each under its
// own name, and the generator's is of all CPUs that it may use.
func TestBothEndsAreCounted(t *testing.T) {
	r, en, x, _, far := twoEnds(t)
	line := &store.Trial{}
	raw, err := r.measure(t.Context(), en, x, line)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(far.cpus, line.GeneratorAfter.CPUSet); got != "[4 5 6] [4 5 6]" {
		t.Errorf("the generator's CPUs are %s", got)
	}
	spent := func(blob string) float64 {
		var s wire.Span
		if err := json.Unmarshal(raw[blob], &s); err != nil {
			t.Fatalf("%s: %v", blob, err)
		}
		return *s.After.Since(s.Before).Joules
	}
	if h, g := spent(workload.Host), spent(workload.GeneratorHost); h != 7 || g != 3 {
		t.Errorf("the raw output has %g J and %g J, and 7 J and 3 J were spent", h, g)
	}
	if h, g := *line.After.Joules-*line.Before.Joules, *line.GeneratorAfter.Joules-*line.GeneratorBefore.Joules; h != 7 ||
		g != 3 {
		t.Errorf("the line has %g J and %g J, and 7 J and 3 J were spent", h, g)
	}

	// Load from the same host: one host, one counter, and a line as ever.
	x.generator = nil
	line = &store.Trial{}
	if raw, err = r.measure(t.Context(), en, x, line); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(line)
	if err != nil || strings.Contains(string(text), "generator") || raw[workload.GeneratorHost] != nil {
		t.Errorf("one host: %s (%v), raw output %q", text, err, raw[workload.GeneratorHost])
	}
}

// Neither end waits for the other's reading: both are being read at once, or
// this does not end well.
func TestBothEndsAreReadAtOnce(t *testing.T) {
	r, en, x, near, far := twoEnds(t)
	here, there := make(chan struct{}), make(chan struct{})
	meet := func(mine, other chan struct{}) func() error {
		return func() error {
			select {
			case mine <- struct{}{}:
			case <-other:
			case <-time.After(time.Minute):
				return errors.New("the other end is not being read")
			}
			return nil
		}
	}
	near.met, far.met = meet(here, there), meet(there, here)
	if _, err := r.measure(t.Context(), en, x, &store.Trial{}); err != nil {
		t.Error(err)
	}
}

// A generator's host that cannot be read, or that was connected to anew in
// mid-trial, voids the trial.
func TestAGeneratorsHostThatIsLost(t *testing.T) {
	r, en, x, _, far := twoEnds(t)
	x.work.(*dice).run = func(execution.Target, int64) error { far.sessions.Add(1); return nil }
	if _, err := r.measure(t.Context(), en, x, &store.Trial{}); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "the connection to client, where load comes from, was lost") {
		t.Errorf("another session: %v", err)
	}
	far.fail = fault.New(fault.Lab, "the wire broke")
	if _, err := r.measure(t.Context(), en, x, &store.Trial{}); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "counters of the load generator's host: the wire broke") {
		t.Errorf("no counters: %v", err)
	}
}
