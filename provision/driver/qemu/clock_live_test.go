//go:build linux

package qemu

import (
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/cpu"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// clockFails says why the gate on clocks fails a trial, "" where it passes.
func clockFails(trial evidence.Trial) string {
	for _, g := range evidence.Gates() {
		if g.Name == "clock" {
			return g.Failed(trial)
		}
	}
	return ""
}

// A guest whose wall clock is set in mid-trial: a program that times itself by
// it measures a time that did not pass. (A machine that is stopped for a while
// is no such guest: its clocks are true when it goes on, see TestFreeze.)
func TestAClockThatIsSetIsGated(t *testing.T) {
	in := create(t, specOf(t, param.Values{"machine": "microvm"}))
	ctx := t.Context()
	p := param.Defaults(cpu.New().Doc().Params)
	p["time"] = "3s"
	target := execution.Target{Subject: in, State: map[string]string{}}
	// It reads the guest's clock at some moment of the width that follows at.
	clock := func() (inside time.Duration, at time.Time, width time.Duration) {
		t.Helper()
		at = time.Now()
		inside, err := in.Clock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return inside, at, time.Since(at)
	}
	trial := func(disturb func()) evidence.Trial {
		from, before := time.Now(), probe.ReadHost(nil)
		inside, asked, width0 := clock()
		var done sync.WaitGroup
		done.Go(disturb)
		raw, err := execution.Native(cpu.New()).Run(ctx, target, p)
		done.Wait()
		if err != nil && !fault.Is(err, fault.Subject) {
			t.Fatal(err)
		}
		until, again, width1 := clock()
		after := probe.ReadHost(nil)
		return evidence.TrialOf(cpu.New(), plan.Cell{}, store.Line{Trial: &store.Trial{Start: from, End: time.Now(),
			Before: &before, After: &after,
			Clock: &store.Clock{InsideNS: (until - inside).Nanoseconds(), OutsideNS: again.Sub(asked).Nanoseconds(),
				UncertaintyNS: (width0 + width1).Nanoseconds()}}}, raw)
	}
	// On a busy machine a reading may be interrupted for longer than the gate
	// bears, and the work begin late.
	var seen []string
	for range 10 {
		why := clockFails(trial(func() {}))
		if seen = append(seen, why); why == "" {
			break
		}
	}
	if seen[len(seen)-1] != "" {
		t.Errorf("undisturbed: %q", seen)
	}
	seen = nil
	for _, after := range []time.Duration{1, 2, 4, 6, 9, 14, 20, 30} {
		why := clockFails(trial(func() {
			time.Sleep(after * time.Second)
			if exit, err := in.Exec(ctx, conn.Command("date", "-s", "@1700000000")); err != nil || !exit.OK() {
				t.Errorf("set the guest's clock: %v, %v", exit, err)
			}
		}))
		if strings.Contains(why, "inside the wall clock was set by −") {
			t.Log(why)
			return
		}
		seen = append(seen, why)
	}
	t.Errorf("a clock that was set: %q", seen)
}
