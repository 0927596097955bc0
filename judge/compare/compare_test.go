package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// world says what a simulated run holds, all as logarithms.
type world struct {
	level   float64            // of the machine as a whole
	effect  map[string]float64 // of each contender
	between float64            // deviation of each contender from run to run
	within  float64            // and from trial to trial
	blocks  int
}

var names = []string{"host", "crun", "host~twin"}

func (w world) run(name string, r *rand.Rand) Run {
	res := analysis.Results{
		Schema: analysis.ResultsSchema, Run: name, Baseline: "host", Margin: 0.02, Ended: "blocks", Blocks: w.blocks,
		Cells: []analysis.Cell{{Name: "sha", Workload: "crypto", Params: param.Values{"block": "16KiB"},
			Metrics: []sample.Metric{
				{Name: "throughput", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Primary: true},
			}}},
	}
	for _, c := range names {
		own := w.level + w.effect[c] + w.between*r.NormFloat64()
		s := analysis.Summary{Contender: c, Cell: "sha", Metric: "throughput", Unit: "B/s"}
		for b := range w.blocks {
			for i := range 2 {
				s.Samples = append(s.Samples, analysis.Point{Block: b, Position: i,
					Value: 1e8 * math.Exp(own+w.within*r.NormFloat64())})
			}
		}
		m := 1e8
		s.N, s.Median = len(s.Samples), &m
		res.Summaries = append(res.Summaries, s)
		x := analysis.Contender{Name: c, Driver: "host"}
		if strings.HasSuffix(c, "~twin") {
			x.TwinOf = "host"
		}
		res.Contenders = append(res.Contenders, x)
		if c != "host" {
			res.Comparisons = append(res.Comparisons, analysis.Comparison{Contender: c, Baseline: "host", Cell: "sha",
				Metric: "throughput", Primary: true})
		}
	}
	return Run{Results: res, Facts: map[string]map[string]string{"": {"bakeoff": "1"},
		"host": {"kernel": "6.1", "arch": "amd64"}}}
}

// row finds a contender's row.
func row(t *testing.T, r Result, contender string) Row {
	t.Helper()
	for _, x := range append(append([]Row{}, r.Yardstick...), r.Rows...) {
		if x.Contender == contender {
			return x
		}
	}
	t.Fatalf("no row of %s", contender)
	return Row{}
}

func two(t *testing.T, a, b Run, opt Option) Result {
	t.Helper()
	r, err := Two(a, b, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func repeated(w world, n int, r *rand.Rand) (out []Run) {
	for i := range n {
		out = append(out, w.run(fmt.Sprint("repeat-", i), r))
	}
	return out
}

// Between these runs each contender changes by 1 % for no reason: intervals
// that know the noise inside runs only promise 95 % and hold a third of it.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const replays = 400
	truth := math.Log(1.03)
	w := world{between: 0.01, within: 0.01, blocks: 16}
	covered, within, falsely := 0, 0, 0
	for range replays {
		repeats := repeated(w, 5, r)
		n := w
		n.effect = map[string]float64{"crun": truth}
		res := two(t, repeats[0], n.run("new", r), Option{Repeats: repeats})
		c := row(t, res, "crun").Relative
		holds := func(ci analysis.Interval) bool { return *ci[0] <= 1.03 && 1.03 <= *ci[1] }
		if holds(c.CI) {
			covered++
		}
		if holds(c.Within) {
			within++
		}
		same := two(t, repeats[0], w.run("same", r), Option{Repeats: repeats})
		if v := row(t, same, "crun").Relative.Verdict; v == analysis.Better || v == analysis.Worse {
			falsely++
		}
	}
	t.Logf("of %d: covered %d, by the noise inside runs alone %d; false verdicts %d", replays, covered, within, falsely)
	if covered < replays*93/100 {
		t.Errorf("the interval holds the truth in %d of %d", covered, replays)
	}
	if within > replays*70/100 {
		t.Errorf("the noise inside the runs alone holds it in %d of %d: nothing shows that widening is needed", within,
			replays)
	}
	if falsely > replays*6/100 {
		t.Errorf("%d of %d comparisons of nothing got a verdict", falsely, replays)
	}
}

func TestMachineSlowerAsAWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	w := world{between: 0.002, within: 0.005, blocks: 20}
	slow := w
	slow.level = math.Log(0.9)
	repeats := repeated(w, 4, r)
	res := two(t, repeats[0], slow.run("new", r), Option{Repeats: repeats})
	c := row(t, res, "crun")
	if v := *c.Direct.Ratio; v < 0.88 || v > 0.92 {
		t.Errorf("direct change is %v, want about 0.9", v)
	}
	if v := *c.Relative.Ratio; v < 0.985 || v > 1.015 {
		t.Errorf("relative change is %v, want about 1", v)
	}
	if c.Relative.Verdict == analysis.Worse || c.Direct.Verdict != "" {
		t.Errorf("verdicts %q and %q", c.Relative.Verdict, c.Direct.Verdict)
	}
	if h := row(t, res, "host"); h.Relative != nil || *h.Direct.Ratio > 0.92 || h.Direct.Verdict != "" {
		t.Errorf("the yardstick is %+v", h)
	}
	res = two(t, repeats[0], slow.run("new", r), Option{Repeats: repeats, By: Direct})
	if v := row(t, res, "host").Direct.Verdict; v != analysis.Worse {
		t.Errorf("judged directly the host is %q, want worse", v)
	}
	if res.Judged != 2 {
		t.Errorf("%d comparisons share alpha, want host and crun", res.Judged)
	}
}

