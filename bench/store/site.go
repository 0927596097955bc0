package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/archive/index"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

// full is a run with its results: an entry with all that pages and histories need.
func full(n int, rng *rand.Rand) (index.Entry, analysis.Results, error) {
	e := entry(n, rng)
	r := &e.Record
	res := analysis.Results{Schema: analysis.ResultsSchema, Rules: analysis.Rules, Run: r.Run, PlanSHA256: r.JournalSHA256,
		Baseline: r.Baseline, Margin: r.Margin, Looks: []int{12}, Alphas: []float64{.05}, Ended: r.Reason, Blocks: r.Blocks,
		Contenders: []analysis.Contender{{Name: r.Baseline, Driver: "host"}}, Twin: &analysis.Twin{Name: "host2"}}
	metric := sample.Metric{Name: "throughput", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Primary: true}
	sides, cells := map[string]bool{r.Baseline: true}, map[string]bool{}
	summary := func(contender, cell string, ratio float64) {
		s := analysis.Summary{Contender: contender, Cell: cell, Metric: metric.Name, Unit: metric.Unit, N: r.Blocks}
		for b := range r.Blocks {
			s.Samples = append(s.Samples, analysis.Point{Block: b, Value: 1e9 * ratio * (1 + rng.NormFloat64()/100)})
		}
		res.Summaries = append(res.Summaries, s)
	}
	for _, c := range r.Comparisons {
		if !sides[c.Contender] {
			sides[c.Contender] = true
			res.Contenders = append(res.Contenders, analysis.Contender{Name: c.Contender, Driver: c.Driver})
		}
		if !cells[c.Cell] {
			cells[c.Cell] = true
			res.Cells = append(res.Cells, analysis.Cell{Name: c.Cell, Workload: c.Workload, Metrics: []sample.Metric{metric}})
			summary(r.Baseline, c.Cell, 1)
		}
		summary(c.Contender, c.Cell, *c.Ratio)
		res.Comparisons = append(res.Comparisons, analysis.Comparison{Contender: c.Contender, Baseline: c.Baseline,
			Cell: c.Cell, Workload: c.Workload, Metric: c.Metric, Unit: c.Unit, Better: c.Better, Scale: c.Scale, Primary: true,
			Blocks: c.Blocks, Look: 12, Ratio: c.Ratio, CI: analysis.Interval{c.Low, c.High}, Verdict: c.Verdict,
			Scope: analysis.ScopeMachine, Gates: []analysis.Gate{}})
	}
	own := res
	own.Contenders = slices.Clone(res.Contenders) // Describe may change those of res
	past := r.Past(own, e.Bundle).Condensed()
	var err error
	e.Page, past.Cautions, err = runsite.Describe(*r, res)
	e.Past = &past
	return e, own, err
}

// site measures the site of an index. Each build is a process of its own.
func (f *figures) site(ctx context.Context, place, dir string, runs int) error {
	build := func() (cpu time.Duration, memory int64, text string, err error) {
		c := exec.CommandContext(ctx, os.Args[0], "-build", place+","+dir)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return 0, 0, "", err
		}
		u, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return 0, 0, "", errors.New("the system does not say what a process used")
		}
		cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		return cpu, u.Maxrss >> 10, strings.TrimSpace(string(out)), nil
	}
	const name = "Site"
	cpu, memory, text, err := build()
	if err != nil {
		return err
	}
	f.add(name, "first build, CPU ms a run", "%.2f", ms(cpu)/float64(runs))
	f.add(name, "first build, memory in MB", "%d", memory)
	f.add(name, "first build, pages", "%s", text)
	if cpu, memory, text, err = build(); err != nil {
		return err
	}
	f.add(name, "no change, CPU s", "%.2f", cpu.Seconds())
	f.add(name, "no change, memory in MB", "%d", memory)
	if !strings.HasPrefix(text, "0 ") {
		return fault.New(fault.Lab, "a build without a change wrote %s", text)
	}
	x, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer x.Close()
	e, _, err := full(runs+1000, rand.New(rand.NewPCG(3, 4)))
	if err == nil {
		err = x.Add(ctx, e)
	}
	if err == nil {
		cpu, memory, text, err = build()
	}
	f.add(name, "one more run, CPU s", "%.2f", cpu.Seconds())
	f.add(name, "one more run, memory in MB", "%d", memory)
	f.add(name, "one more run, pages", "%s", text)
	return err
}

// buildSite builds the site of an index, in a process of its own.
func buildSite(ctx context.Context, words string) error {
	place, dir, _ := strings.Cut(words, ",")
	x, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer x.Close()
	debug.SetGCPercent(400) // as bakeoff site build does
	debug.SetMemoryLimit(140 << 20)
	began := time.Now()
	sum, err := runsite.BuildStore(ctx, x, dir, runsite.Option{Report: report.Option{Version: "0.1.0"}})
	fmt.Printf("%d in %.2f s\n", sum.Written, time.Since(began).Seconds())
	return err
}
