package compare

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// noise has no positive autocorrelation, and its interval is not symmetric.
var noise = []float64{0.001, -0.004, 0.006, -0.003, 0.019, -0.004, 0.003, -0.002, 0.034, -0.003, 0.002, -0.003}

// fixed is a run in which each block of a contender has one trial: exp(level + noise) on the
// scale of ratios, level + noise on that of differences. The contenders have different
// orders of the noise, so that nothing cancels out.
func fixed(name string, scale sample.Scale, level map[string]float64) Run {
	res := analysis.Results{
		Schema: analysis.ResultsSchema, Run: name, Baseline: "host", Margin: 0.02, Ended: analysis.EndedBlocks,
		Blocks: len(noise),
		Cells: []analysis.Cell{{Name: "sha", Workload: "crypto", Params: param.Values{}, Metrics: []sample.Metric{
			{Name: "rate", Unit: "op/s", Better: sample.Higher, Scale: scale, Primary: true},
			{Name: "memory", Unit: "B", Better: sample.Lower, Scale: scale},
		}}},
	}
	for i, c := range names {
		x := analysis.Contender{Name: c, Driver: "host"}
		if c == "host~twin" {
			x.TwinOf = "host"
		}
		res.Contenders = append(res.Contenders, x)
		for _, m := range res.Cells[0].Metrics {
			median := 10.0
			s := analysis.Summary{Contender: c, Cell: "sha", Metric: m.Name, Unit: m.Unit, N: len(noise), Median: &median}
			for b := range noise {
				v := level[c] + noise[(b+2*i)%len(noise)]
				if scale != sample.Difference {
					v = math.Exp(v)
				}
				s.Samples = append(s.Samples, analysis.Point{Block: b, Value: v})
			}
			res.Summaries = append(res.Summaries, s)
			if c != "host" {
				res.Comparisons = append(res.Comparisons, analysis.Comparison{
					Contender: c, Baseline: "host", Cell: "sha", Metric: m.Name, Primary: m.Primary,
				})
			}
		}
	}
	return Run{Results: res}
}

func ratios(name string, crun float64) Run {
	return fixed(name, sample.Ratio, map[string]float64{"crun": crun})
}

// metric finds a row by contender and metric.
func metric(t *testing.T, r Result, contender, name string) Row {
	t.Helper()
	for _, x := range slices.Concat(r.Yardstick, r.Rows) {
		if x.Contender == contender && x.Metric == name {
			return x
		}
	}
	t.Fatalf("no row of %s, %s", contender, name)
	return Row{}
}

// own are the logarithms of a contender's blocks, or of contender / baseline.
func own(r Run, contender, baseline string) (out []float64) {
	value := map[string][]float64{}
	for _, s := range r.Results.Summaries {
		if s.Metric == "rate" {
			for _, p := range s.Samples {
				value[s.Contender] = append(value[s.Contender], math.Log(p.Value))
			}
		}
	}
	for i, v := range value[contender] {
		if baseline != "" {
			v -= value[baseline][i]
		}
		out = append(out, v)
	}
	return out
}

func close(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Max(1, math.Abs(b)) }