// However large a change is: without repeated runs there is no verdict.
func TestNoVerdictWithoutSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	w := world{within: 0.005, blocks: 20}
	n := w
	n.effect = map[string]float64{"crun": math.Log(0.5)}
	a, b := w.run("old", r), n.run("new", r)
	for _, opt := range []Option{{}, {Repeats: repeated(w, 1, r)}, {Calibrated: &Spread{Runs: 2}}} {
		res := two(t, a, b, opt)
		c := row(t, res, "crun").Relative
		if c.Verdict != NotInterleaved || c.Spread != nil || c.Source != "unavailable" || c.CI != c.Within {
			t.Errorf("without a spread: %+v", c)
		}
		if !strings.Contains(strings.Join(res.Warnings, "\n"), "unavailable") {
			t.Errorf("no warning: %q", res.Warnings)
		}
		for _, x := range res.Results().Comparisons {
			if x.Verdict != analysis.Inconclusive || x.Gates[0].Name != "not interleaved" {
				t.Errorf("as results: %+v", x)
			}
		}
	}
	res := two(t, a, b, Option{Calibrated: &Spread{Runs: 5, Direct: 0.02, Relative: 0.01, Source: "calibrated"}})
	warned := func(w string) bool { return strings.Contains(w, "calibration only computes") }
	if !slices.ContainsFunc(res.Warnings, warned) {
		t.Errorf("calibrations are taken without a warning: %q", res.Warnings)
	}
	if c := row(t, res, "crun").Relative; c.Verdict != analysis.Worse || *c.Spread != 0.01 || c.Source != "calibrated" {
		t.Errorf("with a calibration: %+v", c)
	}
}

