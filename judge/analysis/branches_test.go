package analysis

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/sample"
)

var update = flag.Bool("update", false, "write testdata/results.json")

// busy is a run with something of everything: three contenders and a twin, a difference, an
// equivalence, drift, outliers, failures, gates, a metric of differences, one without verdict,
// one that lacks values, and confounders.
func busy() Data {
	r := rand.New(rand.NewPCG(71, 1))
	d := Data{
		Run: "busy", PlanSHA256: "cafe", Seed: 5, Baseline: "base", Twin: "base~twin", Margin: 0.02, Looks: []int{8, 12, 18},
		Alphas: []float64{.016, .014, .015}, Scope: ScopeMachine, Trials: 2, Void: 1, Ended: EndedBlocks,
		Contenders: []Contender{{Name: "base", Driver: "host"}, {Name: "slow", Driver: "crun"}, {Name: "same", Driver: "lxc"},
			{Name: "base~twin", Driver: "host", TwinOf: "base"}},
		Facts: map[string]map[string]string{"base": {"kernel": "6.1"}, "slow": {"kernel": "6.2"}},
		Meant: []string{"driver"},
	}
	time := sample.Metric{Name: "time", Unit: "s", Better: sample.Lower, Primary: true, Scale: sample.Ratio}
	delta := sample.Metric{Name: "delta", Unit: "ms", Better: sample.Higher, Primary: true, Scale: sample.Difference}
	memory := sample.Metric{Name: "memory", Unit: "B", Better: sample.Lower, Scale: sample.Ratio}
	d.Cells = []Cell{
		{Name: "one", Workload: "cpu", Metrics: []sample.Metric{time, memory}},
		{Name: "two", Workload: "disk", Metrics: []sample.Metric{delta}},
		{Name: "three", Workload: "net", Metrics: []sample.Metric{time}},
	}
	effect := map[string]float64{"slow": 0.06, "base~twin": 0.001}
	drift := 0.0
	for b := range 20 {
		position := 0
		for k, cell := range d.Cells {
			order := r.Perm(len(d.Contenders))
			for i := range 2 * len(order) {
				c := d.Contenders[order[min(i, 2*len(order)-1-i)]].Name
				drift += 0.003 * r.NormFloat64()
				v := drift + effect[c] + []float64{0.006, 0.006, 0.05}[k]*r.NormFloat64()
				if r.Float64() < 0.05 {
					v += 0.3 * r.ExpFloat64()
				}
				o := Observation{Block: b, Position: position, Instance: fmt.Sprint(c, b), Contender: c, Cell: cell.Name}
				switch position++; {
				case c == "same" && cell.Name == "one" && b == 3, c == "slow" && cell.Name == "three" && b < 4:
					o.Failed, o.Reason = true, "it fell over"
				case cell.Name == "two":
					o.Values = []sample.Value{{Metric: "delta", Unit: "ms", Value: 40 + 30*v}}
				default:
					o.Values = []sample.Value{{Metric: "time", Unit: "s", Value: 2 * math.Exp(v)}}
					if c != "base~twin" || b > 2 {
						o.Values = append(o.Values, sample.Value{Metric: "memory", Unit: "B", Value: 1e6 * math.Exp(-v)})
					}
				}
				if c == "slow" && cell.Name == "two" && r.Float64() < 0.5 {
					o.Gates = map[string]string{"throttled": "the subject was throttled"}
				}
				d.Observations = append(d.Observations, o)
			}
		}
	}
	return d
}

// rounded replaces the numbers of JSON by ten digits of them: the last digits depend on the processor.
func rounded(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = rounded(v[k])
		}
	case []any:
		for i := range v {
			v[i] = rounded(v[i])
		}
	case float64:
		f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 10, 64), 64)
		return f
	}
	return v
}

// Results are recomputed from run folders years later, by verify and by strangers. They must
// stay what they are; -update writes them where a change is intended.
func TestResultsStay(t *testing.T) {
	r := Analyse(busy())
	r.Rules = 0                  // counts up with every gate that is added
	for i := range r.Summaries { // those are copies of the input
		if r.Summaries[i].N != len(r.Summaries[i].Samples) {
			t.Errorf("%d samples, %d listed", r.Summaries[i].N, len(r.Summaries[i].Samples))
		}
		r.Summaries[i].Samples = r.Summaries[i].Samples[:1]
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var any map[string]any
	if err := json.Unmarshal(text, &any); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(rounded(any), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "results.json")
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(string(got), "\n"), strings.Split(strings.TrimSpace(string(want)), "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s:%d differs:\n%s", file, i+1, strings.Join(a[max(0, i-3):min(len(a), i+3)], "\n"))
		}
	}
}