func TestDefaults(t *testing.T) {
	a, b := ratios("old", 0), ratios("new", 0)
	a.Results.Margin, b.Results.Margin = 0.03, 0.04
	r := two(t, a, b, Option{})
	if r.Alpha != 0.05 || r.Margin != 0.03 || r.By != Relative || r.Old != "old" || r.New != "new" || r.Judged != 1 {
		t.Errorf("alpha %v, margin %v of OLD, by %s, %s to %s, %d judged", r.Alpha, r.Margin, r.By, r.Old, r.New, r.Judged)
	}
	if r.Schema != "bakeoff/compare/v1" || r.Warning != Warning || r.Results().Warnings[0] != Warning {
		t.Errorf("%s: %s", r.Schema, r.Warning)
	}
	r = two(t, a, b, Option{Alpha: 0.2, Margin: 0.1, By: Direct})
	if r.Alpha != 0.2 || r.Margin != 0.1 || r.By != Direct || r.Judged != 2 {
		t.Errorf("alpha %v, margin %v, by %s, %d judged", r.Alpha, r.Margin, r.By, r.Judged)
	}
	for _, c := range []struct {
		opt Option
		ok  bool
	}{
		{Option{Alpha: -0.01}, false}, {Option{Alpha: 1}, false}, {Option{Alpha: 1.01}, false},
		{Option{Alpha: math.NaN()}, false}, {Option{Alpha: 0.999}, true}, {Option{Alpha: 1e-9}, true},
		{Option{Margin: -0.01}, false}, {Option{Margin: 0.5}, true}, {Option{Margin: 0.501}, false},
		{Option{Margin: math.NaN()}, false}, {Option{By: "both"}, false}, {Option{By: Relative}, true},
	} {
		if _, err := Two(a, b, c.opt); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
	a.Results.Margin = 0
	if r, err := Two(a, b, Option{}); err != nil || r.Margin != 0 {
		t.Errorf("a run without a margin: %v, %v", r.Margin, err)
	}
}

// The interval is that of the package documentation: the halves of both runs, and
// t·s·√2 of the runs in which nothing was changed.
func TestInterval(t *testing.T) {
	a, b := ratios("a", 0.02), ratios("b", 0.10)
	// The noise of NEW is mirrored and wider: its halves are others than those of OLD.
	for i := range b.Results.Summaries {
		for j := range b.Results.Summaries[i].Samples {
			v := &b.Results.Summaries[i].Samples[j].Value
			level := map[string]float64{"crun": 0.10}[b.Results.Summaries[i].Contender]
			*v = math.Exp(level - 2*(math.Log(*v)-level))
		}
	}
	repeats := []Run{ratios("c", 0.03), ratios("d", 0.06)}
	for _, by := range []By{Relative, Direct} {
		base := map[By]string{Relative: "host"}[by]
		r := two(t, a, b, Option{Repeats: repeats, By: by})
		row := row(t, r, "crun")
		c := map[By]*Change{Relative: row.Relative, Direct: row.Direct}[by]
		if want := 1 - 0.05/float64(r.Judged); row.Level != want {
			t.Errorf("%s: level %v, want %v", by, row.Level, want)
		}
		x, y := stats.HodgesLehmann(own(a, "crun", base), row.Level), stats.HodgesLehmann(own(b, "crun", base), row.Level)
		shift := y.Value - x.Value
		below, above := math.Hypot(x.Hi-x.Value, y.Value-y.Lo), math.Hypot(x.Value-x.Lo, y.Hi-y.Value)
		if math.Abs(below-above) < 1e-4 {
			t.Fatal("the interval is symmetric: the halves cannot be told apart")
		}
		if !close(*c.Old, math.Exp(x.Value)) || !close(*c.New, math.Exp(y.Value)) || !close(*c.Ratio, math.Exp(shift)) {
			t.Errorf("%s: %v to %v is %v", by, *c.Old, *c.New, *c.Ratio)
		}
		if !close(*c.Within[0], math.Exp(shift-below)) || !close(*c.Within[1], math.Exp(shift+above)) {
			t.Errorf("%s: within runs [%v, %v], want [%v, %v]", by, *c.Within[0], *c.Within[1], math.Exp(shift-below),
				math.Exp(shift+above))
		}
		// The levels 0.02, 0.03 and 0.06 have this deviation.
		s := math.Sqrt((0.0166666666666667*0.0166666666666667 + 0.0066666666666667*0.0066666666666667 +
			0.0233333333333333*0.0233333333333333) / 2)
		if !(math.Abs(*c.Spread-s) < 1e-9) || c.Runs != 3 || c.Calibrated {
			t.Errorf("%s: spread %v of %d runs, want %v of 3", by, *c.Spread, c.Runs, s)
		}
		if c.Source != "3 runs without a change between them" {
			t.Errorf("source %q", c.Source)
		}
		between := stats.StudentQuantile(row.Level, 2) * *c.Spread * math.Sqrt2
		lo, hi := math.Exp(shift-math.Hypot(below, between)), math.Exp(shift+math.Hypot(above, between))
		if !close(*c.CI[0], lo) || !close(*c.CI[1], hi) {
			t.Errorf("%s: [%v, %v], want [%v, %v]", by, *c.CI[0], *c.CI[1], lo, hi)
		}
	}
}

// Correlated neighbors widen each half by √(n/n′), and n/4 lags are used.
func TestWidening(t *testing.T) {
	xs := []float64{1, 2, 4, 3, 6, 5, 8, 9, 7, 11, 10, 14, 12, 13, 16, 15}
	for _, n := range []int{16, 15, 9} {
		e := stats.HodgesLehmann(xs[:n], 0.95)
		wide := math.Sqrt(float64(n) / stats.AutocorrelationTest(xs[:n], n/4).Effective)
		got := stats.SerialCenter(xs[:n], 0.95)
		if wide < 1.2 || got.Center != e.Value || !close(got.Below, wide*(e.Value-e.Lo)) || !close(got.Above,
			wide*(e.Hi-e.Value)) {
			t.Errorf("%d values: %+v, want %v below and %v above, %v times as wide", n, got, e.Value-e.Lo, e.Hi-e.Value, wide)
		}
	}
	e, got := stats.HodgesLehmann(noise, 0.95), stats.SerialCenter(noise, 0.95)
	if got.Below != e.Value-e.Lo || got.Above != e.Hi-e.Value {
		t.Errorf("values that alternate are widened: %+v", got)
	}
	if d := stats.Deviation([]float64{1, 2, 3, 6}); !close(d, math.Sqrt(14./3)) {
		t.Errorf("deviation %v", d)
	}
}

// OLD counts as a repeat unless it is among them, and each run counts once.
func TestRepeatsAreCountedOnce(t *testing.T) {
	a, b := ratios("old", 0), ratios("new", 0.1)
	c, d := ratios("c", 0.01), ratios("d", -0.01)
	for _, x := range []struct {
		repeats []Run
		runs    int
	}{
		{nil, 0}, {[]Run{c}, 0}, {[]Run{a, c}, 0}, {[]Run{c, c, c}, 0}, {[]Run{a, a, a}, 0},
		{[]Run{c, d}, 3}, {[]Run{a, c, d}, 3}, {[]Run{c, d, c, a}, 3}, {[]Run{c, d, ratios("e", 0)}, 4},
	} {
		got := row(t, two(t, a, b, Option{Repeats: x.repeats}), "crun").Relative
		if got.Runs != x.runs || (got.Spread != nil) != (x.runs > 0) || (got.Verdict == NotInterleaved) != (x.runs == 0) {
			t.Errorf("%d repeats: %d runs, %s", len(x.repeats), got.Runs, got.Verdict)
		}
	}
	empty := ratios("empty", 0)
	empty.Results.Summaries = nil // its contender gave nothing: it is no repeat
	if got := row(t, two(t, a, b, Option{Repeats: []Run{c, empty}}), "crun").Relative; got.Spread != nil {
		t.Errorf("a run without values was counted: %d runs", got.Runs)
	}
	if got := row(t, two(t, a, b, Option{Repeats: []Run{c, d, empty}}), "crun").Relative; got.Spread == nil ||
		got.Runs != 3 {
		t.Errorf("a run without values beside three others: %+v", got)
	}
}

func TestCalibration(t *testing.T) {
	a, b := ratios("old", 0), ratios("new", 0.1)
	cal := &Spread{Runs: MinRepeats, Direct: 0.02, Relative: 0.01, Source: "calibrations of May"}
	c := row(t, two(t, a, b, Option{Calibrated: cal}), "crun")
	if c.Relative.Spread == nil || *c.Relative.Spread != 0.01 || *c.Direct.Spread != 0.02 || c.Relative.Runs != 3 ||
		!c.Relative.Calibrated || !c.Direct.Calibrated || c.Relative.Source != "calibrations of May" {
		t.Errorf("%+v, %+v", c.Relative, c.Direct)
	}
	if c.Relative.CI == c.Relative.Within || *c.Relative.CI[0] >= *c.Relative.Within[0] {
		t.Errorf("a calibration did not widen [%v, %v]", *c.Relative.Within[0], *c.Relative.Within[1])
	}
	few := *cal
	few.Runs = MinRepeats - 1
	if c := row(t, two(t, a, b, Option{Calibrated: &few}), "crun").Relative; c.Spread != nil || c.Calibrated {
		t.Errorf("two calibrations were used: %+v", c)
	}
	// Repeated runs of the same work are preferred.
	r := two(t, a, b, Option{Calibrated: cal, Repeats: []Run{ratios("c", 0.001), ratios("d", 0.002)}})
	if c := row(t, r, "crun").Relative; c.Calibrated || *c.Spread > 0.002 || mentions(r, "calibrations, whose work") != 0 {
		t.Errorf("a calibration was preferred: %+v", c)
	}
	level := map[string]float64{"host": 10, "crun": 10, "host~twin": 10}
	d := two(t, fixed("old", sample.Difference, level), fixed("new", sample.Difference, level), Option{Calibrated: cal})
	if c := row(t, d, "crun").Relative; c.Spread != nil || c.Calibrated || c.Verdict != NotInterleaved {
		t.Errorf("a calibration of ratios was used for differences: %+v", c)
	}
}

// mentions counts the warnings that contain a text.
func mentions(r Result, text string) (n int) {
	for _, w := range r.Warnings {
		if strings.Contains(w, text) {
			n++
		}
	}
	return n
}

// Each warning is given where its condition holds, and nowhere else.
func TestWarnings(t *testing.T) {
	repeats := []Run{ratios("c", 0.001), ratios("d", -0.001)}
	all := []string{"unavailable.", "unavailable for some metrics.", "come from calibrations",
		"was measured by calibrations",
		"too few blocks", "The baselines differ: host in OLD, crun in NEW.", "OLD ended as soon", "NEW ended as soon",
		"OLD has not ended", "NEW has not ended", "In OLD the twin differs", "In NEW the twin differs",
		"The twin, a second copy"}
	for name, x := range map[string]struct {
		change func(a, b *analysis.Results)
		opt    Option
		want   []string
	}{
		"nothing": {func(a, b *analysis.Results) {}, Option{Repeats: repeats}, nil},
		"no repeats": {func(a, b *analysis.Results) {}, Option{},
			[]string{"unavailable."}},
		"calibrations": {func(a, b *analysis.Results) {}, Option{Calibrated: &Spread{Runs: 3, Direct: 1, Relative: 1}},
			[]string{"was measured by calibrations"}},
		"some metrics": {func(a, b *analysis.Results) {
			a.Cells[0].Metrics[1].Scale, b.Cells[0].Metrics[1].Scale = sample.Difference, sample.Difference
		}, Option{Calibrated: &Spread{Runs: 3, Direct: 1, Relative: 1}},
			[]string{"was measured by calibrations", "unavailable for some metrics."}},
		"few blocks": {func(a, b *analysis.Results) {
			for i := range b.Summaries {
				b.Summaries[i].Samples = b.Summaries[i].Samples[:3]
			}
		}, Option{Repeats: repeats}, []string{"too few blocks"}},
		"other baseline": {func(a, b *analysis.Results) { b.Baseline = "crun" }, Option{Repeats: repeats},
			[]string{"The baselines differ: host in OLD, crun in NEW."}},
		"decided": {func(a, b *analysis.Results) { a.Ended = analysis.EndedDecided }, Option{Repeats: repeats},
			[]string{"OLD ended as soon"}},
		"same run": {func(a, b *analysis.Results) { b.Run = a.Run }, Option{Repeats: repeats},
			[]string{"OLD and NEW are the same run, so nothing can have changed."}},
		"decided2": {func(a, b *analysis.Results) { b.Ended = analysis.EndedDecided }, Option{Repeats: repeats},
			[]string{"NEW ended as soon"}},
		"running":  {func(a, b *analysis.Results) { a.Ended = "" }, Option{Repeats: repeats}, []string{"OLD has not ended"}},
		"running2": {func(a, b *analysis.Results) { b.Ended = "" }, Option{Repeats: repeats}, []string{"NEW has not ended"}},
		"twins": {func(a, b *analysis.Results) { a.Twin, b.Twin = &analysis.Twin{}, &analysis.Twin{} },
			Option{Repeats: repeats}, nil},
		"twin": {func(a, b *analysis.Results) { a.Twin = &analysis.Twin{Different: true} }, Option{Repeats: repeats},
			[]string{"In OLD the twin differs"}},
		"twin2": {func(a, b *analysis.Results) { b.Twin = &analysis.Twin{Different: true} }, Option{Repeats: repeats},
			[]string{"In NEW the twin differs"}},
	} {
		a, b := ratios("a", 0), ratios("b", 0)
		x.change(&a.Results, &b.Results)
		r := two(t, a, b, x.opt)
		for _, text := range all {
			if n, want := mentions(r, text), slices.Contains(x.want, text); n > 1 || (n == 1) != want {
				t.Errorf("%s: %q stands %d times in %q", name, text, n, r.Warnings)
			}
		}
		if len(r.Warnings) != len(x.want) {
			t.Errorf("%s: %d warnings, want %d: %q", name, len(r.Warnings), len(x.want), r.Warnings)
		}
	}
	if r := two(t, ratios("a", 0), ratios("b", 0), Option{}); mentions(r, "with 3 or more runs") != 1 {
		t.Errorf("the warning does not say how many runs are needed: %q", r.Warnings)
	}
}

// A twin that changes relative to the baseline is reported in either direction, and on both scales.
func TestTwinThatChanges(t *testing.T) {
	for _, scale := range []sample.Scale{sample.Ratio, sample.Difference} {
		for shift, want := range map[float64]int{-0.5: 2, 0: 0, 0.5: 2} { // two metrics
			at := func(name string, twin float64) Run {
				return fixed(name, scale, map[string]float64{"host": 3, "crun": 3, "host~twin": 3 + twin})
			}
			repeats := []Run{at("c", 0.001), at("d", -0.001)}
			r := two(t, at("a", 0), at("b", shift), Option{Repeats: repeats})
			if n := mentions(r, "The twin, a second copy of the baseline, changed relative to the baseline at sha"); n != want {
				t.Errorf("scale %s, twin %+v: %d warnings, want %d: %q", scale, shift, n, want, r.Warnings)
			}
			if c := metric(t, r, "host~twin", "rate"); c.TwinOf != "host" || c.Primary || c.Relative.Verdict != "" {
				t.Errorf("the twin is judged: %+v", c)
			}
		}
		// A contender that changes as much is no reason for it.
		level := map[string]float64{"host": 3, "crun": 4, "host~twin": 3}
		same := map[string]float64{"host": 3, "crun": 3, "host~twin": 3}
		r := two(t, fixed("a", scale, same), fixed("b", scale, level), Option{Repeats: []Run{fixed("c", scale, same),
			fixed("d", scale, same)}})
		if n := mentions(r, "The twin"); n != 0 {
			t.Errorf("scale %s: crun changed, and the twin is suspected: %q", scale, r.Warnings)
		}
	}
}

// Only metrics that are primary in both runs are judged, and each gets its share of alpha.
func TestWhatIsJudged(t *testing.T) {
	opt := Option{Calibrated: &Spread{Runs: 3, Direct: 0.001, Relative: 0.001}}
	for name, x := range map[string]struct {
		change func(a, b *analysis.Results)
		by     By
		judged int
	}{
		"one metric": {func(a, b *analysis.Results) {}, Relative, 1},
		"both metrics": {func(a, b *analysis.Results) {
			a.Cells[0].Metrics[1].Primary, b.Cells[0].Metrics[1].Primary = true, true
		}, Relative, 2},
		"primary in OLD": {func(a, b *analysis.Results) { a.Cells[0].Metrics[1].Primary = true }, Relative, 1},
		"primary in NEW": {func(a, b *analysis.Results) { b.Cells[0].Metrics[1].Primary = true }, Relative, 1},
		"direct":         {func(a, b *analysis.Results) {}, Direct, 2},
		"other baseline": {func(a, b *analysis.Results) { b.Baseline = "crun" }, Relative, 0},
		"other baseline, direct": {func(a, b *analysis.Results) { b.Baseline = "crun" },
			Direct, 2},
		"no metric in NEW": {func(a, b *analysis.Results) { b.Cells[0].Metrics = b.Cells[0].Metrics[1:] }, Relative, 0},
	} {
		a, b := ratios("a", 0), ratios("b", 1)
		x.change(&a.Results, &b.Results)
		o := opt
		o.By = x.by
		r := two(t, a, b, o)
		if r.Judged != x.judged {
			t.Errorf("%s: %d judged, want %d", name, r.Judged, x.judged)
		}
		verdicts := 0
		for _, row := range slices.Concat(r.Yardstick, r.Rows) {
			if want := 1 - 0.05/math.Max(1, float64(x.judged)); row.Level != want {
				t.Errorf("%s: level %v, want %v", name, row.Level, want)
			}
			for _, c := range []*Change{row.Direct, row.Relative} {
				if c != nil && c.Verdict != "" {
					verdicts++
				}
			}
		}
		if verdicts != x.judged {
			t.Errorf("%s: %d verdicts, want %d", name, verdicts, x.judged)
		}
		if len(r.Yardstick) == 0 || slices.ContainsFunc(r.Yardstick, func(x Row) bool {
			return x.Contender != "host" ||
				x.Relative != nil
		}) {
			t.Errorf("%s: yardstick %+v", name, r.Yardstick)
		}
	}
}

// Rows exist for what both runs have.
func TestRows(t *testing.T) {
	a, b := ratios("a", 0), ratios("b", 0)
	extra := a.Results.Cells[0]
	extra.Name = "extra"
	a.Results.Cells = append([]analysis.Cell{extra}, a.Results.Cells...) // only OLD has it
	a.Results.Contenders = append([]analysis.Contender{{Name: "gone"}}, a.Results.Contenders...)
	b.Results.Cells[0].Metrics = append([]sample.Metric{{Name: "fresh"}}, b.Results.Cells[0].Metrics...)
	r := two(t, a, b, Option{})
	var got []string
	for _, x := range slices.Concat(r.Yardstick, r.Rows) {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %s %v", x.Contender, x.Cell, x.Workload, x.Metric, x.Unit, x.Better,
			x.Primary))
	}
	want := []string{
		"host sha crypto rate op/s higher true", "host sha crypto memory B lower false",
		"crun sha crypto rate op/s higher true", "crun sha crypto memory B lower false",
		"host~twin sha crypto rate op/s higher false", "host~twin sha crypto memory B lower false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Equal(r.OnlyOld, []string{"contender gone", "cell extra"}) || len(r.OnlyNew) != 0 {
		t.Errorf("only OLD %q, only NEW %q", r.OnlyOld, r.OnlyNew)
	}
	if len(r.Rows[0].Gates) != 0 || r.Rows[0].Gates == nil || r.Rows[0].Warnings != nil {
		t.Errorf("without gates and failures: %+v", r.Rows[0])
	}
}

