package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/sample"
)

var (
	looks  = []int{8, 12, 18, 26}
	alphas = []float64{.010, .010, .015, .015}
)

// world makes a run with contenders a (baseline) and others, cells k0, k1, …
// and value(block, trial, contender, cell), positions in mirrored order.
func world(blocks int, contenders []string, cells int, value func(b, i int, c, k int) float64) Data {
	d := Data{Run: "r", Baseline: contenders[0], Margin: 0.02, Looks: looks, Alphas: alphas,
		Scope: ScopeMachine, Trials: 2}
	for _, c := range contenders {
		d.Contenders = append(d.Contenders, Contender{Name: c})
	}
	for k := range cells {
		d.Cells = append(d.Cells, Cell{Name: fmt.Sprint("k", k), Workload: "cpu", Metrics: []sample.Metric{
			{Name: "time", Unit: "s", Better: sample.Lower, Primary: true, Scale: sample.Ratio}}})
	}
	for b := range blocks {
		pos := 0
		for k := range cells {
			for i := range 2 {
				for c, name := range contenders {
					d.Observations = append(d.Observations, observation(b, pos, name, d.Cells[k], value(b, i, c, k)))
					pos++
				}
			}
		}
	}
	return d
}

// observation is a trial that took v seconds, or failed where v is NaN.
func observation(block, position int, contender string, cell Cell, v float64) Observation {
	o := Observation{Block: block, Position: position, Instance: fmt.Sprint(contender, block),
		Contender: contender, Cell: cell.Name}
	if math.IsNaN(v) {
		o.Failed, o.Reason = true, "it fell over"
	} else {
		o.Values = []sample.Value{{Metric: "time", Unit: "s", Value: v}}
	}
	return o
}

// wobble is a small noise that is different everywhere and symmetric.
func wobble(seed uint64) func() float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	return func() float64 { return math.Exp(0.005 * r.NormFloat64()) }
}

func find(t *testing.T, r Results, contender, cell string) Comparison {
	t.Helper()
	for _, c := range r.Comparisons {
		if c.Contender == contender && c.Cell == cell {
			return c
		}
	}
	t.Fatalf("no comparison of %s on %s", contender, cell)
	return Comparison{}
}

func TestVerdictsAndLevels(t *testing.T) {
	n := wobble(1)
	// k0 is 5 % slower, k1 the same, k2 10 % faster.
	d := world(26, []string{"a", "b"}, 3, func(_, _, c, k int) float64 {
		return 3 * n() * math.Pow([]float64{1.05, 1, 0.9}[k], float64(c))
	})
	r := Analyse(d)
	for cell, want := range map[string]Verdict{"k0": Worse, "k1": Equivalent, "k2": Better} {
		c := find(t, r, "b", cell)
		// Three share .01: eight blocks reach 2/256 = .0078 at best, so that
		// the second look is the first that can decide.
		if c.Verdict != want || c.Look != 12 || c.Blocks != 12 || c.Unused != 14 || c.MoreBlocks != nil || c.Pending() {
			t.Errorf("%s: %+v, want %s at the second look", cell, c, want)
		}
	}
	if r.Unused != 14 || r.Blocks != 26 || !r.AllDecided() {
		t.Errorf("unused %d of %d, decided %v", r.Unused, r.Blocks, r.Decided())
	}
}

// The results say of each verdict of a difference whether it is beyond the margin,
// on both scales, and of nothing else.
func TestResultsSayWhatIsBeyondTheMargin(t *testing.T) {
	for _, scale := range []sample.Scale{sample.Ratio, sample.Difference} {
		n := wobble(1)
		d := world(26, []string{"a", "b"}, 3, func(_, _, c, k int) float64 {
			return 3 * n() * math.Pow([]float64{1.05, 1.02, 1}[k], float64(c))
		})
		for k := range d.Cells {
			d.Cells[k].Metrics[0].Scale = scale
		}
		r := Analyse(d)
		for cell, want := range map[string]string{"k0": "worse true", "k1": "worse false", "k2": "equivalent null"} {
			c := find(t, r, "b", cell)
			got, err := json.Marshal(c.BeyondMargin)
			if err != nil || fmt.Sprintf("%s %s", c.Verdict, got) != want {
				t.Errorf("%s, %s: %s %s, %v, want %s", scale, cell, c.Verdict, got, err, want)
			}
		}
	}
}

