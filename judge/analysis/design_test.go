package analysis

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/sample"
)

// Environments that served all blocks are counted by contender.
func TestInstanceSets(t *testing.T) {
	d := Data{Scope: ScopeInstance, Observations: []Observation{
		{Contender: "a", Instance: "1"}, {Contender: "a", Instance: "1"}, {Contender: "b", Instance: "1"}, {Contender: "b",
			Instance: "2"},
		{Contender: "b", Instance: "1"}, {Contender: "b"},
	}}
	if got := d.instanceSets(); got != 2 {
		t.Errorf("%d sets", got)
	}
	if r := Analyse(d); r.InstanceSets != 2 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "but 2 did") {
		t.Errorf("%d, %q", r.InstanceSets, r.Warnings)
	}
	d.Observations = d.Observations[:3]
	if r := Analyse(d); r.InstanceSets != 1 || len(r.Warnings) != 0 {
		t.Errorf("%d, %q", r.InstanceSets, r.Warnings)
	}
	d.Cells = []Cell{{Name: "boot", Fresh: true}}
	if got := d.instanceSets(); got != 0 || d.scopeOf(d.Cells[0]) != ScopeMachine {
		t.Errorf("%d sets and scope %s where each trial has its own", got, d.scopeOf(d.Cells[0]))
	}
	d.Cells = append(d.Cells, Cell{Name: "sha256"})
	if got := d.instanceSets(); got != 1 || d.scopeOf(d.Cells[1]) != ScopeInstance {
		t.Errorf("%d sets and scope %s where one cell uses the same environments", got, d.scopeOf(d.Cells[1]))
	}
	d.Scope = ScopeMachine
	if got := d.instanceSets(); got != 0 {
		t.Errorf("%d sets where each block has its own", got)
	}
}

// A design that cannot be used as it is gets a warning for each reason, and no other does.
func TestWarningsOfDesigns(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Data)
		want   string
	}{
		"sound":           {func(d *Data) {}, ""},
		"no margin":       {func(d *Data) { d.Margin = 0 }, ""},
		"negative margin": {func(d *Data) { d.Margin = -1 }, "the margin -1 is not a share"},
		"infinite margin": {func(d *Data) { d.Margin = math.Inf(1) }, "the margin +Inf is not a share"},
		"no number":       {func(d *Data) { d.Margin = math.NaN() }, "the margin NaN is not a share"},
		"few alphas":      {func(d *Data) { d.Alphas = d.Alphas[:2] }, "4 looks and 2 alphas: only the first 2 were used"},
		"few looks":       {func(d *Data) { d.Looks = d.Looks[:3] }, "3 looks and 4 alphas: only the first 3 were used"},
		"descending":      {func(d *Data) { d.Looks = []int{8, 12, 10, 26} }, "the looks are not in ascending order"},
	} {
		n := wobble(21)
		d := world(8, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 { return n() })
		x.change(&d)
		r := Analyse(d)
		if (len(r.Warnings) > 0) != (x.want != "") || x.want != "" && !strings.Contains(r.Warnings[0], x.want) ||
			len(r.Warnings) > 1 {
			t.Errorf("%s: %q", name, r.Warnings)
		}
		if v := r.Comparisons[0].Verdict; (v == Equivalent) != (r.Margin == 0.02) && name != "no margin" {
			t.Errorf("%s: margin %v, %s", name, r.Margin, v)
		}
	}
}