// A gate takes the verdict of its own contender, cell and metric only, in either run.
func TestGatesOfOthers(t *testing.T) {
	opt := Option{Calibrated: &Spread{Runs: 3, Direct: 0.001, Relative: 0.001}}
	gate := []analysis.Gate{{Name: "swap", Reason: "it swapped"}}
	for name, x := range map[string]struct {
		in   int // OLD or NEW
		of   analysis.Comparison
		want string
	}{
		"its own in OLD": {0, analysis.Comparison{Contender: "crun", Cell: "sha", Metric: "rate", Gates: gate},
			"OLD: it swapped"},
		"its own in NEW": {1, analysis.Comparison{Contender: "crun", Cell: "sha", Metric: "rate", Gates: gate},
			"NEW: it swapped"},
		"contender": {1, analysis.Comparison{Contender: "host~twin", Cell: "sha", Metric: "rate", Gates: gate}, ""},
		"cell":      {1, analysis.Comparison{Contender: "crun", Cell: "aes", Metric: "rate", Gates: gate}, ""},
		"metric":    {1, analysis.Comparison{Contender: "crun", Cell: "sha", Metric: "memory", Gates: gate}, ""},
	} {
		runs := [2]Run{ratios("a", 0), ratios("b", 1)}
		runs[x.in].Results.Comparisons = append(runs[x.in].Results.Comparisons, x.of)
		r := two(t, runs[0], runs[1], opt)
		got := row(t, r, "crun")
		if x.want == "" {
			if len(got.Gates) != 0 || got.Relative.Verdict != analysis.Better {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got.Gates) != 1 || got.Gates[0].Reason != x.want || got.Gates[0].Name != "swap" ||
			got.Relative.Verdict != analysis.Inconclusive {
			t.Errorf("%s: gates %+v, %s", name, got.Gates, got.Relative.Verdict)
		}
		if c := r.Results().Comparisons[0]; !reflect.DeepEqual(c.Gates, got.Gates) || c.Verdict != analysis.Inconclusive {
			t.Errorf("%s: as results %+v", name, c)
		}
	}
}

// Failures in either run take the verdict, and the row says how many.
func TestFailures(t *testing.T) {
	opt := Option{Calibrated: &Spread{Runs: 3, Direct: 0.001, Relative: 0.001}}
	for _, n := range [][2]int{{0, 0}, {1, 0}, {0, 1}, {2, 3}} {
		a, b := ratios("a", 0), ratios("b", 1)
		for i, run := range []Run{a, b} {
			run.Results.Summaries[2].Failures = n[i] // of crun's rate
		}
		got := row(t, two(t, a, b, opt), "crun")
		if got.Failures != n {
			t.Errorf("failures %v, want %v", got.Failures, n)
		}
		if n == [2]int{} {
			if got.Warnings != nil || got.Relative.Verdict != analysis.Better {
				t.Errorf("without failures: %q, %s", got.Warnings, got.Relative.Verdict)
			}
			continue
		}
		want := fmt.Sprintf("%d trials failed in OLD and %d in NEW", n[0], n[1])
		if len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], want) ||
			got.Relative.Verdict != analysis.Inconclusive {
			t.Errorf("%v: %q, %s", n, got.Warnings, got.Relative.Verdict)
		}
	}
}