// A comparison is given up only when no look that is left can bring a verdict: a gate
// fails in half of the trials that a side can have at the last look, or blocks lack.
func TestGivesUpOnlyWhatCannotGetAVerdict(t *testing.T) {
	for name, x := range map[string]struct {
		blocks, gated int // gated: of the first blocks, in all trials of b
		gate          string
		lacking       int // first blocks without a value of the metric
		all           bool
		why           string
	}{
		"nothing failed":          {12, 0, "", 0, false, ""},
		"one block less than all": {12, 12, "steal", 0, false, ""}, // 12 of 26 blocks may still be a minority
		"half of the last look":   {13, 13, "steal", 0, true, EndedStuck},
		"gated, before a look":    {7, 7, "steal", 0, false, ""},
		"recovers in time":        {25, 12, "steal", 0, false, ""},
		"never to reach a look":   {20, 0, "", 19, true, EndedStuck},
		"reaches the first look":  {20, 0, "", 18, false, ""},
		"the last look is over":   {26, 0, "", 0, true, EndedStuck},
	} {
		n := 0
		d := world(x.blocks, []string{"a", "b"}, 1, func(b, i, c, _ int) float64 {
			n++
			return 1 + 0.2*float64((n*7919)%13)/13 // too noisy for a verdict
		})
		for i := range d.Observations {
			o := &d.Observations[i]
			if o.Contender == "b" && o.Block < x.gated {
				o.Gates = map[string]string{x.gate: "7 %"}
			}
			if o.Block < x.lacking {
				o.Values = []sample.Value{}
			}
		}
		r := Analyse(d)
		if c := find(t, r, "b", "k0"); c.Verdict != Inconclusive {
			t.Fatalf("%s: %s", name, c.Verdict)
		}
		if got := r.AllDecided(); got != x.all || got && r.WhyDecided() != x.why {
			t.Errorf("%s: all decided %v, %s", name, got, r.WhyDecided())
		}
	}
}

// A side that never succeeds has no comparison: a run that ends because of that has not
// given every comparison a verdict.
func TestWhyARunWithoutComparisonsEnds(t *testing.T) {
	for name, x := range map[string]struct {
		dead  string
		sides []string
		want  string
	}{
		"nobody":                 {"", []string{"a", "b"}, EndedDecided},
		"one of two contenders":  {"c", []string{"a", "b", "c"}, EndedStuck},
		"the only contender":     {"b", []string{"a", "b"}, EndedFailed},
		"the baseline":           {"a", []string{"a", "b"}, EndedFailed},
		"the twin":               {"a~twin", []string{"a", "a~twin"}, EndedFailed},
		"the baseline, no other": {"a", []string{"a", "a~twin"}, EndedFailed},
	} {
		n := wobble(5)
		d := world(26, x.sides, 1, func(_, _, c, _ int) float64 {
			if x.sides[c] == x.dead {
				return math.NaN()
			}
			return n()
		})
		if x.sides[1] == "a~twin" {
			d.Twin, d.Contenders[1].TwinOf = "a~twin", "a"
		}
		if r := Analyse(d); r.WhyDecided() != x.want {
			t.Errorf("%s fails in all trials: the run ended because of %q, want %q", name, r.WhyDecided(), x.want)
		}
	}
}