// Costs in CPU time and energy without values are unavailable, with the reason; other metrics without values are not.
func TestUnavailableMetrics(t *testing.T) {
	value := func(names ...string) (out []sample.Value) {
		for _, n := range names {
			out = append(out, sample.Value{Metric: n, Value: 1})
		}
		return out
	}
	d := Data{
		Baseline: "a", Contenders: []Contender{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Cells: []Cell{{Name: "k", Metrics: []sample.Metric{{Name: "time", Unit: "s"}, {Name: "cpu", Unit: "s", CPUTime: true},
			{Name: "joules", Unit: "J/op"}, {Name: "odd", Unit: "B"}}}},
		NoEnergy: map[string]string{"a": "no counter", "b": "no counter"},
		Observations: []Observation{
			{Contender: "a", Cell: "k", Values: value("time")}, {Contender: "b", Cell: "k", Position: 1, Values: value("time",
				"cpu", "joules")},
			{Contender: "c", Cell: "k", Position: 2, Failed: true},
		},
	}
	want := []Unavailable{{"a", "k", "cpu", nil, noCPUTime}, {"a", "k", "joules", nil, "no counter"}}
	if got := Analyse(d).Unavailable; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// The blocks after the last decision, or after the last look, are unused.
func TestUnused(t *testing.T) {
	at := func(n int, closed bool, primary bool, index ...int) *draft {
		c := &draft{closed: closed, Comparison: Comparison{Primary: primary, Blocks: n}}
		for _, i := range index {
			c.blocks = append(c.blocks, block{index: i})
		}
		return c
	}
	all := []int{0, 2, 3, 5, 8, 9}
	looked := at(2, false, true, 0, 3, 9)
	looked.Unused = 1
	for name, x := range map[string]struct {
		cs   drafts
		want int
	}{
		"none":             {drafts{}, 0},
		"at the third":     {drafts{main: []*draft{at(2, true, true, 2, 3, 5)}}, 3},
		"the later counts": {drafts{main: []*draft{at(2, true, true, 0, 8), at(1, true, true, 2, 9)}}, 1},
		"in both orders":   {drafts{main: []*draft{at(1, true, true, 2, 9), at(2, true, true, 0, 8)}}, 1},
		"one is pending":   {drafts{main: []*draft{at(2, true, true, 0, 2), at(1, false, true, 2)}}, 0},
		"one is plain":     {drafts{main: []*draft{at(2, true, true, 0, 2), at(1, false, false, 2)}}, 4},
		"the last look":    {drafts{main: []*draft{looked}}, 3},
		"twin too late":    {drafts{main: []*draft{at(2, true, true, 0, 2)}, twin: []*draft{at(1, true, true, 9)}}, 4},
		"twin alone":       {drafts{main: []*draft{at(1, false, false, 0)}, twin: []*draft{at(1, true, true, 8)}}, 1},
		"at the end":       {drafts{main: []*draft{at(1, true, true, 9)}}, 0},
	} {
		if got := x.cs.unusedBlocks(all); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}

// An order in which one side always runs first is reported from twelve blocks on, and gates tables from eight on.
func TestOneSideFirst(t *testing.T) {
	for _, blocks := range []int{7, 8, 11, 12} {
		for _, side := range []int8{1, -1} {
			for _, others := range []int{0, 1} {
				c := &draft{elsewhere: true, Comparison: Comparison{Contender: "x", Baseline: "base", Blocks: blocks}}
				for i := range blocks + 3 { // those that did not enter have another order
					s := side
					if i < others || i >= blocks {
						s = -side
					}
					c.blocks = append(c.blocks, block{first: s, turn: s})
				}
				ahead := map[int8]string{1: "x", -1: "base"}[side]
				if w := c.undrawn(); (w != "") != (blocks >= 12 && others == 0) ||
					w != "" && !strings.HasPrefix(w, fmt.Sprintf("%s ran first in all %d blocks", ahead, blocks)) {
					t.Errorf("%d blocks, side %d, %d others: %q", blocks, side, others, w)
				}
				behind := map[int8]string{-1: "x", 1: "base"}[side]
				if w := c.oneOrder(); (w != "") != (blocks >= 8 && others == 0) ||
					w != "" && !strings.HasPrefix(w, fmt.Sprintf("%s ran before %s in all %d blocks", ahead, behind, blocks)) {
					t.Errorf("%d blocks, side %d, %d others: %q", blocks, side, others, w)
				}
				if got := c.hasDrawnOrders(); got != (others == 1) {
					t.Errorf("%d blocks, %d others: drawn %v", blocks, others, got)
				}
				c.elsewhere = false
				if w := c.oneOrder(); w != "" {
					t.Errorf("where orders are known to be random: %q", w)
				}
				c.elsewhere = true
				for value, told := range map[float64]bool{math.Log(1.199): true, -math.Log(1.199): true, math.Log(1.201): false,
					-math.Log(1.201): false} {
					if c.shown.Value = value; (c.oneOrder() != "") != (told && blocks >= 8 && others == 0) {
						t.Errorf("a difference of %v: %q", value, c.oneOrder())
					}
				}
			}
		}
	}
}

// Two differences are apart if they are further from each other than the margin and would get different verdicts.
func TestApart(t *testing.T) {
	c := &draft{region: 0.02, metric: sample.Metric{Better: sample.Lower, Scale: sample.Ratio, Unit: "s"}}
	for _, x := range []struct {
		a, b float64
		want bool
	}{
		{0.01, 0.031, true}, {0.01, 0.029, false}, {0.03, 0.3, false}, {-0.03, 0.03, true}, {0.031, 0.01, true}, {-0.015,
			0.015, false},
		{math.NaN(), 1, false}, {1, math.NaN(), false},
	} {
		if got := c.verdictsDiffer(x.a, x.b); got != x.want {
			t.Errorf("%v and %v: %v", x.a, x.b, got)
		}
	}
	if got := c.differenceText(math.Log(1.05)); got != "+5.0 %" {
		t.Errorf("%q", got)
	}
	c.metric.Scale = sample.Difference
	if got := c.differenceText(-2.5); got != "−2.5 s" {
		t.Errorf("%q", got)
	}
	// The seed of the permutations comes from all three names.
	seeds := map[uint64]bool{}
	for _, names := range [][3]string{{"a", "b", "c"}, {"x", "b", "c"}, {"a", "x", "c"}, {"a", "b", "x"}, {"a b", "",
		"c"}} {
		c.Contender, c.Cell, c.metric.Name = names[0], names[1], names[2]
		seeds[c.seedOfNames()] = true
	}
	if len(seeds) != 5 {
		t.Errorf("%v", slices.Sorted(maps.Keys(seeds)))
	}
}

// Hardware of hosts: declared equal, alike in every fact, and measured to be equivalent in every primary metric.
func TestHostsThatAreAlike(t *testing.T) {
	facts := map[string]string{}
	for _, f := range machineFacts {
		facts[f] = "x"
	}
	if !slices.Equal(machineFacts, []string{"arch", "cpu.model", "cpu.flags", "cpu.microcode", "memory", "smt"}) {
		t.Errorf("facts of machines: %q", machineFacts)
	}
	warned := func(change func(d *Data, all []Comparison)) (out []string) {
		d := Data{Baseline: "base", Facts: map[string]map[string]string{"base": facts, "x": facts, "cal": facts},
			Hosts: map[string]Placement{"base": {Host: "here", Equals: "same"}, "x": {Host: "there", Equals: "same"},
				"cal": {Host: "there", Equals: "same", Like: true}}}
		all := []Comparison{{Contender: "x", Primary: true}, {Contender: "cal", Primary: true, Verdict: Equivalent},
			{Contender: "cal", Verdict: Worse}}
		change(&d, all)
		d.warnAcrossHosts(all)
		for _, c := range all {
			out = append(out, c.Warnings...)
		}
		return out
	}
	for _, f := range machineFacts {
		if got := warned(func(d *Data, _ []Comparison) {
			other := maps.Clone(facts)
			delete(other, f)
			d.Facts["x"] = other
		}); len(got) != 1 || !strings.HasSuffix(got[0], "but differ in "+f) {
			t.Errorf("without %s: %q", f, got)
		}
	}
	for name, x := range map[string]struct {
		change func(d *Data, all []Comparison)
		want   int
	}{
		"alike":            {func(d *Data, all []Comparison) {}, 0},
		"measured unequal": {func(d *Data, all []Comparison) { all[1].Verdict = Worse }, 1},
		"measured in part": {func(d *Data, all []Comparison) { all[2].Primary = true }, 1},
		"measured nowhere": {func(d *Data, all []Comparison) { all[1].Primary = false }, 1},
		"measured there": {func(d *Data, all []Comparison) {
			d.Hosts["cal"] = Placement{Host: "other", Equals: "same",
				Like: true}
		}, 1},
		"one host": {func(d *Data, all []Comparison) {
			d.Hosts["x"], d.Hosts["cal"] = d.Hosts["base"],
				d.Hosts["base"]
		}, 0},
		"baseline nowhere":  {func(d *Data, all []Comparison) { delete(d.Hosts, "base") }, 0},
		"contender nowhere": {func(d *Data, all []Comparison) { delete(d.Hosts, "x") }, 0},
		"not declared": {func(d *Data, all []Comparison) {
			d.Hosts["x"], d.Hosts["cal"], d.Hosts["base"] = Placement{Host: "there"}, Placement{Host: "there"},
				Placement{Host: "here"}
		}, 3},
	} {
		if got := warned(x.change); len(got) != x.want {
			t.Errorf("%s: %q, want %d", name, got, x.want)
		}
	}
}

// How many more blocks a comparison needs, by the formula of the plan.
func TestMoreBlocksAtLimits(t *testing.T) {
	for name, x := range map[string]struct {
		noise, effect float64
		blocks        int
		change        func(*Data)
		want          string
	}{
		"to the next look": {0.03, 0, 6, func(d *Data) {}, "some"},
		"too few blocks":   {0.03, 0, 3, func(d *Data) {}, "none"},
		"four are enough":  {0.03, 0.3, 4, func(d *Data) {}, "some"},
		"no looks":         {0.03, 0, 6, func(d *Data) { d.Looks = nil }, "none"},
		"nothing to find":  {0, 0, 7, func(d *Data) { d.Margin = 0 }, "none"},
		"an answer was wrong": {0.03, 0, 6, func(d *Data) { d.Observations[5].Gates = map[string]string{"answer": "x"} },
			"none"},
		"steal is no reason": {0.03, 0, 6, func(d *Data) { d.Observations[5].Gates = map[string]string{"steal": "x"} },
			"some"},
	} {
		r := rand.New(rand.NewPCG(81, 1))
		d := world(x.blocks, []string{"a", "b"}, 1, func(_, _, c, _ int) float64 {
			return math.Exp(x.noise*r.NormFloat64() + x.effect*float64(c))
		})
		x.change(&d)
		c := Analyse(d).Comparisons[0]
		if (c.MoreBlocks != nil) != (x.want == "some") {
			t.Errorf("%s: %v", name, c.MoreBlocks)
		}
		if c.MoreBlocks != nil && x.blocks+*c.MoreBlocks <= 26 && !slices.Contains(d.Looks, x.blocks+*c.MoreBlocks) {
			t.Errorf("%s: %d more blocks, which is between looks", name, *c.MoreBlocks)
		}
	}
}