// On the scale of differences the margin is a share of the typical size: of OLD's baseline
// for the relative change, of the contender itself for the direct one.
func TestMarginOfDifferences(t *testing.T) {
	at := func(name string, crun, host, own float64) Run {
		r := fixed(name, sample.Difference, map[string]float64{"host": 5, "crun": 5 + crun, "host~twin": 5})
		for i := range r.Results.Summaries {
			size := map[string]float64{"host": host, "crun": own, "host~twin": 1}[r.Results.Summaries[i].Contender]
			r.Results.Summaries[i].Median = &size
		}
		return r
	}
	verdict := func(by By, host, own float64) analysis.Verdict {
		old := at("a", 0, host, own)
		c := row(t, two(t, old, at("b", 1, 1e6, 1e6), Option{Margin: 0.5, By: by, Repeats: []Run{at("c", 0, host, own),
			at("d", 0, host, own)}}), "crun")
		if by == Direct {
			return c.Direct.Verdict
		}
		return c.Relative.Verdict
	}
	for _, x := range []struct {
		by        By
		host, own float64
		want      analysis.Verdict
	}{
		{Relative, 2.2, 0, analysis.Equivalent}, {Relative, 1.8, 100, analysis.Better}, {Relative, -2.2, 0,
			analysis.Equivalent},
		{Direct, 0, 2.2, analysis.Equivalent}, {Direct, 100, 1.8, analysis.Better}, {Direct, 100, -2.2, analysis.Equivalent},
	} {
		if got := verdict(x.by, x.host, x.own); got != x.want {
			t.Errorf("%s: 1 more with medians %v of the host and %v of crun is %s, want %s", x.by, x.host, x.own, got, x.want)
		}
	}
	old := at("a", 0, 9, 9)
	for i := range old.Results.Summaries {
		old.Results.Summaries[i].Median = nil // nothing is known of the size: nothing is equivalent
	}
	r := two(t, old, at("b", 0, 9, 9), Option{Repeats: []Run{at("c", 0.001, 9, 9), at("d", -0.001, 9, 9)}})
	if v := row(t, r, "crun").Relative.Verdict; v != analysis.Inconclusive {
		t.Errorf("without a median: %s", v)
	}
	if got := typicalSize(old.Results, "nobody", cellMetric{"sha", "rate"}); got != 0 {
		t.Errorf("the size of an unknown contender is %v", got)
	}
}