func TestMetricDirection(t *testing.T) {
	n := wobble(2)
	d := world(8, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return n() * (1 + 0.1*float64(c)) })
	if v := find(t, Analyse(d), "b", "k0").Verdict; v != Worse {
		t.Errorf("more seconds are %s", v)
	}
	d.Cells[0].Metrics[0].Better = sample.Higher
	c := find(t, Analyse(d), "b", "k0")
	if c.Verdict != Better || *c.Ratio < 1.09 || *c.Ratio > 1.11 || *c.Alpha != 0.01 {
		t.Errorf("more operations: %+v", c)
	}
}

// Of two comparisons the clear one falls at alpha/2 and passes its alpha on,
// so that the other is judged at all of it in the same look.
func TestAlphaIsPassedOnByRejectionsOfTheSameKind(t *testing.T) {
	n := wobble(3)
	family := func(effect float64) Results {
		d := world(12, []string{"a", "b"}, 2, func(b, i, c, k int) float64 {
			if k == 0 {
				return n() * math.Pow(effect, float64(c))
			}
			return n() * math.Pow([]float64{1.2, 0.9, 1.1, 0.8}[(b+b/3)%4], float64(c))
		})
		d.Looks, d.Alphas = []int{12}, []float64{.01}
		return Analyse(d)
	}
	r := family(1.3)
	if a, b := find(t, r, "b", "k0"), find(t, r, "b", "k1"); a.Verdict != Worse || *a.Alpha != .005 ||
		b.Verdict != Inconclusive || *b.Alpha != .01 {
		t.Errorf("after a difference: %s at %v, %s at %v", a.Verdict, *a.Alpha, b.Verdict, *b.Alpha)
	}
	r = family(1)
	if a, b := find(t, r, "b", "k0"), find(t, r, "b", "k1"); a.Verdict != Equivalent ||
		*a.Alpha != .005 || *b.Alpha != .005 {
		t.Errorf("an equivalence must not raise the level of differences: %s at %v, %s at %v", a.Verdict,
			*a.Alpha, b.Verdict, *b.Alpha)
	}
}

func TestDecidedIsFrozen(t *testing.T) {
	n := wobble(4)
	value := func(b, _, c, _ int) float64 {
		if b >= 8 {
			return n() * math.Pow(0.5, float64(c)) // turns round after the first look
		}
		return n() * math.Pow(1.1, float64(c))
	}
	short := Analyse(world(8, []string{"a", "b"}, 1, value))
	n = wobble(4)
	long := Analyse(world(26, []string{"a", "b"}, 1, value))
	a, b := find(t, short, "b", "k0"), find(t, long, "b", "k0")
	b.Unused = 0
	if !reflect.DeepEqual(a, b) || a.Verdict != Worse {
		t.Errorf("later blocks changed a decided comparison:\n%+v\n%+v", a, b)
	}
}

func TestOrderOfObservationsDoesNotMatter(t *testing.T) {
	n := wobble(5)
	d := world(14, []string{"a", "b", "c"}, 2, func(_, _, c, k int) float64 { return n() * (1 + 0.02*float64(c*k)) })
	want, _ := json.Marshal(Analyse(d))
	rand.New(rand.NewPCG(5, 5)).Shuffle(len(d.Observations), func(i, j int) {
		d.Observations[i], d.Observations[j] = d.Observations[j], d.Observations[i]
	})
	got, err := json.Marshal(Analyse(d))
	if err != nil || string(got) != string(want) {
		t.Errorf("shuffled observations give other results: %v", err)
	}
}

