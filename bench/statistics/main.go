// Command statistics prints the operating characteristics of bakeoff's verdicts and of
// other rules: false alarms in many kinds of noise, power, trials used, coverage,
// families. Every number comes from seeded replays and is the same on every machine.
//
//	go run ./bench/statistics -replays 20000
package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"bakeoff/bench/study"
	"bakeoff/judge/noise"
)

var percent = study.Percent

func main() {
	study.Main("statistics", 20000, study.Table{Name: "rules", Print: rulesTable},
		study.Table{Name: "power", Print: powerTable}, study.Table{Name: "families", Print: familiesTable},
		study.Table{Name: "designs", Print: designsTable}, study.Table{Name: "contrasts", Print: contrastsTable})
}

// outcome is the outcome of one replay.
type outcome struct {
	different, equivalent bool
	wrong                 bool // a false statement
	uncovered             bool // an interval that misses the true value
	trials                int
}

// total sums outcomes.
type total struct{ n, different, equivalent, wrong, uncovered, trials int }

func (t *total) addOutcome(o outcome) {
	count := func(n *int, b bool) {
		if b {
			*n++
		}
	}
	t.n++
	count(&t.different, o.different)
	count(&t.equivalent, o.equivalent)
	count(&t.wrong, o.wrong)
	count(&t.uncovered, o.uncovered)
	t.trials += o.trials
}

func (t total) meanTrials() float64 { return float64(t.trials) / float64(t.n) }

// replayed sums the outcomes of many replays.
func replayed(s study.Study, one func(*rand.Rand) outcome) total {
	return study.Sum(s, one, (*total).addOutcome)
}

// rulesTable compares decision rules: the percentage called different at a true difference of
// 0, 2 and 5 %.
func rulesTable(s study.Study) {
	w := s.Table("Called different, percent", "noise", "rule", "A/A", "2 %", "trials", "5 %", "trials")
	for _, f := range noise.Families {
		for _, r := range rules {
			if !r.everywhere && f.Name != noise.Reference.Name && f.Name != noise.First.Name {
				continue
			}
			var cells [3]total
			for i, effect := range []float64{0, math.Log(1.02), math.Log(1.05)} {
				cells[i] = replayed(s, func(rnd *rand.Rand) outcome { return r.decide(f, rnd, effect) })
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%s\t%.1f\n", f.Name, r.name,
				percent(cells[0].different, cells[0].n), percent(cells[1].different, cells[1].n), cells[1].meanTrials(),
				percent(cells[2].different, cells[2].n), cells[2].meanTrials())
		}
		w.Flush() // to show progress
	}
}

// powerTable prints bakeoff's verdicts by the size of the true difference.
func powerTable(s study.Study) {
	w := s.Table("bakeoff in the reference noise, percent", "true difference", "different", "equivalent", "wrong",
		"not covered", "trials")
	for _, e := range []float64{0, 0.005, 0.01, 0.015, 0.02, 0.0201, 0.03, 0.05, 0.10} {
		t := replayed(s, func(r *rand.Rand) outcome {
			return analysed(noise.Reference, r, standard, [][]float64{{math.Log1p(e)}})
		})
		fmt.Fprintf(w, "%.2f %%\t%s\t%s\t%s\t%s\t%.1f\n", 100*e, percent(t.different, t.n), percent(t.equivalent, t.n),
			percent(t.wrong, t.n), percent(t.uncovered, t.n), t.meanTrials())
	}
	w.Flush()
}

// familiesTable prints the family-wise rates by contenders and primary cells.
func familiesTable(s study.Study) {
	w := s.Table("Families: any false alarm, percent", "contenders", "primary cells", "truth", "false alarm",
		"any wrong statement", "blocks")
	for _, k := range []int{2, 3, 6} {
		for _, cells := range []int{1, 4} {
			for _, truth := range []string{"nothing differs", "every other differs by 5 %"} {
				if k == 2 && cells == 1 && truth != "nothing differs" {
					continue // there is no other
				}
				effects := make([][]float64, k-1)
				for i := range effects {
					effects[i] = make([]float64, cells)
					for j := range effects[i] {
						if truth != "nothing differs" && (i+j)%2 == 1 {
							effects[i][j] = math.Log(1.05)
						}
					}
				}
				t := replayed(s, func(r *rand.Rand) outcome { return analysed(noise.Reference, r, standard, effects) })
				fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%.1f\n", k, cells, truth, percent(t.different, t.n), percent(t.wrong, t.n),
					t.meanTrials()/float64(2*k))
			}
		}
	}
	w.Flush()
}

// designsTable compares designs: looks and alphas.
func designsTable(s study.Study) {
	w := s.Table("Looks and alphas in the reference noise, percent", "looks", "alphas", "A/A", "2 %", "trials", "5 %",
		"trials", "A/A trials")
	for _, d := range designs {
		var cells [3]total
		for i, effect := range []float64{0, math.Log(1.02), math.Log(1.05)} {
			cells[i] = replayed(s, func(r *rand.Rand) outcome { return analysed(noise.Reference, r, d, [][]float64{{effect}}) })
		}
		fmt.Fprintf(w, "%v\t%v\t%s\t%s\t%.1f\t%s\t%.1f\t%.1f\n", d.looks, d.alphas, percent(cells[0].different, cells[0].n),
			percent(cells[1].different, cells[1].n), cells[1].meanTrials(), percent(cells[2].different, cells[2].n),
			cells[2].meanTrials(),
			cells[0].meanTrials())
	}
	w.Flush()
}
