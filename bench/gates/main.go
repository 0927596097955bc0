// Command gates measures the effect of the gates' bounds: how often a gate fails if
// nothing is wrong, and how often it detects a real problem.
//
//	go run ./bench/gates                  seeded replays, the same on every machine
//	go run ./bench/gates -live 50         real trials on this machine as well
//	go run ./bench/gates -run FOLDER      the trials of a run only
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/noise"
	"bakeoff/judge/stats"
	"bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload/loops"
	"bakeoff/reach/agent"
	"bakeoff/reach/wire"
)

func main() {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, loops.All()))
	}
	replays := flag.Int("replays", 2000, "replays per cell")
	seed := flag.Uint64("seed", 1, "seed of the noise")
	live := flag.Int("live", 0, "real trials of each workload on this machine")
	of := flag.String("run", "", "count the failed gates in the trials of this run `folder` only")
	flag.Parse()
	if *replays < 1 || *live < 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "gates: -replays must be positive, -live must not be negative, and there are no arguments")
		os.Exit(2)
	}
	s := study{replays: *replays, seed: *seed, out: os.Stdout}
	if *of != "" {
		if err := s.printFolder(*of); err != nil {
			fmt.Fprintln(os.Stderr, "gates:", err)
			os.Exit(1)
		}
		return
	}
	s.printSteady()
	s.unsteady()
	s.printTrends()
	s.printStalls()
	if *live > 0 {
		if err := s.undisturbed(*live); err != nil {
			fmt.Fprintln(os.Stderr, "gates:", err)
			os.Exit(1)
		}
	}
}

// study holds what all tables share.
type study struct {
	replays int
	seed    uint64
	out     io.Writer
}

// printTable prints aligned rows under a header.
func (s study) printTable(title string, head []string, rows [][]string) {
	fmt.Fprintf(s.out, "\n%s\n\n", title)
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{head}, rows...) {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush()
}

// shareText formats a share in percent with its 95 % interval.
func shareText(k, n int) string {
	lo, hi := stats.ClopperPearson(k, n, 0.95)
	return fmt.Sprintf("%.1f (%.1f–%.1f)", 100*float64(k)/float64(n), 100*lo, 100*hi)
}

// blocks is the number of blocks of a replay: all looks of the default design.
const blocks = 18

// effect is the true log difference at a block and visit.
type effect func(block, visit int) float64

// runData returns the data of one run of mirrored blocks in random orders.
func runData(f noise.Family, r *rand.Rand, e effect) analysis.Data {
	metric := sample.Metric{Name: "time", Unit: "s", Better: sample.Lower, Primary: true, Scale: sample.Ratio}
	d := analysis.Data{Run: "replay", Baseline: "a", Margin: 0.02, Looks: analysis.DefaultLooks,
		Alphas: analysis.DefaultAlphas,
		Scope:  analysis.ScopeMachine, Trials: 2,
		Contenders: []analysis.Contender{{Name: "a"}, {Name: "b"}},
		Cells:      []analysis.Cell{{Name: "k", Workload: "w", Metrics: []sample.Metric{metric}}}}
	n := f.Start(r)
	for b := range blocks {
		instance := [2]float64{n.Instance(), n.Instance()}
		first := r.IntN(2)
		for i, c := range []int{first, 1 - first, 1 - first, first} {
			level := instance[c] + float64(c)*e(b, i/2)
			d.Observations = append(d.Observations, analysis.Observation{Block: b, Position: i,
				Contender: d.Contenders[c].Name, Cell: "k",
				Values: []sample.Value{{Metric: "time", Unit: "s", Value: math.Exp(n.Trial(level, i))}}})
		}
	}
	return d
}

// outcome counts the outcomes of replays.
type outcome struct {
	order, change, decided int
}

func (s study) replayGates(f noise.Family, salt uint64, e effect) (o outcome) {
	r := rand.New(rand.NewPCG(s.seed, salt))
	for range s.replays {
		c := analysis.Analyse(runData(f, r, e)).Comparisons[0]
		for _, g := range c.Gates {
			switch g.Name {
			case analysis.OrderGate:
				o.order++
			case analysis.ChangeGate:
				o.change++
			}
		}
		if c.Verdict != analysis.Inconclusive {
			o.decided++
		}
	}
	return o
}

// printSteady prints how often the gates of a comparison fail at the end of runs in which
// nothing depends on the order and nothing changes.
func (s study) printSteady() {
	var rows [][]string
	for i, f := range noise.Families {
		row := []string{f.Name}
		for _, true := range []float64{0, 0.02, 0.05} {
			e := math.Log1p(true)
			o := s.replayGates(f, uint64(i), func(int, int) float64 { return e })
			row = append(row, shareText(o.order, s.replays), shareText(o.change, s.replays))
		}
		rows = append(rows, row)
	}
	s.printTable(fmt.Sprintf("False gating: percent of steady runs that end gated (95 %% interval), %d replays a cell",
		s.replays),
		[]string{"noise", "order, A/A", "change, A/A", "order, 2 %", "change, 2 %", "order, 5 %", "change, 5 %"}, rows)
}

// unsteady prints how often the gates fail if something is wrong, and how often there
// is a verdict nevertheless.
func (s study) unsteady() {
	var rows [][]string
	add := func(what string, e effect) {
		o := s.replayGates(noise.Reference, 1000+uint64(len(rows)), e)
		rows = append(rows, []string{what, shareText(o.order, s.replays), shareText(o.change, s.replays),
			shareText(o.decided, s.replays)})
	}
	for _, p := range []float64{0.03, 0.05, 0.10, 0.20} {
		l := math.Log1p(p)
		add(fmt.Sprintf("%.0f %% in the first trial of a block, 0 in the last", 100*p),
			func(_, v int) float64 { return l * float64(1-v) })
	}
	for _, p := range []float64{0.03, 0.05, 0.10, 0.20} {
		l := math.Log1p(p)
		for _, at := range []int{4, 6} {
			add(fmt.Sprintf("0 before block %d, %.0f %% from it on", at+1, 100*p), func(b, _ int) float64 {
				if b < at {
					return 0
				}
				return l
			})
		}
	}
	s.printTable(fmt.Sprintf("Detection: percent of unsteady runs, reference noise, %d replays a cell", s.replays),
		[]string{"what is wrong", "gated: order", "gated: change", "a verdict"}, rows)
}

// printTrends prints how often the gate on trends inside trials fails.
func (s study) printTrends() {
	gate := func(windows []float64) bool {
		t := evidence.Trial{Line: store.Line{Trial: &store.Trial{}}, Cell: plan.Cell{},
			Work: &wire.Result{Windows: windows, Check: wire.Check{Verified: true}}}
		return failsGate(t, "trend")
	}
	var rows [][]string
	for _, sd := range []float64{0.03, 0.10, 0.30} {
		row := []string{fmt.Sprintf("%.0f %%", 100*sd)}
		for _, step := range []float64{0, 0.10, 0.20, 0.30, 0.50} {
			r := rand.New(rand.NewPCG(s.seed, uint64(1000*sd+100*step)))
			found := 0
			for range s.replays {
				w := make([]float64, 16)
				for i := range w {
					w[i] = math.Exp(sd * r.NormFloat64())
					if i >= 6 {
						w[i] *= 1 + step
					}
				}
				if gate(w) {
					found++
				}
			}
			row = append(row, shareText(found, s.replays))
		}
		rows = append(rows, row)
	}
	s.printTable("Trend inside a trial: percent of trials gated, 16 slices, a step after 6 of them",
		[]string{"noise of a slice", "steady", "+10 %", "+20 %", "+30 %", "+50 %"}, rows)
}