// Blocks are means of logarithms; values that are not on the scale leave their block out.
func TestBlocks(t *testing.T) {
	run := analysis.Results{Summaries: []analysis.Summary{
		{Contender: "crun", Cell: "sha", Metric: "other", Samples: []analysis.Point{{Block: 9, Value: 1}}},
		{Contender: "crun", Cell: "aes", Metric: "rate", Samples: []analysis.Point{{Block: 9, Value: 1}}},
		{Contender: "crun", Cell: "sha", Metric: "rate", Failures: 4, Samples: []analysis.Point{
			{Block: 2, Value: 9}, {Block: 2, Value: 1}, {Block: 0, Value: 4}, {Block: 0, Value: 4}, {Block: 1, Value: 0},
			{Block: 1, Value: 5}, {Block: 3, Value: -2}, {Block: 3, Value: 2}, {Block: 4, Value: math.Inf(1)}, {Block: 4,
				Value: 2},
			{Block: 5, Value: math.NaN()}, {Block: 5, Value: 2}, {Block: 6, Value: 0.5}, {Block: 6, Value: 0.5},
		}},
	}}
	key := cellMetric{"sha", "rate"}
	if got := directValues(run, "crun", key, sample.Ratio); len(got) != 3 || !close(got[2], math.Log(0.5)) ||
		!close(got[0],
			math.Log(4)) || !close(got[1],
		math.Log(3)) {
		t.Errorf("ratios %v", got)
	}
	if got := directValues(run, "crun", key, sample.Difference); !slices.Equal(got, []float64{4, 2.5, 5, 0, 0.5}) {
		t.Errorf("differences %v", got)
	}
	if failures(run, "crun", key) != 4 || failures(run, "runc", key) != 0 {
		t.Error("failures of another summary")
	}
}