// Gates of single trials: from a half of either side on, or a fifth more on one side.
func TestSharesOfDisturbedTrials(t *testing.T) {
	for _, x := range []struct {
		us, them int // of 20 each
		want     bool
	}{
		{0, 0, false}, {3, 0, false}, {4, 0, true}, {0, 3, false}, {0, 4, true}, {5, 9, true}, {6, 9, false}, {9, 9, false},
		{10, 9, true}, {9, 10, true}, {10, 10, true},
	} {
		side := func(n int) (s series) {
			for i := range 20 {
				o := &Observation{}
				if i < n {
					o.Gates = map[string]string{"steal": "stolen"}
				}
				s = append(s, o)
			}
			return s
		}
		got := failedGates(side(x.us), side(x.them), sample.Metric{})
		if (len(got) == 1) != x.want {
			t.Errorf("%d and %d of 20: %+v", x.us, x.them, got)
		}
		if len(got) == 1 && got[0] != (Gate{Name: "steal", Reason: "stolen", Trials: x.us + x.them, Of: 40}) {
			t.Errorf("%d and %d of 20: %+v", x.us, x.them, got[0])
		}
	}
	for _, gate := range []string{"errors", "answer", "disk-full"} { // one trial is enough
		s := series{{Gates: map[string]string{gate: "x"}}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}
		if got := failedGates(nil, s, sample.Metric{}); len(got) != 1 || got[0].Of != 12 {
			t.Errorf("%s: %+v", gate, got)
		}
	}
	if got := failedGates(nil, nil, sample.Metric{}); got != nil {
		t.Errorf("%+v", got)
	}
}

// The trials of a block are merged in the order in which they ran; a block counts if it is complete.
func TestPair(t *testing.T) {
	m := sample.Metric{Name: "m", Scale: sample.Ratio, Better: sample.Lower}
	at := func(block, position int, v float64) *Observation {
		o := &Observation{Block: block, Position: position, Values: []sample.Value{{Metric: "m", Value: v}}}
		if math.IsNaN(v) {
			o.Values, o.Failed = nil, true
		}
		return o
	}
	nan := math.NaN()
	us := series{at(0, 1, 2), at(0, 2, 3), at(1, 0, 2), at(1, 3, nan), at(2, 0, 2), at(4, 0, 1), at(4, 5, 1), at(6, 2,
		0), at(6, 3, 4),
		at(7, 0, 1), at(7, 1, 1)}
	them := series{at(0, 0, 4), at(0, 3, 5), at(1, 1, nan), at(1, 2, 6), at(3, 0, 2), at(4, 1, 1), at(6, 0, 1), at(6, 1,
		1),
		{Block: 7, Position: 2}, at(7, 3, 1)}
	blocks, trials := pairBlocks(us, them, m, 2)
	want := []block{
		{index: 0, first: -1, failed: Failures{Of: 2}}, {index: 1, first: 1, failed: Failures{1, 1, 2}},
		{index: 6, first: -1, turn: -1, failed: Failures{Contender: 1, Of: 2}},
	}
	if !reflect.DeepEqual(blocks, want) {
		t.Errorf("blocks %+v, want %+v", blocks, want)
	}
	inf := math.Inf(1)
	values := []float64{math.Log(4), math.Log(2), math.Log(3), math.Log(5), math.Log(2), inf, math.Log(6), inf, 0, 0,
		inf, math.Log(4)}
	if !slices.Equal(trials.Value, values) || !slices.Equal(trials.Side, []int8{-1, 1, 1, -1, 1, -1, -1, 1, -1, -1, 1,
		1}) ||
		!slices.Equal(trials.Start, []int{0, 4, 8}) {
		t.Errorf("%+v", trials)
	}
	m.Better, m.Scale = sample.Higher, sample.Difference
	if _, trials := pairBlocks(us[:4], them[:4], m, 0); trials.Value[5] != math.Inf(-1) || trials.Value[1] != 2 {
		t.Errorf("of differences %+v", trials)
	}
	if blocks, _ := pairBlocks(us, them, m, 0); len(blocks) != 3 || blocks[2].failed.Contender != 0 {
		t.Errorf("0 is a difference: %+v", blocks)
	}
	if blocks, _ := pairBlocks(us, them, m, 1); len(blocks) != 0 { // both have two or unequal numbers
		t.Errorf("with one planned trial %+v", blocks)
	}
	if blocks, _ := pairBlocks(us[4:5], them[4:5], m, 1); len(blocks) != 0 {
		t.Errorf("trials of blocks 2 and 3 make %+v", blocks)
	}
	for b, want := range map[int]int{-1: 0, 0: 2, 1: 4, 2: 5, 3: 5, 5: 7, 7: 11, 8: 11} {
		if got := len(us.through(b)); got != want {
			t.Errorf("%d trials through block %d, want %d", got, b, want)
		}
	}
	if got := (series{at(0, 0, -3), at(0, 1, 5), at(0, 2, nan), at(0, 3, 4), {}}).medianSize(m); got != 4 {
		t.Errorf("size %v", got)
	}
	if got := (series{{}}).medianSize(m); got != 0 {
		t.Errorf("the size of nothing is %v", got)
	}
	cell := Cell{Metrics: []sample.Metric{{Name: "x"}, m}}
	if !us[:1].succeeded(cell) || (series{at(0, 0, nan), {}}).succeeded(cell) || us[:1].succeeded(Cell{}) {
		t.Error("succeeded")
	}
}

