package trial

import (
	"context"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/evidence"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/provision/driver"
)

// A cell that a contender cannot run is journaled once, before the first trial, and no block
// tries it. A contender that can run no cell gets no environment. What an earlier process left
// out stays out, and what is found later does not.
func TestCellsThatCannotRunAreLeftOut(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n  - {name: idle, driver: second}\n", "looks: [8], alphas: [.05]",
		"two")
	b.drivers[2].(*shelf).fail = func(driver.Spec) error { return fault.New(fault.Lab, "it was created") }
	out := []preflight.LeftOut{{Contender: "slow", Cells: []string{"two"}, Reason: "slow lacks wrk"},
		{Contender: "idle", Cells: []string{"one", "two"}, Reason: "idle has no disk"}}
	run := func(left []preflight.LeftOut, blocks int) (Outcome, []store.Line) {
		t.Helper()
		o, done := b.options(t.Context())
		defer done()
		o.LeftOut = left
		for _, c := range b.plan.Contenders {
			a := driver.Availability{OK: c.Name != "idle", Reason: "it can run no cell"}
			o.Answers = append(o.Answers, preflight.Availability{Contender: c.Name, Answer: a})
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		o.Events = func(e Event) {
			if e.Kind == BlockEnd && e.Done == blocks {
				stop()
			}
		}
		result, err := Run(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := o.Run.Journal()
		if err != nil {
			t.Fatal(err)
		}
		cat := preflight.CatalogueOf(b.drivers, []execution.Runner{b.dice})
		if r, err := evidence.Verify(o.Run, execution.Parsers(o.Workloads), &cat); err != nil || !r.OK() {
			t.Errorf("verify: %v, %v", err, r.Findings)
		}
		return result, lines
	}
	result, _ := run(out, 3)
	if result.Ended != analysis.EndedInterrupted || result.Results.Blocks != 3 {
		t.Fatalf("ended %q after %d blocks", result.Ended, result.Results.Blocks)
	}
	late := []preflight.LeftOut{{Contender: "base", Cells: []string{"one"}, Reason: "the disk is full now"}}
	result, lines := run(late, 0)
	first := slices.IndexFunc(lines, func(l store.Line) bool {
		return l.Type != store.LinePlan && l.Type != store.LineUnfit
	})
	if first != 3 || count(lines, func(l store.Line) bool { return l.Type == store.LineUnfit }) != 2 {
		t.Errorf("the journal begins with %+v", lines[:first+1])
	}
	trials := map[string]int{}
	for _, l := range lines {
		if l.Type == store.LineTrial {
			trials[l.Contender+" "+l.Cell]++
		}
		if l.Type == store.LineEnvironment && l.Contender == "idle" && !l.Gone {
			t.Errorf("%+v", l)
		}
	}
	for where, want := range map[string]int{"base one": 16, "base two": 16, "slow one": 16, "slow two": 0, "idle one": 0} {
		if trials[where] != want {
			t.Errorf("%d trials of %s, want %d", trials[where], where, want)
		}
	}
	reasons := map[string]string{}
	for _, m := range result.Results.Missing {
		reasons[m.Contender+" "+m.Cell] = m.Reason
	}
	if len(reasons) != 3 || reasons["slow two"] != "slow lacks wrk" || reasons["idle one"] != "idle has no disk" {
		t.Errorf("missing: %v", reasons)
	}
	if i := slices.IndexFunc(result.Results.Comparisons, func(c analysis.Comparison) bool {
		return c.Contender == "slow" && c.Verdict == "worse"
	}); i < 0 || !strings.HasPrefix(result.Results.Comparisons[i].Cell, "one") {
		t.Errorf("comparisons: %+v", result.Results.Comparisons)
	}
}