// One block gives an estimate without an interval, and no verdict.
func TestOneBlock(t *testing.T) {
	a, b := ratios("a", 0), ratios("b", 1)
	for _, run := range []Run{a, b} {
		for i := range run.Results.Summaries {
			run.Results.Summaries[i].Samples = run.Results.Summaries[i].Samples[:1]
		}
	}
	c := row(t, two(t, a, b, Option{Calibrated: &Spread{Runs: 3, Direct: 0.001, Relative: 0.001}}), "crun").Relative
	if c == nil || c.Blocks != [2]int{1, 1} || c.Ratio == nil || c.CI[0] != nil || c.CI[1] != nil ||
		c.Verdict != analysis.Inconclusive {
		t.Errorf("%+v", c)
	}
}

// As results: what exports and --fail-on get.
func TestAsResults(t *testing.T) {
	a, b := ratios("a", 0), ratios("b", -1)
	for i := range b.Results.Summaries { // two blocks less
		b.Results.Summaries[i].Samples = b.Results.Summaries[i].Samples[:10]
	}
	b.Results.Blocks = 10
	a.Results.Cells = append(a.Results.Cells, analysis.Cell{Name: "gone"})
	a.Results.Contenders = append(a.Results.Contenders, analysis.Contender{Name: "left"})
	opt := Option{Margin: 0.03, Alpha: 0.04, Calibrated: &Spread{Runs: 3, Direct: 0.01, Relative: 0.02}}
	r := two(t, a, b, opt)
	got := r.Results()
	if got.Run != "a to b" || got.Baseline != "a" || got.Margin != 0.03 || len(got.Comparisons) != 1 ||
		len(got.Warnings) != 1+len(r.Warnings) {
		t.Fatalf("%+v", got)
	}
	c, row := got.Comparisons[0], row(t, r, "crun")
	alpha := c.Alpha
	c.Alpha = nil
	want := analysis.Comparison{Contender: "crun", Baseline: "OLD", Cell: "sha", Workload: "crypto", Metric: "rate",
		Unit:   "op/s",
		Better: sample.Higher, Scale: sample.Ratio, Primary: true, Blocks: 10, Ratio: row.Relative.Ratio, CI: row.Relative.CI,
		Verdict: analysis.Worse, BeyondMargin: row.Relative.BeyondMargin, Gates: []analysis.Gate{}}
	if c.BeyondMargin == nil || !*c.BeyondMargin {
		t.Error("a fall to a third is not beyond the margin")
	}
	if !reflect.DeepEqual(c, want) || alpha == nil || !close(*alpha, 0.04) {
		t.Errorf("got  %+v\nwant %+v\nalpha %v", c, want, alpha)
	}
	if !reflect.DeepEqual(got.Missing, []analysis.Missing{
		{Contender: "left", Cell: "every cell", Reason: "only OLD has it"},
		{Contender: "every contender", Cell: "gone", Reason: "only OLD has it"},
	}) {
		t.Errorf("missing %+v", got.Missing)
	}
	opt.By = Direct
	r = two(t, a, b, opt)
	got = r.Results()
	if len(got.Comparisons) != 2 || got.Comparisons[0].Contender != "host" || got.Comparisons[1].Contender != "crun" {
		t.Fatalf("direct: %+v", got.Comparisons)
	}
	if c := got.Comparisons[1]; c.Ratio != r.Rows[0].Direct.Ratio || !close(*c.Alpha, 0.02) {
		t.Errorf("direct: %v at %v, want %v", *c.Ratio, *c.Alpha, *r.Rows[0].Direct.Ratio)
	}
	// Without a spread, the reason stands before the gates of the runs.
	b.Results.Comparisons[0].Gates = []analysis.Gate{{Name: "swap", Reason: "it swapped"}}
	got = two(t, a, b, Option{}).Results()
	if g := got.Comparisons[0].Gates; len(g) != 2 || g[0].Name != "not interleaved" || g[1].Reason != "NEW: it swapped" {
		t.Errorf("gates %+v", g)
	}
	// A run without values: one line for the metrics of a cell.
	b.Results.Summaries = nil
	for _, run := range []Run{a, b} {
		cell := &run.Results.Cells[0]
		second := cell.Metrics[0]
		second.Name = "second"
		cell.Metrics = append(cell.Metrics, second)
	}
	got = two(t, a, b, Option{}).Results()
	if len(got.Comparisons) != 0 || len(got.Missing) != 3 || got.Missing[0].Contender != "crun" ||
		got.Missing[0].Cell != "sha" ||
		!strings.HasPrefix(got.Missing[0].Reason, "rate, second cannot be compared") {
		t.Errorf("without values: %+v", got.Missing)
	}
}

