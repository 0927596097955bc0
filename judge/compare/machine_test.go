package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
)

// A direct change has no verdict if its contender ran on another machine in NEW, and other
// machines do not repeat OLD. Relative changes have a verdict.
func TestMachines(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	w := world{between: 0.001, within: 0.001, blocks: 8}
	day := func(n int, change func(*Run)) Run {
		run := w.run(fmt.Sprint("day-", n), r)
		run.At = time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
		run.Labels = map[string]string{MachineLabel: "m1"}
		for _, c := range names {
			run.Facts[c] = map[string]string{"arch": "amd64", "cpu.model": "box", "host": "local", "cpu.flags": "a b",
				"memory": "1000000 B"}
		}
		if change != nil {
			change(&run)
		}
		return run
	}
	fact := func(name, value string, contenders ...string) func(*Run) {
		return func(run *Run) {
			for _, c := range contenders {
				run.Facts[c][name] = value
			}
		}
	}
	label := func(value string) func(*Run) {
		return func(run *Run) { run.Labels = map[string]string{MachineLabel: value} }
	}
	const different, perhaps = "were made on different machines", "If OLD and NEW were made on different machines"
	for name, x := range map[string]struct {
		change         func(*Run)
		direct, counts []string // contenders whose changes have no verdict; counts are exact
		warning        string
		refused        string // as a repetition
	}{
		"the same": {},
		"another processor": {change: fact("cpu.model", "other", names...), direct: []string{"crun", "host"},
			warning: different + `, and a direct change includes their difference: cpu.model of host, crun is "box" in OLD ` +
				`and "other" in NEW.`, refused: `cpu.model of host, crun is "box" in OLD and "other" in the repeated run`},
		"another architecture": {change: fact("arch", "arm64", names...), direct: []string{"crun", "host"},
			counts: []string{"crun", "host"}, warning: different, refused: "arch of host, crun"},
		"another processor of one contender": {change: fact("cpu.model", "other", "crun"), direct: []string{"crun"},
			warning: "cpu.model of crun is", refused: "cpu.model of crun is"},
		"unknown of one contender": {change: func(run *Run) {
			fact("cpu.model", "other", "host")(run)
			fact("cpu.model", "", "crun")(run)
		}, direct: []string{"crun", "host"}, warning: "cpu.model of host is", refused: "cpu.model of host is"},
		"unknown of one contender on another host": {change: func(run *Run) {
			fact("cpu.model", "other", "host")(run)
			fact("cpu.model", "", "crun")(run)
			fact("host", "far", "crun")(run)
		}, direct: []string{"host"}, warning: "cpu.model of host is", refused: "cpu.model of host is"},
		"unknown": {change: fact("cpu.model", "", names...)},
		"another baseline": {change: func(run *Run) {
			run.Results.Baseline = "crun"
			fact("cpu.model", "box", names...)(run)
		}},
		"another label": {change: label("m2"), direct: []string{"crun", "host"},
			warning: `the label machine is "m1" in OLD and "m2" in NEW`, refused: `"m2" in the repeated run`},
		"no label":            {change: label("")},
		"another host":        {change: fact("host", "far", names...), warning: perhaps},
		"other flags":         {change: fact("cpu.flags", "a", "host"), warning: perhaps + ""},
		"another microcode":   {change: fact("cpu.microcode", "2", names...)}, // unknown in OLD
		"more memory":         {change: fact("memory", "2000000 B", names...), warning: "memory of host, crun is"},
		"a kernel that grew":  {change: fact("memory", "999000 B", names...)},
		"an unreadable size":  {change: fact("memory", "much", names...)},
		"the twin's own fact": {change: fact("cpu.model", "other", "host~twin")},
	} {
		old, now := day(1, nil), day(9, x.change)
		option := Option{By: Direct, Repeats: []Run{day(2, nil), day(3, nil)}}
		withheld := func(res Result) (out []string) {
			for _, c := range res.Results().Comparisons {
				if len(c.Gates) > 0 && c.Gates[0].Name == machineGate {
					out = append(out, c.Contender)
				}
			}
			slices.Sort(out)
			return out
		}
		res := two(t, old, now, option)
		if got := withheld(res); !slices.Equal(got, x.direct) {
			t.Errorf("%s: withheld %q", name, got)
		}
		all := strings.Join(Suspicious(old, now), "\n")
		if all == "" != (x.warning == "") || !strings.Contains(all, x.warning) {
			t.Errorf("%s: %q", name, all)
		}
		option.By = Relative
		if got := withheld(two(t, old, now, option)); got != nil {
			t.Errorf("%s: withheld relative changes %q", name, got)
		}
		_, err := Two(old, day(9, nil), Option{Repeats: []Run{day(3, x.change)}})
		if x.refused == "" != (err == nil) || err != nil && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), x.refused)) {
			t.Errorf("%s: %v", name, err)
		}
		// Another processor does not change counts that are exact, but another architecture does.
		for _, run := range []Run{old, now} {
			for i := range run.Results.Summaries {
				run.Results.Summaries[i].Deterministic = true
			}
		}
		if got := withheld(two(t, old, now, Option{By: Direct})); !slices.Equal(got, x.counts) {
			t.Errorf("%s: withheld exact %q", name, got)
		}
	}
}

// Repetitions that were disturbed or did not end show another spread than whole runs.
func TestOddRepeats(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	w := world{between: 0.001, within: 0.001, blocks: 8}
	for name, x := range map[string]struct {
		change  func(*Run)
		warning string
	}{
		"whole": {change: func(*Run) {}},
		"interrupted": {change: func(run *Run) {
			run.Results.Ended, run.Results.Blocks = analysis.EndedInterrupted, 3
		}, warning: "The repeated run odd is not complete: it has 3 blocks, and OLD has 8."},
		"no end": {change: func(run *Run) { run.Results.Ended = "" }, warning: "odd is not complete"},
		"disturbed": {change: func(run *Run) { run.Results.Twin = &analysis.Twin{Different: true} },
			warning: "The repeated run odd was disturbed"},
		"not as planned": {change: func(run *Run) { run.Unplanned = []string{"a trial twice"} }, warning: ": a trial twice."},
	} {
		odd := w.run("odd", r)
		x.change(&odd)
		res := two(t, w.run("old", r), w.run("new", r), Option{Repeats: []Run{w.run("more", r), odd}})
		all := strings.Join(res.Warnings, "\n")
		if all == "" != (x.warning == "") || !strings.Contains(all, x.warning) {
			t.Errorf("%s: %q", name, all)
		}
	}
}