func TestTurn(t *testing.T) {
	for _, x := range []struct {
		sides []int8
		want  int8
	}{
		{[]int8{1, -1}, 1}, {[]int8{-1, 1}, -1}, {[]int8{1, -1, -1, 1}, 0}, {[]int8{-1, 1, 1, -1}, 0}, {[]int8{1, -1, 1,
			-1}, 1},
		{[]int8{-1, -1, 1, 1}, -1}, {nil, 0},
	} {
		if got := earlierSide(x.sides); got != x.want {
			t.Errorf("%v: %d, want %d", x.sides, got, x.want)
		}
	}
}

func TestReadVisit(t *testing.T) {
	v, ok := readVisit([]float64{1, 5, 7, 2}, []int8{1, -1, -1, 1})
	if !ok || v != (visit{difference: -4.5, first: -4, last: -5, warm: -1.5, level: 3.75}) {
		t.Errorf("%+v", v)
	}
	v, ok = readVisit([]float64{1, 5}, []int8{-1, 1})
	if !ok || v != (visit{difference: 4, first: 4, last: 4, level: 3}) {
		t.Errorf("%+v", v)
	}
	for _, bad := range []float64{math.Inf(1), math.NaN()} {
		if _, ok := readVisit([]float64{1, bad}, []int8{-1, 1}); ok {
			t.Errorf("%v was read", bad)
		}
	}
}