// Values beyond the range of floating point are shown as unknown.
func TestShown(t *testing.T) {
	for _, x := range []struct {
		scale sample.Scale
		v     float64
		want  float64 // NaN: unknown
	}{
		{sample.Ratio, 0, 1}, {sample.Ratio, math.Log(3), 3}, {sample.Ratio, 710, math.NaN()}, {sample.Ratio, math.Inf(-1),
			math.NaN()},
		{sample.Ratio, math.NaN(), math.NaN()}, {sample.Difference, -4, -4}, {sample.Difference, 710, 710},
		{sample.Difference, math.Inf(1), math.NaN()},
	} {
		got := analysis.Shown(x.v, x.scale)
		if (got == nil) != math.IsNaN(x.want) || got != nil && !close(*got, x.want) {
			t.Errorf("%v on the scale %s: %v, want %v", x.v, x.scale, got, x.want)
		}
	}
}

// The facts of the contenders that both runs have are compared; an unknown one is unavailable.
func TestDifferences(t *testing.T) {
	a := Run{Facts: map[string]map[string]string{"": {"bakeoff": "1"}, "crun": {"kernel": "6.1", "seed": ""},
		"gone": {"kernel": "5"}, "host": nil}}
	b := Run{Facts: map[string]map[string]string{"": {"bakeoff": "2"}, "crun": {"kernel": "6.1", "libc": "2"},
		"host": {"arch": "amd64"}}}
	want := []Difference{{"", "bakeoff", "1", "2"}, {"crun", "libc", "unavailable", "2"}, {"host", "arch", "unavailable",
		"amd64"}}
	if got := Differences(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