func TestFailuresAreTheWorstValue(t *testing.T) {
	n := wobble(6)
	nan := math.NaN()
	d := world(12, []string{"a", "b"}, 1, func(b, i, c, _ int) float64 {
		switch {
		case c == 1 && b%2 == 0:
			return nan // b fails in half of the blocks, and is faster in the others
		case c == 1 && i == 0:
			return 0.5 * n()
		}
		return n()
	})
	c := find(t, Analyse(d), "b", "k0")
	if c.Verdict == Better || c.CI[1] != nil {
		t.Errorf("failing half of the time helped: %+v", c)
	}
	if c.Failures != (Failures{Contender: 12, Baseline: 0, Of: 24}) || len(c.Warnings) == 0 ||
		!strings.Contains(c.Warnings[0], "12 of 24 of b") {
		t.Errorf("failures are not counted: %+v %v", c.Failures, c.Warnings)
	}
	// All but one block fail: plainly worse, with no bound above.
	d = world(8, []string{"a", "b"}, 1, func(b, _, c, _ int) float64 {
		if c == 1 && b > 0 {
			return nan
		}
		return n() * (1 + float64(c))
	})
	if c := find(t, Analyse(d), "b", "k0"); c.Verdict != Worse || c.Ratio != nil || c.CI[0] == nil || c.CI[1] != nil {
		t.Errorf("%+v", c)
	}
	// Both fail together: a tie.
	d = world(8, []string{"a", "b"}, 1, func(b, _, _, _ int) float64 {
		if b%2 == 0 {
			return nan
		}
		return n()
	})
	if c := find(t, Analyse(d), "b", "k0"); c.Verdict != Equivalent {
		t.Errorf("%+v", c)
	}
}

func TestNeverSucceededIsMissing(t *testing.T) {
	n := wobble(7)
	d := world(8, []string{"a", "b", "c"}, 2, func(_, _, c, k int) float64 {
		if c == 1 && k == 0 {
			return math.NaN()
		}
		return n()
	})
	d.Missing = []Missing{{Contender: "c", Cell: "k0", Reason: "not there", Gone: true}}
	d.Observations = slices.DeleteFunc(d.Observations,
		func(o Observation) bool { return o.Contender == "c" && o.Cell == "k0" })
	r := Analyse(d)
	want := []Missing{{"b", "k0", "none of 16 trials succeeded: it fell over", false}, {"c", "k0", "not there", true}}
	if !reflect.DeepEqual(r.Missing, want) {
		t.Errorf("missing: %+v", r.Missing)
	}
	for _, c := range r.Comparisons {
		if c.Cell == "k0" {
			t.Errorf("a missing cell is compared: %+v", c)
		}
		// b/k0 was tried and keeps its share, c/k0 never was: three share.
		if *c.Alpha != .01/3 && *c.Alpha != .01/2 && *c.Alpha != .01 {
			t.Errorf("alpha %v", *c.Alpha)
		}
	}
	if s := r.Summaries[0]; s.Contender != "a" || s.N != 16 || s.Median == nil || len(s.Samples) != 16 {
		t.Errorf("%+v", s)
	}
}

func TestUnbalancedBlocksDoNotCount(t *testing.T) {
	n := wobble(8)
	d := world(9, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return n() * math.Pow(1.2, float64(c)) })
	d.Observations = slices.DeleteFunc(d.Observations, func(o Observation) bool {
		return o.Block == 3 && o.Contender == "b" && o.Position == 1
	})
	c := find(t, Analyse(d), "b", "k0")
	if c.Blocks != 8 || c.Verdict != Worse {
		t.Errorf("%+v", c)
	}
	d.Trials = 0 // not known: one trial against two still is no block
	if c := find(t, Analyse(d), "b", "k0"); c.Blocks != 8 {
		t.Errorf("%+v", c)
	}
}

func TestBeforeTheFirstLook(t *testing.T) {
	n := wobble(9)
	r := Analyse(world(6, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return n() * math.Pow(1.2, float64(c)) }))
	c := find(t, r, "b", "k0")
	if c.Verdict != Inconclusive || c.Look != 0 || c.CI[0] != nil || c.Ratio == nil || c.Interim[0] == nil ||
		*c.MoreBlocks != 2 || r.AllDecided() {
		t.Errorf("%+v", c)
	}
	none := Analyse(world(0, []string{"a", "b"}, 1, nil))
	if c := find(t, none, "b", "k0"); c.Verdict != Inconclusive || c.Ratio != nil ||
		len(none.Missing) != 0 || none.AllDecided() {
		t.Errorf("%+v", c)
	}
}