// Whether two contenders run side by side or in two runs: the same interval
// gets the same verdict, also where it touches an edge of the region.
func TestVerdictsAreReadAsTheAnalysisReadsThem(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	seen := map[analysis.Verdict]int{}
	for i := range 60 {
		w := world{within: 0.01, blocks: 20}
		now := w
		now.effect = map[string]float64{"crun": 0.03 * r.NormFloat64()}
		a, b := w.run("old", r), now.run("new", r)
		better := []sample.Better{sample.Higher, sample.Lower}[i%2]
		for _, run := range []Run{a, b} {
			run.Results.Cells[0].Metrics[0].Better = better
		}
		compared := func(margin float64) (analysis.Interval, analysis.Verdict) {
			opt := Option{Margin: margin, Calibrated: &Spread{Runs: 5, Relative: 0.001}}
			c := row(t, two(t, a, b, opt), "crun").Relative
			return c.CI, c.Verdict
		}
		analysed := func(margin float64) (analysis.Interval, analysis.Verdict) {
			c := analysis.Analyse(sideBySide(a, b, margin)).Comparisons[0]
			return c.CI, c.Verdict
		}
		for name, verdict := range map[string]func(float64) (analysis.Interval, analysis.Verdict){"compare": compared,
			"analysis": analysed} {
			ci, _ := verdict(analysis.DefaultMargin)
			// The margins at which one edge of the region is a bound of the interval.
			for _, edge := range []float64{*ci[1] - 1, 1 / *ci[0] - 1} {
				for _, margin := range []float64{edge - 1e-6, edge + 1e-6} {
					if margin <= 0 {
						continue
					}
					ci, got := verdict(margin)
					if want := promised(*ci[0], *ci[1], margin, better); got != want {
						t.Errorf("%s: [%v, %v] with margin %v is %s, want %s", name, *ci[0], *ci[1], margin, got, want)
					}
					seen[got]++
				}
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("not every verdict was put to the test: %v", seen)
	}
}

// promised is the verdict as docs/reference/lab.md defines it.
func promised(lo, hi, margin float64, better sample.Better) analysis.Verdict {
	switch {
	case 1/(1+margin) <= lo && hi <= 1+margin:
		return analysis.Equivalent
	case lo <= 1 && 1 <= hi:
		return analysis.Inconclusive
	case (lo > 1) == (better == sample.Higher):
		return analysis.Better
	}
	return analysis.Worse
}

// sideBySide has the values of crun of two runs as two contenders of one run.
func sideBySide(a, b Run, margin float64) analysis.Data {
	d := analysis.Data{
		Baseline: "old", Margin: margin, Looks: []int{20}, Alphas: []float64{analysis.MaxAlpha}, Scope: analysis.ScopeMachine,
		Contenders: []analysis.Contender{{Name: "old"}, {Name: "new"}}, Cells: a.Results.Cells,
	}
	for i, run := range []Run{a, b} {
		for _, p := range run.Results.Summaries[1].Samples {
			position := 2*p.Position + (i+p.Position+p.Block)%2
			d.Observations = append(d.Observations, analysis.Observation{
				Block: p.Block, Position: position, Contender: d.Contenders[i].Name, Cell: "sha",
				Values: []sample.Value{{Metric: "throughput", Unit: "B/s", Value: p.Value}},
			})
		}
	}
	return d
}

func TestGatesAndFailuresTakeVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	w := world{within: 0.005, blocks: 20}
	n := w
	n.effect = map[string]float64{"crun": -1}
	opt := Option{Calibrated: &Spread{Runs: 5, Direct: 0.01, Relative: 0.01}}
	gated := n.run("new", r)
	gated.Results.Comparisons[0].Gates = []analysis.Gate{{Name: "swap", Reason: "it swapped"}}
	c := row(t, two(t, w.run("old", r), gated, opt), "crun")
	if c.Relative.Verdict != analysis.Inconclusive || len(c.Gates) != 1 || c.Gates[0].Reason != "NEW: it swapped" {
		t.Errorf("gated: %+v", c)
	}
	failed := w.run("old", r)
	failed.Results.Summaries[1].Failures = 3
	c = row(t, two(t, failed, n.run("new", r), opt), "crun")
	if c.Relative.Verdict != analysis.Inconclusive || c.Failures != [2]int{3, 0} || len(c.Warnings) != 1 {
		t.Errorf("failed: %+v", c)
	}
}

func TestRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	w := world{within: 0.01, blocks: 6}
	for want, change := range map[string]func(*analysis.Results){
		`block is "16KiB" in one and "64KiB" in the other`: func(x *analysis.Results) {
			x.Cells[0].Params["block"] = "64KiB"
		},
		`time is "" in one and "1s" in the other`: func(x *analysis.Results) {
			x.Cells[0].Params["time"] = "1s"
		},
		`workload is "crypto" in one and "cpu" in the other`: func(x *analysis.Results) { x.Cells[0].Workload = "cpu" },
		`unit of throughput is "B/s" in one and "op/s"`: func(x *analysis.Results) {
			x.Cells[0].Metrics[0].Unit = "op/s"
		},
		`better throughput is "higher" in one and "lower" in th`: func(x *analysis.Results) {
			x.Cells[0].Metrics[0].Better = sample.Lower
		},
		"no cell in common":      func(x *analysis.Results) { x.Cells[0].Name = "other" },
		"no contender in common": func(x *analysis.Results) { x.Contenders = x.Contenders[:0] },
	} {
		b := w.run("new", r)
		change(&b.Results)
		_, err := Two(w.run("old", r), b, Option{})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := Two(w.run("old", r), w.run("new", r), Option{Repeats: []Run{b}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("a repeated run of other work was taken: %s", want)
		}
	}
	if _, err := Two(w.run("old", r), w.run("new", r), Option{By: "luck"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}

func TestDifferencesAndLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	w := world{within: 0.01, blocks: 8}
	a, b := w.run("old", r), w.run("new", r)
	b.Facts["host"] = map[string]string{"kernel": "6.2", "arch": "amd64", "libc": "2.36"}
	a.Results.Cells = append(a.Results.Cells, analysis.Cell{Name: "gone"})
	b.Results.Contenders = append(b.Results.Contenders, analysis.Contender{Name: "more"})
	res := two(t, a, b, Option{})
	want := []Difference{{"host", "kernel", "6.1", "6.2"}, {"host", "libc", "unavailable", "2.36"}}
	if !reflect.DeepEqual(res.Differences, want) {
		t.Errorf("differences %+v", res.Differences)
	}
	if !reflect.DeepEqual(res.OnlyOld, []string{"cell gone"}) ||
		!reflect.DeepEqual(res.OnlyNew, []string{"contender more"}) {
		t.Errorf("left out %q and %q", res.OnlyOld, res.OnlyNew)
	}
	if m := res.Results().Missing; len(m) != 1 || m[0].Cell != "gone" {
		t.Errorf("missing %+v", m)
	}
}

// A block that lacks a trial, or whose baseline has none, does not count.
func TestShortBlocksAreLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	w := world{within: 0.01, blocks: 10}
	a, b := w.run("old", r), w.run("new", r)
	crun := &a.Results.Summaries[1]
	crun.Samples = crun.Samples[1:]      // block 0 has one trial
	crun.Samples[1].Value = math.Inf(-1) // and block 1 one that is not a ratio
	host := &a.Results.Summaries[0]
	host.Samples = host.Samples[:18] // block 9 has none
	c := row(t, two(t, a, b, Option{}), "crun")
	if c.Direct.Blocks != [2]int{8, 10} || c.Relative.Blocks != [2]int{7, 10} {
		t.Errorf("blocks %v and %v", c.Direct.Blocks, c.Relative.Blocks)
	}
}

func TestDifferenceScale(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	make := func(name string, centre float64) Run {
		x := world{blocks: 20}.run(name, r)
		x.Results.Cells[0].Metrics[0].Scale = sample.Difference
		for i := range x.Results.Summaries {
			m := 100.0
			x.Results.Summaries[i].Median = &m
			for j := range x.Results.Summaries[i].Samples {
				v := 100 + 0.01*r.NormFloat64()
				if names[i] == "crun" {
					v += centre
				}
				x.Results.Summaries[i].Samples[j].Value = v
			}
		}
		return x
	}
	old := []Run{make("a", 0), make("b", 0.1), make("c", -0.1), make("d", 0)}
	c := row(t, two(t, old[0], make("new", 5), Option{Repeats: old}), "crun").Relative
	if math.Abs(*c.Ratio-5) > 0.05 || c.Verdict != analysis.Better {
		t.Errorf("5 more gave %+v", c)
	}
	c = row(t, two(t, old[0], make("new", 0), Option{Repeats: old, Margin: 0.05}), "crun").Relative
	if c.Verdict != analysis.Equivalent {
		t.Errorf("nothing more gave %s in [%v, %v]", c.Verdict, *c.CI[0], *c.CI[1])
	}
	// A calibration speaks of ratios: it says nothing of this scale.
	c = row(t, two(t, old[0], make("new", 5), Option{Calibrated: &Spread{Runs: 9}}), "crun").Relative
	if c.Verdict != NotInterleaved {
		t.Errorf("judged by a calibration of another scale: %s", c.Verdict)
	}
}

// Neighbours that are alike tell less: the interval of a drifting run is wider
// than that of the same values in another order.
func TestDriftWidens(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	xs := make([]float64, 40)
	for i := range xs {
		xs[i] = float64(i) / 100
	}
	drift := stats.SerialCenter(xs, 0.95)
	r.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
	if mixed := stats.SerialCenter(xs, 0.95); drift.Below < 2*mixed.Below || drift.Center != mixed.Center {
		t.Errorf("drifting %+v, mixed %+v", drift, mixed)
	}
}

func TestFewBlocksAreNull(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	w := world{within: 0.01, blocks: 3}
	res := two(t, w.run("old", r), w.run("new", r), Option{Calibrated: &Spread{Runs: 5, Relative: 0.01}})
	c := row(t, res, "crun").Relative
	if c.CI[0] != nil || c.CI[1] != nil || c.Verdict != analysis.Inconclusive || c.Ratio == nil {
		t.Errorf("3 blocks gave %+v", c)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Error(err)
	}
	empty := w.run("new", r)
	empty.Results.Summaries = nil
	res = two(t, w.run("old", r), empty, Option{})
	if c := row(t, res, "crun"); c.Direct != nil || c.Relative != nil {
		t.Errorf("a run without values gave %+v", c)
	}
	if m := res.Results().Missing; len(m) != 1 || m[0].Contender != "crun" {
		t.Errorf("missing %+v", m)
	}
}

// What is known of two runs says whether they are one, whether they are of one machine, and
// which one is older.
func TestRunsThatAreNotWhatTheySeem(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	w := world{between: 0.001, within: 0.001, blocks: 8}
	day := func(n int, cpu string) Run {
		run := w.run(fmt.Sprint("day-", n), r)
		run.At = time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC)
		run.Facts["host"]["cpu.model"] = cpu
		return run
	}
	old, now := day(1, "box"), day(9, "box")
	named := day(9, "box")
	named.Facts["host"]["host"] = "runner-2"
	old.Facts["host"]["host"] = "runner-1"
	renamed := now
	renamed.Results.Run = "another name"
	for name, x := range map[string]struct {
		old, now Run
		repeat   Run
		refused  string // by Two
		warning  string
	}{
		"nothing special":                {old: old, now: now, repeat: day(2, "box")},
		"a repeat on an unknown machine": {old: old, now: now, repeat: day(2, "")},
		"a copy of NEW among the repeats": {old: old, now: now, repeat: renamed,
			refused: "NEW (day-9) is also one of the repeated runs (another name)"},
		"a repeat on another machine": {old: old, now: now, repeat: day(2, "other"),
			refused: `was made on another machine than OLD (day-1): cpu.model of host is "box" in OLD and "other" in the ` +
				`repeated run`},
		"swapped": {old: now, now: old, repeat: day(2, "box"), warning: "OLD began after NEW"},
		"another machine": {old: old, now: day(9, "other"), repeat: day(2, "box"),
			warning: `different machines, and a direct change includes their difference: cpu.model of host is "box" in ` +
				`OLD`},
		"another host of the lab file": {old: old, now: named, repeat: day(2, "box"),
			warning: `If OLD and NEW were made on different machines, a direct change includes their difference: ` +
				`host of host is "runner-1" in OLD`},
		"a copy of OLD": {old: now, now: renamed, repeat: old, warning: "are the same run"},
	} {
		got, err := Two(x.old, x.now, Option{Repeats: []Run{x.repeat, day(3, "box")}, By: Direct})
		if x.refused != "" {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), x.refused) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(name, err)
		}
		all := strings.Join(got.Warnings, "\n")
		if all == "" != (x.warning == "") || !strings.Contains(all, x.warning) {
			t.Errorf("%s: %q", name, all)
		}
	}
}

