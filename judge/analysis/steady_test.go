package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/noise"
)

// drawnRun is a run of mirrored blocks in drawn orders, two contenders, with a
// noise of 0.5 % and value(block, visit, contender), visits counted from 0.
func drawnRun(seed uint64, blocks int, value func(b, visit, c int) float64) Data {
	r := rand.New(rand.NewPCG(seed, 3))
	d := world(0, []string{"a", "b"}, 1, nil)
	for b := range blocks {
		first := r.IntN(2)
		for i, c := range []int{first, 1 - first, 1 - first, first} {
			v := value(b, i/2, c) * math.Exp(.005*r.NormFloat64())
			d.Observations = append(d.Observations, observation(b, i, []string{"a", "b"}[c], d.Cells[0], v))
		}
	}
	return d
}

func only(t *testing.T, d Data) Comparison {
	t.Helper()
	r := Analyse(d)
	if len(r.Comparisons) != 1 {
		t.Fatalf("%d comparisons", len(r.Comparisons))
	}
	return r.Comparisons[0]
}

func failedGate(c Comparison, name, reason string) bool {
	return c.Verdict == Inconclusive && slices.ContainsFunc(c.Gates, func(g Gate) bool {
		return g.Name == name && strings.Contains(g.Reason, reason) && g.Trials == g.Of && g.Of > 0
	})
}

// One side that warms up in its first trial of a block is slower there and as
// fast as the other afterwards: neither number is the difference.
func TestADifferenceThatDependsOnTheVisit(t *testing.T) {
	c := only(t, drawnRun(1, 26, func(_, visit, c int) float64 {
		if c == 1 && visit == 0 {
			return 1.08
		}
		return 1
	}))
	if !failedGate(c, OrderGate, "% between the first trials of a block and −0.") {
		t.Errorf("verdict %s, gates %v", c.Verdict, c.Gates)
	}
	// What both do alike is cancelled by the mirrored order, and told where
	// it is large.
	c = only(t, drawnRun(2, 26, func(_, visit, c int) float64 {
		return []float64{1.4, 1}[visit] * []float64{1, 1.05}[c]
	}))
	if c.Verdict != Worse || len(c.Gates) > 0 || !strings.Contains(strings.Join(c.Warnings, "\n"), "still warming up") {
		t.Errorf("both warm up: verdict %s, gates %v, warnings %q", c.Verdict, c.Gates, c.Warnings)
	}
	// Two sizes of one verdict are no two verdicts.
	c = only(t, drawnRun(3, 26, func(_, visit, c int) float64 {
		return []float64{1, []float64{1.3, 1.2}[visit]}[c]
	}))
	if c.Verdict != Worse {
		t.Errorf("worse at each visit: verdict %s, gates %v", c.Verdict, c.Gates)
	}
}

// A difference that is another one from some block on has no one number.
func TestADifferenceThatChanges(t *testing.T) {
	d := drawnRun(4, 26, func(b, _, c int) float64 {
		if c == 1 && b >= 6 {
			return 1.1
		}
		return 1
	})
	d.Looks, d.Alphas = []int{14, 26}, []float64{.02, .03}
	c := only(t, d)
	if !failedGate(c, ChangeGate, "before block 7 of 26, and +") {
		t.Errorf("verdict %s after %d, gates %v", c.Verdict, c.Blocks, c.Gates)
	}
	// A machine that becomes slower is slower for both.
	c = only(t, drawnRun(5, 26, func(b, _, c int) float64 {
		return []float64{1, 1.05}[c] * []float64{1, 1.3}[min(b/6, 1)]
	}))
	if c.Verdict != Worse || len(c.Gates) > 0 {
		t.Errorf("a slower machine: verdict %s, gates %v", c.Verdict, c.Gates)
	}
}

// The place of a change of the machine is reported once enough blocks show it.
func TestAChangeOfBothIsTold(t *testing.T) {
	d := drawnRun(6, 26, func(b, _, c int) float64 {
		return []float64{1, 1.021}[c] * []float64{1, 1.3}[min(b/6, 1)]
	})
	d.Looks, d.Alphas = []int{12, 26}, []float64{.02, .03}
	c := only(t, d)
	if !strings.Contains(strings.Join(c.Warnings, "\n"), "values of both sides changed by +") ||
		!strings.Contains(strings.Join(c.Warnings, "\n"), "from block 7 on") {
		t.Errorf("warnings %q", c.Warnings)
	}
}

// A table from elsewhere in which b always came after a has no verdict on what
// an order may do; in drawn orders it has, and so it has where orders are
// known to have been drawn.
func TestOneOrderIsNone(t *testing.T) {
	table := func(value float64, turn func(b int) int) Comparison {
		var in strings.Builder
		fmt.Fprintln(&in, "block,position,contender,workload,metric,unit,better,value")
		r := rand.New(rand.NewPCG(8, 8))
		for b := range 18 {
			for i := range 2 {
				c := (i + turn(b)) % 2
				v := []float64{1, value}[c] * math.Exp(.003*r.NormFloat64())
				fmt.Fprintf(&in, "%d,%d,%c,w,time,s,lower,%g\n", b, i, 'a'+c, v)
			}
		}
		rs, err := ReadTable(strings.NewReader(in.String()), "t.csv", TableOptions{Baseline: "a", Margin: .02})
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Comparisons[0]
	}
	same := func(int) int { return 0 }
	if c := table(1.05, same); !failedGate(c, OrderGate, "a ran before b in all 18 blocks") {
		t.Errorf("one order: verdict %s, gates %v", c.Verdict, c.Gates)
	}
	if c := table(1.05, func(b int) int { return b * b % 3 }); c.Verdict != Worse {
		t.Errorf("several orders: verdict %s, gates %v", c.Verdict, c.Gates)
	}
	if c := table(2, same); c.Verdict != Worse {
		t.Errorf("twice the time: verdict %s, gates %v", c.Verdict, c.Gates)
	}
}

// Where nothing is unsteady, each of the two gates takes its level of runs at
// most, whatever the noise and whether or not there is a difference.
func TestSteadyRunsPass(t *testing.T) {
	runs := times(400)
	for i, f := range noise.Families {
		for _, effect := range []float64{0, .02} {
			r := rand.New(rand.NewPCG(uint64(i), 17))
			gated := map[string]int{}
			for range runs {
				for _, g := range Analyse(replay(f, r, 18, [][]float64{{effect}})).Comparisons[0].Gates {
					gated[g.Name]++
				}
			}
			for name, n := range gated {
				if p := steadyAlpha; float64(n) > float64(runs)*p+4*math.Sqrt(float64(runs)*p*(1-p))+1 {
					t.Errorf("%s, %v: %d of %d fail %s", f.Name, effect, n, runs, name)
				}
			}
		}
	}
}
