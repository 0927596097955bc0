package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/archive/index"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

// between is the time between two runs of a site: 10,000 are of fourteen months.
const between = time.Hour

// full is an entry with all that pages and histories need.
func full(n int, rng *rand.Rand) (index.Entry, error) {
	e := entry(n, rng)
	r := &e.Record
	r.Began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * between)
	r.Ended = r.Began.Add(10 * time.Minute)
	r.Run = r.Began.Format("20060102T150405Z") + "-" + r.Lab
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
	past := r.Past(res, e.Bundle).Condensed()
	var err error
	e.Page, past.Cautions, err = runsite.Describe(*r, res)
	e.Past = &past
	return e, err
}

// site measures the site of a store.
func site(ctx context.Context, dir string, runs int) error {
	place := filepath.Join(dir, "site.sqlite")
	x, err := index.Open(ctx, place)
	if err != nil {
		return err
	}
	defer x.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	n := 0
	if err := x.Replace(ctx, nil, func() (index.Entry, bool, error) {
		if n == runs {
			return index.Entry{}, false, nil
		}
		n++
		e, err := full(n-1, rng)
		return e, true, err
	}); err != nil {
		return err
	}
	info, err := os.Stat(place)
	if err != nil {
		return err
	}
	fmt.Printf("site of %d runs; the index has %.0f MB with its pages and histories\n", runs, float64(info.Size())/1e6)
	build := func(what string) error {
		c := exec.CommandContext(ctx, os.Args[0], "-build", place+","+filepath.Join(dir, "pages"))
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return err
		}
		u, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
		if !ok {
			return errors.New("the system does not say what a process used")
		}
		cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		fmt.Printf("%-22s CPU %6.2f s, %6.2f ms a run, memory at most %3d MB; %s", what, cpu.Seconds(),
			ms(cpu)/float64(runs), u.Maxrss>>10, out)
		return nil
	}
	if err := build("first build"); err != nil {
		return err
	}
	if err := build("no change"); err != nil {
		return err
	}
	e, err := full(runs, rng)
	if err == nil {
		err = x.Add(ctx, e)
	}
	if err == nil {
		err = build("one more run")
	}
	fmt.Println()
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
	fmt.Printf("%d pages written, %.2f s\n", sum.Written, time.Since(began).Seconds())
	return err
}