// Exports read of a comparison whether both runs ended, and what their twins say.
func TestResultsHaveTheEndAndTheTwinOfBothRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	tested := analysis.Twin{Name: "host~twin", Comparisons: []analysis.Comparison{
		{Primary: true, Exact: &analysis.Exact{}}}}
	differs := tested
	differs.Different = true
	for _, x := range []struct {
		ends  [2]string
		end   string
		twins [2]*analysis.Twin
		want  string // name of the twin
	}{
		{[2]string{"blocks", "budget"}, "budget", [2]*analysis.Twin{&tested, &tested}, "host~twin in run new"},
		{[2]string{"", "budget"}, "", [2]*analysis.Twin{&differs, &tested}, "host~twin in run old"},
		{[2]string{analysis.EndedInterrupted, "budget"}, analysis.EndedInterrupted,
			[2]*analysis.Twin{{Name: "host~twin"}, &differs}, "host~twin in run new"},
		{[2]string{"blocks", "blocks"}, "blocks", [2]*analysis.Twin{{Name: "host~twin"}, &tested}, "host~twin in run old"},
		{[2]string{"blocks", "blocks"}, "blocks", [2]*analysis.Twin{&differs, nil}, "host~twin in run old"},
		{[2]string{"blocks", ""}, "", [2]*analysis.Twin{nil, &tested}, ""},
		{[2]string{"blocks", "blocks"}, "blocks", [2]*analysis.Twin{&tested, nil}, ""},
	} {
		runs := [2]Run{world{blocks: 8}.run("old", r), world{blocks: 8}.run("new", r)}
		for i := range runs {
			runs[i].Results.Ended, runs[i].Results.Twin = x.ends[i], x.twins[i]
		}
		runs[1].Unplanned = []string{"a trial twice"}
		res := two(t, runs[0], runs[1], Option{})
		if got := res.Unplanned(); !slices.Equal(got, []string{"NEW: a trial twice"}) {
			t.Errorf("not as planned: %q", got)
		}
		got := res.Results()
		name := ""
		if got.Twin != nil {
			name = got.Twin.Name
		}
		if got.Ended != x.end || name != x.want {
			t.Errorf("%q, %q: %q, %q", x.ends, x.want, got.Ended, name)
		}
	}
}
