package history_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
)

// nightly is the history of the issue: 60 runs, a step of 3 % at run 40.
func nightly() replay.World {
	return replay.World{Noise: noise.Reference, Runs: 60, Between: 0.005, Step: math.Log(1.03), At: 39}
}

func of(t *testing.T, runs []history.Run, opt history.Option) history.Result {
	t.Helper()
	r, err := history.Of(runs, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stream(n uint64) *rand.Rand { return rand.New(rand.NewPCG(11, n)) }

// In histories without a step, at most 5 % show one.
func TestFalseAlarms(t *testing.T) {
	for name, bad := range map[string]float64{"independent": 0, "bad runs": 0.05} {
		replays := 1000
		if bad > 0 {
			replays = 300
		}
		w := nightly()
		w.Step, w.Bad, w.BadSize = 0, bad, 0.05
		alarms := 0
		for i := range uint64(replays) {
			if len(of(t, w.Make(stream(i)), history.Option{}).Labs[0].Series[0].Steps) > 0 {
				alarms++
			}
		}
		t.Logf("%s: %d of %d histories without a step show one", name, alarms, replays)
		if alarms > replays*5/100 {
			t.Errorf("%s: %d false alarms in %d", name, alarms, replays)
		}
	}
}

// A history without a step that is read after each of its first 39 runs seldom shows one.
func TestFalseAlarmsOfManyReadings(t *testing.T) {
	const replays = 150
	w := nightly()
	w.Step, w.Runs = 0, 39
	alarms := 0
	for i := range uint64(replays) {
		runs := w.Make(stream(i))
		for n := 6; n <= len(runs); n++ {
			if len(of(t, runs[:n], history.Option{}).Labs[0].Series[0].Steps) > 0 {
				alarms++
				break
			}
		}
	}
	t.Logf("%d of %d histories", alarms, replays)
	// The share is about 1.5 %; if each reading had the whole error rate, it would be about 6 %.
	if alarms > 4 {
		t.Errorf("%d of %d histories without a step show one at some time", alarms, replays)
	}
}

// A reading of 10 runs or fewer has the whole error rate, and so has one of 50 or more. One of
// 22 runs has (10/22)⁴ of it, and one of 40 runs (40/50)⁴. Suspects have the same share.
func TestErrorRateOfAReading(t *testing.T) {
	for _, x := range []struct {
		runs  int
		share float64
	}{{8, 1}, {10, 1}, {22, 0.0427}, {40, 0.4096}, {50, 1}, {60, 1}} {
		for after, size := range map[int]float64{3: 0.05, 1: 0.1} { // a step, and a suspect
			w := replay.World{Noise: noise.Reference, Runs: x.runs, Between: 0.005, Step: size, At: x.runs - after}
			runs := w.Make(stream(uint64(x.runs)))
			read := func(alpha float64) (p float64, found bool) {
				s := of(t, runs, history.Option{Alpha: alpha}).Labs[0].Series[0]
				switch {
				case after == 3 && len(s.Steps) > 0:
					return s.Steps[0].P, true
				case after == 1 && s.Suspect != nil:
					return s.Suspect.P * 250, s.Suspect.Clear
				}
				return 0, false
			}
			p, _ := read(0.5)
			least := p / x.share // the smallest alpha that finds it
			_, enough := read(least * 1.01)
			_, less := read(least * 0.99)
			if p == 0 || !enough || less {
				t.Errorf("%d runs, %d of them after the step, p %.3g: found with alpha %.3g %v, and with less %v", x.runs, after, p,
					least*1.01, enough, less)
			}
		}
	}
}

// A step of 3 % at run 40 of 60 is found, at the right commit, and the range contains it.
func TestAStepIsFoundAtTheRightCommit(t *testing.T) {
	const replays = 200
	w := nightly()
	found, exact, within, covered := 0, 0, 0, 0
	for i := range uint64(replays) {
		runs := w.Make(stream(i))
		s := of(t, runs, history.Option{}).Labs[0].Series[0]
		for _, step := range s.Steps {
			if step.At < w.At-2 || step.At > w.At+2 {
				continue
			}
			found++
			if step.Verdict != analysis.Worse {
				t.Errorf("replay %d: a step of 3 %% in time per operation is %s", i, step.Verdict)
			}
			if step.Range[0] <= w.At && w.At <= step.Range[1] {
				within++
			}
			if *step.CI[0] <= 1.03 && 1.03 <= *step.CI[1] {
				covered++
			}
			if step.At == w.At {
				exact++
				c := step.Coincides
				if c[0].Fact != "label.commit" || c[0].New != runs[w.At].Labels["commit"] || c[1].Fact != "kernel" ||
					c[1].Times != 1 || !slices.Equal(c[1].Where, []string{replay.Contender, replay.Baseline}) {
					t.Errorf("replay %d: coincides with %+v", i, c)
				}
			}
		}
	}
	t.Logf("of %d: found %d, at the right run %d, range contains it %d, interval of the size %d", replays, found, exact,
		within, covered)
	if found < replays*95/100 || exact < replays*70/100 || within < found*95/100 || covered < found*93/100 {
		t.Error("too few")
	}
}

// One bad run in the middle of a quiet history, or at its end, is no step, and the level
// still covers the truth.
func TestOneBadRunIsNoStep(t *testing.T) {
	for _, bad := range []int{12, 29} {
		w := replay.World{Noise: noise.Reference, Runs: 30, Between: 0.003}
		alarms, covered := 0, 0
		const replays = 60
		for i := range uint64(replays) {
			runs := w.Make(stream(i))
			for k, s := range runs[bad].Results.Summaries {
				if s.Contender == replay.Contender {
					for j := range s.Samples {
						runs[bad].Results.Summaries[k].Samples[j].Value *= 1.2
					}
				}
			}
			s := of(t, runs, history.Option{}).Labs[0].Series[0]
			if len(s.Steps) > 0 {
				alarms++
			}
			if ci := s.Segments[len(s.Segments)-1].CI; *ci[0] <= 1 && 1 <= *ci[1] {
				covered++
			}
		}
		if alarms > 6 || covered < 55 {
			t.Errorf("a bad run %d: %d alarms, the level covers the truth in %d of %d", bad, alarms, covered, replays)
		}
	}
}

// Runs are replicates: where they differ by 1 %, the interval of a level covers the truth
// as promised, and the noise inside the runs alone would not.
func TestLevelsCoverWithTheSpreadBetweenRuns(t *testing.T) {
	const replays = 400
	for _, n := range []int{4, 20} {
		w := replay.World{Noise: noise.Families[2], Runs: n, Between: 0.03}
		covered, runs, inside := 0, 0, 0
		for i := range uint64(replays) {
			s := of(t, w.Make(stream(i)), history.Option{}).Labs[0].Series[0]
			l := s.Segments[0]
			if *l.CI[0] <= 1 && 1 <= *l.CI[1] {
				covered++
			}
			e := s.Estimates[0]
			if *e.CI[0] <= 1 && 1 <= *e.CI[1] {
				runs++
			}
			if *e.Within[0] <= 1 && 1 <= *e.Within[1] {
				inside++
			}
			if *e.CI[0] > *e.Within[0] || *e.CI[1] < *e.Within[1] {
				t.Fatal("the interval with the spread is narrower")
			}
		}
		t.Logf("%d runs: level %d, run %d, inside only %d of %d", n, covered, runs, inside, replays)
		if covered < replays*90/100 || runs < replays*90/100 || inside > replays*80/100 {
			t.Errorf("%d runs: level covers in %d, a run in %d, by its inside in %d of %d", n, covered, runs, inside, replays)
		}
	}
}

// The input order, copies of runs and a constant factor change nothing.
func TestInvariance(t *testing.T) {
	w := nightly()
	runs := w.Make(stream(1))
	want := of(t, runs, history.Option{})
	mixed := slices.Clone(runs)
	stream(9).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	got := of(t, append(mixed, runs[3], runs[3]), history.Option{})
	const twice = "2 runs were given more than once; each of them counts once."
	if note := got.Labs[0].Notes; len(note) != 1 || note[0] != twice {
		t.Errorf("notes %q", note)
	}
	got.Labs[0].Notes = want.Labs[0].Notes
	if !reflect.DeepEqual(got, want) {
		t.Error("the order of the runs, or a copy, changes the history")
	}
	for _, r := range runs { // a baseline that is half as fast in all runs
		for i, s := range r.Results.Summaries {
			for j := range s.Samples {
				if s.Contender == replay.Baseline {
					r.Results.Summaries[i].Samples[j].Value *= 2
				}
			}
		}
	}
	half := of(t, runs, history.Option{}).Labs[0].Series[0]
	a, b := want.Labs[0].Series[0], half
	if len(a.Steps) != 1 || len(b.Steps) != 1 || a.Steps[0].At != b.Steps[0].At || a.Steps[0].P != b.Steps[0].P ||
		math.Abs(*a.Steps[0].Ratio-*b.Steps[0].Ratio) > 1e-9 || math.Abs(*a.Segments[0].Value-2**b.Segments[0].Value) > 1e-9 {
		t.Errorf("a constant factor: %+v, %+v", a.Steps, b.Steps)
	}
}

// Runs of other machines and labs have histories of their own.
func TestMachinesStayApart(t *testing.T) {
	w := nightly()
	runs := w.Make(stream(2))
	for i := range runs {
		switch {
		case i%4 == 1:
			runs[i].Facts = map[string]map[string]string{"host": {"cpu.model": "another", "arch": "amd64"}}
		case i%4 == 2:
			runs[i].Labels[history.MachineLabel] = "rack-7"
		case i%4 == 3:
			runs[i].Lab = "weekly"
		}
	}
	r := of(t, runs, history.Option{})
	var got []string
	for _, l := range r.Labs {
		got = append(got, l.Lab+" "+l.Machine["cpu.model"]+" "+l.Machine[history.MachineLabel])
		if len(l.Runs) != 15 {
			t.Errorf("%s has %d runs", l.Lab, len(l.Runs))
		}
	}
	want := []string{"weekly simulated ", "nightly simulated rack-7", "nightly another ", "nightly simulated "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A new kernel is no other machine.
	kernels := w.Make(stream(2))
	if r := of(t, kernels, history.Option{}); len(r.Labs) != 1 || len(r.Labs[0].Runs) != 60 {
		t.Errorf("%d histories", len(r.Labs))
	}
}

// A run that did other work, or that was disturbed, does not count, and says why.
func TestLeftOut(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*history.Run)
		reason string
	}{
		"parameter": {func(r *history.Run) { r.Results.Cells[0].Params = param.Values{"block": "1KiB"} },
			`other work: cell cell-1: block is "1KiB" in one and "" in the other`},
		"variable": {func(r *history.Run) { r.Results.Contenders[1].Env = map[string]string{"LANG": "C"} },
			`other work: contender crun: the variable LANG is "C"`},
		"baseline": {func(r *history.Run) { r.Results.Baseline = replay.Contender }, "other work: the baseline is crun"},
		"unit":     {func(r *history.Run) { r.Results.Cells[0].Metrics[0].Unit = "s" }, "unit of time-per-op"},
		"twin":     {func(r *history.Run) { r.Results.Twin = &analysis.Twin{Different: true} }, "the twin differs"},
		"gate": {func(r *history.Run) {
			r.Results.Comparisons[0].Gates = []analysis.Gate{{Name: "swap", Reason: "it swapped"}}
		}, "check swap failed: it swapped"},
		"failure": {func(r *history.Run) { r.Results.Summaries[1].Failures = 2 }, "2 trials failed"},
		"unplanned": {func(r *history.Run) { r.Unplanned = []string{"another plan"} },
			"the run is not as planned: another plan"},
		"empty": {func(r *history.Run) { r.Results.Summaries[1].Samples = nil }, "no complete block"},
		"values that are no ratio": {func(r *history.Run) {
			r.Results.Blocks = 8
			for i := range 8 {
				r.Results.Summaries[1].Samples[i].Value = 0
			}
		}, "4 of 8 blocks lack a value"},
		"one block of an interrupted run": {oneBlock(analysis.EndedInterrupted),
			"the run is unfinished, and 1 block cannot"},
		"one block of a run that is not over": {oneBlock(""),
			"the run has not ended, and 1 block cannot give an interval"},
		"one block in the budget": {oneBlock(analysis.EndedBudget),
			"ended before its planned blocks, and 1 block cannot"},
		"the last blocks, without a verdict before them": {func(r *history.Run) {
			leaveAfter(r, 6)
			r.Results.Comparisons[0].Verdict = analysis.Inconclusive
		}, "2 of 8 blocks lack a value"},
		"a block before it left": {func(r *history.Run) {
			leaveAfter(r, 6)
			r.Results.Summaries[1].Samples = r.Results.Summaries[1].Samples[2:]
		}, "1 of 6 blocks lack a value"},
	} {
		w := nightly()
		w.Runs = 12
		runs := w.Make(stream(3))
		x.change(&runs[5])
		if name == "baseline" {
			for k := range runs[5].Facts { // it stays on its machine
				runs[5].Facts[k] = runs[4].Facts[k]
			}
		}
		i := slices.IndexFunc(of(t, runs, history.Option{}).Labs[0].Series, func(s history.Series) bool {
			return s.Contender == replay.Contender
		})
		s := of(t, runs, history.Option{}).Labs[0].Series[i]
		if len(s.LeftOut) != 1 || s.LeftOut[0].Run != 5 || !strings.Contains(s.LeftOut[0].Reason, x.reason) ||
			len(s.Estimates) != 11 || s.Estimates[5].Run != 6 {
			t.Errorf("%s: left out %+v of %d", name, s.LeftOut, len(s.Estimates)+len(s.LeftOut))
		}
	}
	// A run of one block counts if its lab plans no more, or if no run of the lab has more.
	for ended, all := range map[string]bool{analysis.EndedBlocks: false, analysis.EndedBudget: true} {
		w := nightly()
		w.Runs = 12
		runs := w.Make(stream(3))
		for i := range runs {
			if all || i == 5 {
				oneBlock(ended)(&runs[i])
			}
		}
		if s := of(t, runs, history.Option{}).Labs[0].Series[0]; len(s.LeftOut) != 0 {
			t.Errorf("%s: left out %+v", ended, s.LeftOut)
		}
	}
	// A contender that some runs do not have is not left out of them.
	w := nightly()
	w.Runs = 12
	runs := w.Make(stream(3))
	runs[11].Results.Contenders = runs[11].Results.Contenders[:1]
	l := of(t, runs, history.Option{}).Labs[0]
	if s := l.Series[0]; len(s.LeftOut) != 0 || len(s.Estimates) != 11 {
		t.Errorf("%+v", s.LeftOut)
	}
	if len(l.Notes) != 1 || !strings.Contains(l.Notes[0], "The newest run has no contender crun; "+runs[10].Results.Run) {
		t.Errorf("notes %q", l.Notes)
	}
	// A primary metric that the newest run no longer marks is named.
	runs = w.Make(stream(3))
	runs[11].Results.Cells[0].Metrics[0].Primary = false
	want := "The newest run has no primary metric time-per-op of cell cell-1; " + runs[10].Results.Run
	if l = of(t, runs, history.Option{}).Labs[0]; len(l.Notes) != 1 || !strings.HasPrefix(l.Notes[0], want) {
		t.Errorf("notes %q", l.Notes)
	}
	// By the values themselves, the checks of the baseline are those of its twin.
	runs = w.Make(stream(3))
	runs[11].Results.Twin = &analysis.Twin{Name: "host~twin", Comparisons: []analysis.Comparison{{Contender: "host~twin",
		Cell: "cell-1", Metric: replay.Metric, Gates: []analysis.Gate{{Name: "errors", Reason: "all failed"}}}}}
	for _, s := range of(t, runs, history.Option{By: compare.Direct}).Labs[0].Series {
		if left := len(s.LeftOut) == 1 && s.LeftOut[0].Reason == "check errors failed: all failed"; left != (s.Contender ==
			replay.Baseline) {
			t.Errorf("%s: left out %+v", s.Contender, s.LeftOut)
		}
	}
}

func TestChangedPlan(t *testing.T) {
	w := nightly()
	runs := w.Make(stream(4))
	for i := range runs {
		if i >= 50 {
			runs[i].Results.Margin = 0.05
		}
	}
	l := of(t, runs, history.Option{}).Labs[0]
	if l.Margin != 0.05 || len(l.Notes) != 1 || !strings.Contains(l.Notes[0], "2 % in 50 runs, 5 % in 10 runs") {
		t.Errorf("margin %v, notes %q", l.Margin, l.Notes)
	}
	if s := l.Series[0]; len(s.Steps) != 1 || s.Steps[0].BeyondMargin == nil || *s.Steps[0].BeyondMargin ||
		math.Abs(s.Region[1]-1.05) > 1e-12 || math.Abs(s.Region[0]*1.05-1) > 1e-12 {
		t.Errorf("%+v", s.Steps)
	}
	l = of(t, runs, history.Option{Margin: 0.001}).Labs[0]
	if s := l.Series[0]; l.Margin != 0.001 || len(l.Notes) != 0 || !*s.Steps[0].BeyondMargin {
		t.Errorf("margin %v, notes %q, %+v", l.Margin, l.Notes, s.Steps)
	}
}

// By the values themselves the baseline has a history too.
func TestDirect(t *testing.T) {
	w := replay.World{Noise: noise.Families[2], Runs: 20, Between: 0.002, Step: 0.1, At: 12}
	runs := w.Make(stream(5))
	r := of(t, runs, history.Option{By: compare.Direct})
	var names []string
	for _, s := range r.Labs[0].Series {
		names = append(names, s.Contender)
		if s.Region != nil {
			t.Error("a margin around a value")
		}
	}
	if !slices.Equal(names, []string{replay.Baseline, replay.Contender}) || r.Labs[0].Judged != 2 ||
		r.Labs[0].Level != 0.975 {
		t.Fatalf("%q, %d judged, level %v", names, r.Labs[0].Judged, r.Labs[0].Level)
	}
	host, crun := r.Labs[0].Series[0], r.Labs[0].Series[1]
	if len(host.Steps) != 0 || len(crun.Steps) != 1 || crun.Steps[0].At != 12 ||
		math.Abs(*host.Segments[0].Value-1e-3) > 1e-5 {
		t.Errorf("host %+v, crun %+v, level of host %v", host.Steps, crun.Steps, *host.Segments[0].Value)
	}
}

// Better and worse respect the direction of the metric.
func TestDirection(t *testing.T) {
	for _, x := range []struct {
		better sample.Better
		step   float64
		want   analysis.Verdict
	}{{sample.Lower, 0.1, analysis.Worse}, {sample.Lower, -0.1, analysis.Better}, {sample.Higher, 0.1, analysis.Better},
		{sample.Higher, -0.1, analysis.Worse}} {
		w := replay.World{Noise: noise.Families[2], Runs: 20, Between: 0.002, Step: x.step, At: 12}
		runs := w.Make(stream(6))
		for _, r := range runs {
			r.Results.Cells[0].Metrics[0].Better = x.better
		}
		s := of(t, runs, history.Option{}).Labs[0].Series[0]
		if len(s.Steps) != 1 || s.Steps[0].Verdict != x.want || !*s.Steps[0].BeyondMargin {
			t.Errorf("%+v: %+v", x, s.Steps)
		}
	}
}

// Up and down again are two steps, each with its own facts.
func TestTwoSteps(t *testing.T) {
	w := replay.World{Noise: noise.Families[2], Runs: 40, Between: 0.002, Step: 0.05, At: 15}
	runs := w.Make(stream(7))
	for i := 27; i < 40; i++ {
		for k, s := range runs[i].Results.Summaries {
			for j := range s.Samples {
				if s.Contender == replay.Contender {
					runs[i].Results.Summaries[k].Samples[j].Value *= math.Exp(-0.05)
				}
			}
		}
		runs[i].Facts[replay.Contender]["libc"] = "2.40"
	}
	s := of(t, runs, history.Option{}).Labs[0].Series[0]
	if len(s.Steps) != 2 || s.Steps[0].At != 15 || s.Steps[1].At != 27 || len(s.Segments) != 3 {
		t.Fatalf("%+v", s.Steps)
	}
	facts := func(i int) (out []string) {
		for _, c := range s.Steps[i].Coincides {
			if c.Exact {
				out = append(out, c.Fact)
			}
		}
		return out
	}
	if !slices.Equal(facts(0), []string{"label.commit", "kernel"}) ||
		!slices.Equal(facts(1), []string{"label.commit", "libc"}) {
		t.Errorf("%q, %q", facts(0), facts(1))
	}
	if c := s.Steps[1].Coincides[1]; c.Old != "unavailable" || c.New != "2.40" {
		t.Errorf("%+v", c)
	}
}

func TestFewRuns(t *testing.T) {
	w := replay.World{Noise: noise.Reference, Between: 0.005, Cells: 1, Step: 0.5, At: 2}
	for _, x := range []struct{ runs, needs, steps int }{{1, 6, 0}, {2, 6, 0}, {5, 6, 0}, {6, 0, 0}, {8, 0, 1},
		{9, 0, 1}} {
		w.Runs = x.runs
		s := of(t, w.Make(stream(8)), history.Option{}).Labs[0].Series[0]
		if s.Needs != x.needs || len(s.Estimates) != x.runs || len(s.Segments) != x.steps+1 || len(s.Steps) != x.steps {
			t.Errorf("%d runs: needs %d, want %d, %+v", x.runs, s.Needs, x.needs, s.Steps)
		}
		if known := s.Spread != nil; known != (x.runs > 1) || known != (s.Segments[0].CI[0] != nil) {
			t.Errorf("%d runs: spread %v, interval %v", x.runs, s.Spread, s.Segments[0].CI)
		}
	}
	if r := of(t, nil, history.Option{}); len(r.Labs) != 0 {
		t.Error("histories without runs")
	}
}

// Of ten nights four are 30 % slower: the second of them shows the step, also if six series
// share the error rate. After the first, the history calls the run clearly suspect.
func TestTenNights(t *testing.T) {
	const replays = 40
	for _, cells := range []int{1, 6} {
		w := replay.World{Noise: noise.Reference, Runs: 10, Between: 0.005, Step: math.Log(1.3), At: 6, Cells: cells}
		found, early, suspected := 0, 0, 0
		for i := range uint64(replays) {
			runs := w.Make(stream(i))
			right := func(n int) bool {
				s := of(t, runs[:n], history.Option{}).Labs[0].Series[0]
				return len(s.Steps) == 1 && s.Steps[0].At == w.At && s.Steps[0].Verdict == analysis.Worse
			}
			found, early = found+count(right(10)), early+count(right(8))
			s := of(t, runs[:7], history.Option{}).Labs[0].Series[0]
			suspected += count(len(s.Steps) == 0 && s.Suspect != nil && s.Suspect.Run == w.At && s.Suspect.Runs <= 2 &&
				s.Suspect.Clear && math.Abs(*s.Suspect.Ratio-1.3) < 0.06)
		}
		t.Logf("%d series: found %d, after two nights %d, suspected after one %d of %d", cells, found, early, suspected,
			replays)
		if found < replays*95/100 || early < replays*80/100 || suspected < replays*90/100 {
			t.Errorf("%d series: too few", cells)
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A step of the size of the outlook is found about four times of five.
func TestOutlook(t *testing.T) {
	const replays = 200
	for _, k := range []int{3, 6} {
		found := 0
		for i := range uint64(replays) {
			w := replay.World{Noise: noise.Reference, Runs: 12, Between: 0.005, At: 12}
			s := of(t, w.Make(stream(i)), history.Option{}).Labs[0].Series[0]
			if len(s.Steps) > 0 {
				continue
			}
			for _, o := range s.Outlook {
				if o.Runs == k {
					w.Step = math.Log(*o.Size)
				}
			}
			w.Runs += k
			found += count(len(of(t, w.Make(stream(i)), history.Option{}).Labs[0].Series[0].Steps) > 0)
		}
		t.Logf("after %d more runs: found %d of %d", k, found, replays)
		if found < replays*65/100 || found > replays*97/100 {
			t.Errorf("after %d more runs: found %d of %d", k, found, replays)
		}
	}
}

// In other noise than normal, histories without a step show one no more often than
// promised: values far off, two levels at random, and a lab of six series.
func TestFalseAlarmsInOtherNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 4,800 series")
	}
	const replays = 100
	for _, f := range noise.Families {
		if f.Name != "heavy" && f.Name != "bimodal" && f.Name != "skewed" && f.Name != "random walk" {
			continue
		}
		for _, runs := range []int{8, 20} {
			alarms := 0
			for i := range uint64(replays) {
				w := replay.World{Noise: f, Runs: runs, Between: 0.005, Cells: 6, Bad: 0.05, BadSize: 0.05}
				any := 0
				for _, s := range of(t, w.Make(stream(i)), history.Option{}).Labs[0].Series {
					any = max(any, min(len(s.Steps), 1))
				}
				alarms += any
			}
			// 5 % of 100 are 5, with a standard deviation of 2.2.
			t.Logf("%s, %d runs: %d of %d", f.Name, runs, alarms, replays)
			if alarms > 11 {
				t.Errorf("%s, %d runs: %d of %d histories without a step show one", f.Name, runs, alarms, replays)
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []history.Option{{Alpha: -1}, {Alpha: 1}, {Alpha: math.NaN()}, {Margin: -0.1}, {Margin: 0.6},
		{By: "both"}} {
		if _, err := history.Of(nil, o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	runs := nightly().Make(stream(1))
	if l := of(t, runs, history.Option{Alpha: 0.2}).Labs[0]; math.Abs(l.Level-0.8) > 1e-12 {
		t.Errorf("level %v", l.Level)
	}
}

// Whatever the numbers of a stranger's runs are, nothing panics.
func TestStrangeNumbers(t *testing.T) {
	for _, v := range []float64{0, -1, 1e-320, math.MaxFloat64, 1} {
		for _, scale := range []sample.Scale{sample.Ratio, sample.Difference, ""} {
			w := replay.World{Noise: noise.Reference, Runs: 12}
			runs := w.Make(stream(9))
			for i, r := range runs {
				r.Results.Cells[0].Metrics[0].Scale = scale
				for k, s := range r.Results.Summaries {
					for j := range s.Samples {
						if i%3 == 0 || v == 1 {
							r.Results.Summaries[k].Samples[j].Value = v
						}
					}
				}
				runs[i].At = time.Time{}
			}
			for _, by := range []compare.By{compare.Relative, compare.Direct} {
				of(t, runs, history.Option{By: by})
			}
		}
	}
}

// leaveAfter makes the contender leave a run of 8 blocks, as one whose comparison has a verdict.
func leaveAfter(r *history.Run, blocks int) {
	r.Results.Blocks = 8
	r.Results.Comparisons[0].Verdict = analysis.Worse
	r.Results.Summaries[1].Samples = r.Results.Summaries[1].Samples[:2*blocks]
}

// A run that a contender left early counts.
func TestAContenderThatLeft(t *testing.T) {
	runs := nightly().Make(stream(4))
	for i := range runs {
		leaveAfter(&runs[i], 6)
		runs[i] = runs[i].Primary()
	}
	s := of(t, runs, history.Option{}).Labs[0].Series[0]
	if len(s.LeftOut) > 0 || len(s.Estimates) != len(runs) || s.Estimates[0].Blocks != 6 || len(s.Steps) == 0 {
		t.Errorf("%d estimates, %d steps, left out %+v", len(s.Estimates), len(s.Steps), s.LeftOut)
	}
	// An index of an earlier program does not say that the contender left.
	last := runs[len(runs)-1].Condensed()
	last.Known[0].Part = 0
	runs[len(runs)-1] = last
	s = of(t, runs, history.Option{}).Labs[0].Series[0]
	if len(s.LeftOut) != 1 || !strings.HasSuffix(s.LeftOut[0].Reason, "run bakeoff store rebuild") {
		t.Errorf("left out %+v", s.LeftOut)
	}
}

// A run without its samples has the same history, also after it was stored as JSON.
func TestCondensed(t *testing.T) {
	for i := range uint64(3) {
		runs := nightly().Make(stream(i))
		runs[7].Results.Comparisons = append(runs[7].Results.Comparisons, analysis.Comparison{Contender: "box", Cell: "cell",
			Metric: "latency", Gates: []analysis.Gate{{Name: "swap", Reason: "it swapped"}}})
		leaveAfter(&runs[6], 5)
		condensed := make([]history.Run, len(runs))
		for i, r := range runs {
			text, err := json.Marshal(r.Condensed())
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &condensed[i]); err != nil {
				t.Fatal(err)
			}
			if condensed[i].Results.Summaries != nil && condensed[i].Results.Summaries[0].Samples != nil {
				t.Fatal("the samples are still there")
			}
		}
		opt := history.Option{Primary: true}
		want, got := of(t, runs, opt), of(t, condensed, opt)
		if len(want.Labs[0].Series) == 0 || len(want.Labs[0].Series[0].Steps) == 0 {
			t.Fatal("there is nothing to compare")
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%+v\nand without samples\n%+v", want.Labs[0].Series[0], got.Labs[0].Series[0])
		}
	}
}

// oneBlock leaves a run its first block.
func oneBlock(ended string) func(*history.Run) {
	return func(r *history.Run) {
		r.Results.Blocks, r.Results.Ended = 1, ended
		for i, s := range r.Results.Summaries {
			r.Results.Summaries[i].Samples = lists.Filter(s.Samples, func(p analysis.Point) bool { return p.Block == 0 })
		}
	}
}