// A summary has the median of all points, and the interval of the medians of blocks.
func TestSummary(t *testing.T) {
	m := sample.Metric{Name: "m", Unit: "s", Scale: sample.Ratio}
	var s series
	for b := range 8 {
		for i, v := range []float64{1, 1, 10} {
			s = append(s, &Observation{Block: b, Position: i, Instance: "x", Values: []sample.Value{{Metric: "m",
				Value: v + float64(b)}}})
		}
	}
	s = append(s, &Observation{Block: 8, Position: 0, Instance: "y", Failed: true}, &Observation{Block: 8, Position: 1},
		&Observation{Block: 8, Position: 2, Values: []sample.Value{{Metric: "m", Value: -1}}})
	got, ok := summarise(s, "a", "k", m, Repeats)
	if !ok || got.N != 24 || got.Failures != 2 || *got.Median != 6.5 || *got.CI[0] != 1 || *got.CI[1] != 8 ||
		len(got.Samples) != 24 {
		t.Errorf("%+v, median %v", got, *got.Median)
	}
	if *got.CILevel < 0.95 || *got.CILevel > 0.9999 {
		t.Errorf("level %v", *got.CILevel)
	}
	if !slices.Equal(got.FailedAt, []Place{{8, 0, "y"}, {8, 2, ""}}) || got.Samples[4] != (Point{1, 1, "x", 2}) {
		t.Errorf("failed at %+v, %+v", got.FailedAt, got.Samples[4])
	}
	if got.Contender != "a" || got.Cell != "k" || got.Metric != "m" || got.Unit != "s" {
		t.Errorf("%+v", got)
	}
	// Few blocks have no interval, and failures alone no median.
	if got, ok := summarise(s[:3], "a", "k", m, Repeats); !ok || got.CI[0] != nil || got.CI[1] != nil ||
		got.CILevel != nil || *got.Median != 1 {
		t.Errorf("%+v", got)
	}
	if got, ok := summarise(s[24:25], "a", "k", m, Repeats); !ok || got.N != 0 || got.Median != nil || got.Failures != 1 ||
		got.Samples == nil {
		t.Errorf("%+v", got)
	}
	if _, ok := summarise(s[25:26], "a", "k", m, Repeats); ok {
		t.Error("a trial without the metric has a summary")
	}
	// The median of all points lies above those of the blocks: the interval contains it.
	var far series
	for b := range 7 {
		for i, v := range []float64{1, 1, 1, 9, 9, 9, 9}[:1+6*(b/6)] {
			far = append(far, &Observation{Block: b, Position: i, Values: []sample.Value{{Metric: "m", Value: v}}})
		}
	}
	far = append(far, far[len(far)-4:]...)
	if got, _ := summarise(far, "a", "k", m, Repeats); *got.CI[0] > *got.Median || *got.CI[1] < *got.Median {
		t.Errorf("the median %v lies outside of [%v, %v]", *got.Median, *got.CI[0], *got.CI[1])
	}
}

// fails makes n trials of each contender at the cell k fail, and none succeed.
func (r *Results) fails(n int, contenders ...string) {
	for _, c := range contenders {
		r.Missing = append(r.Missing, Missing{Contender: c, Cell: "k"})
		r.Summaries = append(r.Summaries, Summary{Contender: c, Cell: "k", Metric: "m"},
			Summary{Contender: c, Cell: "k", Metric: "p", Failures: n})
	}
}