func TestGates(t *testing.T) {
	n := wobble(10)
	both, cpuTime := false, false
	make := func(gate string, every int) Comparison {
		d := world(12, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return n() * math.Pow(1.2, float64(c)) })
		for i := range d.Observations {
			if o := &d.Observations[i]; (both || o.Contender == "b") && i/2%every == 0 {
				o.Gates = map[string]string{gate: "seen"}
			}
		}
		d.Cells[0].Metrics[0].CPUTime = cpuTime
		return find(t, Analyse(d), "b", "k0")
	}
	if c := make("steal", 10); c.Verdict != Worse || len(c.Gates) != 0 {
		t.Errorf("one trial in ten with steal: %+v", c)
	}
	if c := make("steal", 4); c.Verdict != Inconclusive || len(c.Gates) != 1 || c.Gates[0].Of != 48 ||
		c.CI[0] == nil || !c.Pending() {
		t.Errorf("one trial in four with steal: %+v", c)
	}
	both = true
	if c := make("steal", 4); c.Verdict != Worse || len(c.Gates) != 0 {
		t.Errorf("one trial in four with steal on both sides: %+v", c)
	}
	if c := make(SharedGate, 1); c.Verdict != Worse || len(c.Gates) != 0 {
		t.Errorf("time on CPUs that others used: %+v", c)
	}
	if c := make("ceiling", 1); c.Verdict != Inconclusive || len(c.Gates) != 1 {
		t.Errorf("every trial at the generator's ceiling: %+v", c)
	}
	cpuTime = true
	for _, gate := range []string{"ceiling", "path", "starved", "lateness"} {
		if c := make(gate, 1); c.Verdict != Worse || len(c.Gates) != 0 {
			t.Errorf("CPU time where every trial failed %s: %+v", gate, c)
		}
	}
	if c := make("throttled", 1); c.Verdict != Inconclusive || len(c.Gates) != 1 {
		t.Errorf("CPU time where every trial was throttled: %+v", c)
	}
	both, cpuTime = false, false
	if c := make("errors", 16); c.Verdict != Inconclusive || c.Gates[0].Name != "errors" ||
		c.Pending() || c.MoreBlocks != nil {
		t.Errorf("errors: %+v", c)
	}
}

// The busy time of CPUs includes other programs; the environment's own CPU time, rates and
// exact counts do not.
func TestSharedCPUsConcernTheirBusyTime(t *testing.T) {
	for _, m := range []sample.Metric{{Name: "cpu-per-op", CPUTime: true}, {Name: "cpu-per-request", CPUTime: true},
		{Name: "cpu", CPUTime: true}, {Name: "throughput"}, {Name: "instructions", Exact: true}} {
		if got, want := gateSpares(SharedGate, m), !strings.HasPrefix(m.Name, "cpu-per-"); got != want {
			t.Errorf("%s spares %s: %v", SharedGate, m.Name, got)
		}
	}
}

func TestTwinIsAFamilyOfItsOwn(t *testing.T) {
	n := wobble(11)
	make := func(effect float64) Results {
		d := world(12, []string{"a", "b", "a~twin"}, 1,
			func(_, _, c, _ int) float64 { return n() * []float64{1, 1.1, effect}[c] })
		d.Twin = "a~twin"
		d.Contenders[2].TwinOf = "a"
		return Analyse(d)
	}
	r := make(1)
	if len(r.Comparisons) != 1 || *r.Comparisons[0].Alpha != .01 || len(r.Twin.Comparisons) != 1 || r.Twin.Different {
		t.Errorf("%+v", r.Twin)
	}
	if r := make(1.1); !r.Twin.Different {
		t.Error("a twin that differs is not told")
	}
	if got := r.Decided(); !got["a"] || !got["b"] || !got["a~twin"] {
		t.Errorf("%v", got)
	}
}

