// Command statistics prints the operating characteristics of bakeoff's verdicts and of
// other rules: false alarms in many kinds of noise, power, trials used, coverage,
// families. Every number comes from seeded replays and is the same on every machine.
//
//	go run ./bench/statistics -replays 20000
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"

	"bakeoff/judge/noise"
)

func main() {
	replays := flag.Int("replays", 20000, "replays per cell")
	seed := flag.Uint64("seed", 1, "seed of the noise")
	only := flag.String("only", "", "print one table only: rules, power, families, designs or contrasts")
	flag.Parse()
	if *replays < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "statistics: -replays must be positive, and there are no arguments")
		os.Exit(2)
	}
	s := study{replays: *replays, seed: *seed, out: os.Stdout}
	tables := []struct {
		name  string
		print func()
	}{{"rules", s.rules}, {"power", s.power}, {"families", s.families}, {"designs", s.designs}, {"contrasts", s.contrasts}}
	known := *only == ""
	for _, t := range tables {
		if *only == "" || *only == t.name {
			known = true
			t.print()
		}
	}
	if !known {
		fmt.Fprintf(os.Stderr, "statistics: unknown table %q; use rules, power, families, designs or contrasts\n", *only)
		os.Exit(2)
	}
}

// study holds what all tables share.
type study struct {
	replays int
	seed    uint64
	out     io.Writer
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

func (t *total) add(o outcome) {
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

func percent(k, n int) string {
	p := float64(k) / float64(n)
	return fmt.Sprintf("%.1f ±%.1f", 100*p, 196*math.Sqrt(p*(1-p)/float64(n)))
}

func (t total) mean() float64 { return float64(t.trials) / float64(t.n) }

// replay runs one replay many times, each with its own stream, on all CPUs.
func (s study) replay(one func(r *rand.Rand) outcome) total {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	var out total
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var mine total
			for i := next.Add(1); i <= int64(s.replays); i = next.Add(1) {
				mine.add(one(rand.New(rand.NewPCG(s.seed, uint64(i)))))
			}
			mu.Lock()
			defer mu.Unlock()
			out.n += mine.n
			out.different += mine.different
			out.equivalent += mine.equivalent
			out.wrong += mine.wrong
			out.uncovered += mine.uncovered
			out.trials += mine.trials
		})
	}
	wg.Wait()
	return out
}

func (s study) table(title string, columns ...string) *tabwriter.Writer {
	fmt.Fprintf(s.out, "\n%s (%d replays a cell, seed %d; ± is the 95 %% error of the simulation)\n\n", title, s.replays,
		s.seed)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	return w
}

// rules compares decision rules: the percentage called different at a true difference of
// 0, 2 and 5 %.
func (s study) rules() {
	w := s.table("Called different, percent", "noise", "rule", "A/A", "2 %", "trials", "5 %", "trials")
	for _, f := range noise.Families {
		for _, r := range rules {
			if !r.everywhere && f.Name != noise.Reference.Name && f.Name != noise.First.Name {
				continue
			}
			var cells [3]total
			for i, effect := range []float64{0, math.Log(1.02), math.Log(1.05)} {
				cells[i] = s.replay(func(rnd *rand.Rand) outcome { return r.decide(f, rnd, effect) })
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f\t%s\t%.1f\n", f.Name, r.name,
				percent(cells[0].different, cells[0].n), percent(cells[1].different, cells[1].n), cells[1].mean(),
				percent(cells[2].different, cells[2].n), cells[2].mean())
		}
		w.Flush() // to show progress
	}
}

// power prints bakeoff's verdicts by the size of the true difference.
func (s study) power() {
	w := s.table("bakeoff in the reference noise, percent", "true difference", "different", "equivalent", "wrong",
		"not covered", "trials")
	for _, e := range []float64{0, 0.005, 0.01, 0.015, 0.02, 0.0201, 0.03, 0.05, 0.10} {
		t := s.replay(func(r *rand.Rand) outcome {
			return analysed(noise.Reference, r, standard, [][]float64{{math.Log1p(e)}})
		})
		fmt.Fprintf(w, "%.2f %%\t%s\t%s\t%s\t%s\t%.1f\n", 100*e, percent(t.different, t.n), percent(t.equivalent, t.n),
			percent(t.wrong, t.n), percent(t.uncovered, t.n), t.mean())
	}
	w.Flush()
}

// families prints the family-wise rates by contenders and primary cells.
func (s study) families() {
	w := s.table("Families: any false alarm, percent", "contenders", "primary cells", "truth", "false alarm",
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
				t := s.replay(func(r *rand.Rand) outcome { return analysed(noise.Reference, r, standard, effects) })
				fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%.1f\n", k, cells, truth, percent(t.different, t.n), percent(t.wrong, t.n),
					t.mean()/float64(2*k))
			}
		}
	}
	w.Flush()
}

// designs compares designs: looks and alphas.
func (s study) designs() {
	w := s.table("Looks and alphas in the reference noise, percent", "looks", "alphas", "A/A", "2 %", "trials", "5 %",
		"trials", "A/A trials")
	for _, d := range designs {
		var cells [3]total
		for i, effect := range []float64{0, math.Log(1.02), math.Log(1.05)} {
			cells[i] = s.replay(func(r *rand.Rand) outcome { return analysed(noise.Reference, r, d, [][]float64{{effect}}) })
		}
		fmt.Fprintf(w, "%v\t%v\t%s\t%s\t%.1f\t%s\t%.1f\t%.1f\n", d.looks, d.alphas, percent(cells[0].different, cells[0].n),
			percent(cells[1].different, cells[1].n), cells[1].mean(), percent(cells[2].different, cells[2].n), cells[2].mean(),
			cells[0].mean())
	}
	w.Flush()
}