// What a run waits for: see the documentation of Decided.
func TestDecided(t *testing.T) {
	primary := []Cell{{Name: "k", Metrics: []sample.Metric{{Name: "m"}, {Name: "p", Primary: true}}}}
	comparison := func(contender string, v Verdict) Comparison {
		return Comparison{Contender: contender, Primary: true,
			Verdict: v}
	}
	for name, x := range map[string]struct {
		change func(*Results)
		want   string
		all    bool
	}{
		"decided":     {func(r *Results) {}, "a b t x", true},
		"one pending": {func(r *Results) { r.Comparisons[1].Verdict = Inconclusive }, "x", false},
		"pending, but hopeless": {func(r *Results) {
			r.Comparisons[1].Verdict, r.Comparisons[1].Gates = Inconclusive, []Gate{{Name: "steal"}, {Name: "answer"}}
		}, "a b t x", true},
		"pending with a gate": {func(r *Results) {
			r.Comparisons[1].Verdict, r.Comparisons[1].Gates = Inconclusive, []Gate{{Name: "steal"}}
		}, "x", false},
		"not primary": {func(r *Results) {
			r.Comparisons[1].Verdict, r.Comparisons[1].Primary = Inconclusive,
				false
		}, "a b t x", true},
		"before a look":      {func(r *Results) { r.Blocks = 7 }, "", false},
		"at the first look":  {func(r *Results) { r.Blocks = 8 }, "a b t x", true},
		"no looks":           {func(r *Results) { r.Looks = nil }, "", false},
		"no primary metric":  {func(r *Results) { r.Cells = []Cell{{Metrics: []sample.Metric{{Name: "m"}}}} }, "", false},
		"twin pending":       {func(r *Results) { r.Twin.Comparisons[0].Verdict = Inconclusive }, "a b t x", true},
		"without twin":       {func(r *Results) { r.Twin, r.Contenders = nil, r.Contenders[:3] }, "a b x", true},
		"nothing to compare": {func(r *Results) { r.Comparisons = nil }, "a b t x", true},
		"twin pending beside one other": {func(r *Results) {
			r.Contenders, r.Comparisons = []Contender{{Name: "a"}, {Name: "x"}, {Name: "t"}}, r.Comparisons[:1]
			r.Twin.Comparisons[0].Verdict = Inconclusive
		}, "a t x", true},
		"only failed":      {func(r *Results) { r.Blocks = 2; r.fails(4, "b") }, "b", false},
		"too few failures": {func(r *Results) { r.Blocks = 1; r.fails(3, "b", "x", "a", "t") }, "", false},
		"failed at a cell without verdicts": {func(r *Results) {
			r.Blocks, r.Cells = 2, append(r.Cells, Cell{Name: "plain", Metrics: []sample.Metric{{Name: "m"}}})
			r.fails(4, "b")
		}, "b", false},
		"failed at one of two cells": {func(r *Results) {
			r.Blocks, r.Cells = 2, append(r.Cells, Cell{Name: "k2", Metrics: []sample.Metric{{Name: "m", Primary: true}}})
			r.fails(4, "b")
		}, "", false},
		"a success among failures": {func(r *Results) { r.Blocks = 2; r.fails(4, "b"); r.Missing = nil }, "", false},
		"every other one only failed": {func(r *Results) {
			r.Blocks, r.Comparisons = 2, nil
			r.fails(4, "b", "x")
		}, "a b t x", true},
		"the baseline only failed": {func(r *Results) {
			r.Blocks, r.Comparisons, r.Twin.Comparisons = 2, nil, nil
			r.fails(4, "a", "t")
		}, "a b t x", true},
		"failed without a primary metric": {func(r *Results) {
			r.Blocks, r.Comparisons, r.Twin.Comparisons = 2, nil, nil
			r.Cells = []Cell{{Name: "k", Metrics: []sample.Metric{{Name: "m"}}}}
			r.fails(4, "a", "b", "x", "t")
		}, "a b t x", true},
		"twin alone": {func(r *Results) {
			r.Contenders, r.Comparisons = []Contender{{Name: "a"}, {Name: "t"}}, nil
		}, "a t", true},
		"twin alone, pending": {func(r *Results) {
			r.Contenders, r.Comparisons = []Contender{{Name: "a"}, {Name: "t"}}, nil
			r.Twin.Comparisons[0].Verdict = Inconclusive
		}, "", false},
	} {
		r := Results{Baseline: "a", Looks: []int{8, 12}, Blocks: 12, Cells: primary,
			Contenders:  []Contender{{Name: "a"}, {Name: "b"}, {Name: "x"}, {Name: "t"}},
			Comparisons: []Comparison{comparison("x", Worse), comparison("b", Equivalent)},
			Twin:        &Twin{Name: "t", Comparisons: []Comparison{comparison("t", Equivalent)}}}
		x.change(&r)
		var got []string
		for c, done := range r.Decided() {
			if done {
				got = append(got, c)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != x.want || r.AllDecided() != x.all {
			t.Errorf("%s: decided %q, want %q; all %v", name, got, x.want, r.AllDecided())
		}
		if len(r.Decided()) != len(r.Contenders) {
			t.Errorf("%s: %v", name, r.Decided())
		}
	}
}

// A side that fails in most blocks has no ratio, whichever side it is: null, and not 0.
func TestRatioOfFailuresIsNull(t *testing.T) {
	for side := range 2 {
		n := wobble(23)
		c := Analyse(world(8, []string{"a", "b"}, 1, func(b, _, c, _ int) float64 {
			if c == side && b > 0 {
				return math.NaN()
			}
			return n()
		})).Comparisons[0]
		if c.Ratio != nil || c.CI[side] != nil || c.CI[1-side] == nil {
			t.Errorf("side %d: ratio %v, interval %v, %s", side, c.Ratio, c.CI, c.Verdict)
		}
	}
}

func TestEndedText(t *testing.T) {
	texts := map[string]bool{}
	for _, e := range []string{EndedDecided, EndedStuck, EndedFailed, EndedBlocks, EndedBudget,
		EndedInterrupted, EndedVoid, ""} {
		if text := EndedText(e); text == e || texts[text] {
			t.Errorf("%q: %q", e, text)
		} else {
			texts[text] = true
		}
	}
	if EndedText("power cut") != "power cut" {
		t.Error("an unknown reason is not shown as it is")
	}
}