func TestDecidedWaitsForEveryPrimaryComparison(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	d := world(12, []string{"a", "b", "c", "a~twin"}, 1, func(_, _, c, _ int) float64 {
		return math.Exp([]float64{0.004, 0.004, 0.2, 0.004}[c]*r.NormFloat64()) * []float64{1, 1.2, 1, 1}[c]
	})
	d.Twin = "a~twin"
	got := Analyse(d)
	if m := got.Decided(); m["a"] || !m["b"] || m["c"] || m["a~twin"] || got.AllDecided() {
		t.Errorf("%v", m)
	}
	d.Cells[0].Metrics[0].Primary = false
	got = Analyse(d)
	if m := got.Decided(); m["b"] || got.AllDecided() {
		t.Errorf("decided without anything to decide: %v", m)
	}
	if c := find(t, got, "b", "k0"); c.Verdict != "" || c.CI[0] == nil || *c.Alpha != .05 {
		t.Errorf("%+v", c)
	}
}

func TestConfounders(t *testing.T) {
	d := world(1, []string{"a", "b"}, 1, func(_, _, _, _ int) float64 { return 1 })
	d.Facts = map[string]map[string]string{
		"a": {"kernel": "6.1", "driver": "host", "libc": "2.36", FactCPUTime: "schedstat"},
		"b": {"kernel": "6.2", "driver": "oci", "clock": "tsc", "libc": "2.36", FactCPUTime: "ticks"},
	}
	d.Meant = []string{"driver"}
	want := []Confounder{{"clock", "unavailable", "tsc"}, {"kernel", "6.1", "6.2"}}
	if c := find(t, Analyse(d), "b", "k0"); !reflect.DeepEqual(c.Confounders, want) {
		t.Errorf("%+v", c.Confounders)
	}
	d.Cells[0].Metrics[0].CPUTime = true
	want = []Confounder{want[0], {FactCPUTime, "schedstat", "ticks"}, want[1]}
	if c := find(t, Analyse(d), "b", "k0"); !reflect.DeepEqual(c.Confounders, want) {
		t.Errorf("of a cost in CPU time: %+v", c.Confounders)
	}
}

func TestDifferenceScale(t *testing.T) {
	n := rand.New(rand.NewPCG(13, 13))
	d := world(8, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return float64(c) * (5 + n.Float64()) })
	d.Cells[0].Metrics[0].Scale = sample.Difference
	c := find(t, Analyse(d), "b", "k0")
	if c.Verdict != Worse || *c.Ratio < 5 || *c.Ratio > 6 {
		t.Errorf("%+v", c)
	}
	d = world(8, []string{"a", "b"}, 1, func(_, _, _, _ int) float64 { return 0 })
	d.Cells[0].Metrics[0].Scale = sample.Difference
	if c := find(t, Analyse(d), "b", "k0"); c.Verdict != Equivalent || *c.Ratio != 0 {
		t.Errorf("zero against zero: %+v", c)
	}
	d.Cells[0].Metrics[0].Scale = sample.Ratio // zero seconds cannot be divided
	if r := Analyse(d); len(r.Missing) != 2 {
		t.Errorf("%+v", r.Missing)
	}
}

// The margin of a difference is of the baseline's size at the look: what came
// later must not change what was decided.
func TestDifferenceScaleIsFrozen(t *testing.T) {
	n := rand.New(rand.NewPCG(16, 16))
	value := func(b, _, c, _ int) float64 {
		if b >= 8 {
			return 1e6
		}
		return 100 + 0.1*n.NormFloat64() + float64(c)
	}
	make := func(blocks int) Comparison {
		n = rand.New(rand.NewPCG(16, 16))
		d := world(blocks, []string{"a", "b"}, 1, value)
		d.Cells[0].Metrics[0].Scale = sample.Difference
		c := find(t, Analyse(d), "b", "k0")
		c.Unused = 0
		return c
	}
	if a, b := make(8), make(20); a.Verdict != Equivalent || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add([]byte{8, 1, 2, 3, 4, 5, 6, 7, 250, 251, 252, 0, 0, 9, 9}, 0.02)
	f.Add([]byte{}, math.NaN())
	f.Add([]byte{30, 253, 253, 253}, 0.0)
	f.Fuzz(func(t *testing.T, in []byte, margin float64) {
		i := 0
		next := func() byte {
			i++
			if i > len(in) {
				return byte(i * 37)
			}
			return in[i-1]
		}
		odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64}
		d := world(int(next())%32, []string{"a", "b", "t"}, 2, func(_, _, _, _ int) float64 {
			if b := next(); b >= 249 {
				return odd[b-249]
			} else {
				return float64(b) / 16
			}
		})
		d.Twin, d.Margin = "t", margin
		d.Observations = slices.DeleteFunc(d.Observations, func(Observation) bool { return next() == 7 })
		r := Analyse(d)
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		for _, c := range append(r.Comparisons, r.Twin.Comparisons...) {
			lo, hi := math.Inf(-1), math.Inf(1)
			if c.CI[0] != nil {
				lo = math.Log(*c.CI[0])
			}
			if c.CI[1] != nil {
				hi = math.Log(*c.CI[1])
			}
			if c.Verdict == Better && !(hi < 1e-12) || c.Verdict == Worse && !(lo > -1e-12) || lo > hi {
				t.Fatalf("the verdict is not the interval's: %+v", c)
			}
		}
		r.Decided()
	})
}

// A contender whose trials stall now and then is typical otherwise: the
// verdict is on the typical trial, and the warning says what it leaves out.
func TestOneSidedTailsAreTold(t *testing.T) {
	n := wobble(14)
	d := world(18, []string{"a", "b"}, 1, func(b, i, c, _ int) float64 {
		if c == 1 && i == 0 && b%2 == 0 {
			return 1.5 * n()
		}
		return n()
	})
	d.Looks, d.Alphas = []int{18}, []float64{.05}
	c := find(t, Analyse(d), "b", "k0")
	if c.Verdict != Equivalent || len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "the tails differ: "+
		"9 trials of b and 0 of a") {
		t.Errorf("%s %v", c.Verdict, c.Warnings)
	}
}

func TestOrdersThatWereNotDrawnAreTold(t *testing.T) {
	for _, fixed := range []bool{true, false} {
		n := wobble(17)
		d := world(12, []string{"a", "b"}, 1, func(_, _, _, _ int) float64 { return n() })
		d.Looks, d.Alphas = []int{12}, []float64{.05}
		for i := range d.Observations {
			if o := &d.Observations[i]; !fixed && o.Block == 5 {
				o.Position = 3 - o.Position
			}
		}
		c := find(t, Analyse(d), "b", "k0")
		if told := len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "a ran first in all 12 blocks"); told != fixed {
			t.Errorf("fixed %v: %v", fixed, c.Warnings)
		}
	}
}

func TestMoreBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	d := world(18, []string{"a", "b"}, 1, func(_, _, _, _ int) float64 { return math.Exp(0.1 * r.NormFloat64()) })
	d.Looks, d.Alphas = []int{8, 12, 18}, []float64{.01, .02, .02}
	c := find(t, Analyse(d), "b", "k0")
	// 10 % of noise in a trial is 10 % in a block's score: an interval within
	// 2 % at about 2.3 standard errors, and 1.3 more that it is not always missed
	// by, takes (3.6·.1/.02)² = 320 blocks and more.
	if c.Verdict != Inconclusive || c.MoreBlocks == nil || *c.MoreBlocks < 150 || *c.MoreBlocks > 2000 || c.Look != 18 {
		t.Errorf("%+v", c)
	}
}
