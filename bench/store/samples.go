package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bakeoff/judge/analysis"
	"bakeoff/lab/archive/bundle"
)

// samplesOfRun is how many samples a made-up run has.
const samplesOfRun = 10_000

// samples measures how samples are written: of all runs into one file, and a file for each
// run, as store add does.
func samples(ctx context.Context, dir string, n int) error {
	value := rand.New(rand.NewPCG(1, 2))
	cells := n / samplesOfRun
	file := filepath.Join(dir, "samples.parquet")
	if err := timed(ctx, fmt.Sprintf("%d samples into one file", n), file, func(w io.Writer) error {
		out := bundle.NewSamples(w)
		for i := range n {
			v := 1 + value.NormFloat64()/50
			run := i / samplesOfRun
			s := bundle.Sample{Run: fmt.Sprintf("20260102T030405Z-lab-%06d", run), Lab: fmt.Sprintf("lab-%02d", run%labs),
				Contender: fmt.Sprintf("contender-%d", i%5), Cell: fmt.Sprintf("cell-%d", i/5%20), Metric: "throughput",
				Unit: "B/s", Instance: fmt.Sprintf("i%d", i/100%100), Block: int32(i / 100 % 100), Position: int32(i % 100),
				Value: &v}
			if i%1000 == 999 {
				s.Value = nil
			}
			if err := out.Add(s); err != nil {
				return err
			}
		}
		return out.Close()
	}); err != nil {
		return err
	}
	return timed(ctx, fmt.Sprintf("%d samples into %d files", n, cells), filepath.Join(dir, "run.parquet"),
		func(w io.Writer) error {
			for i := range cells {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				res := analysis.Results{}
				for c := range 5 {
					for x := range 20 {
						sum := analysis.Summary{Contender: fmt.Sprintf("contender-%d", c), Cell: fmt.Sprintf("cell-%d", x),
							Metric: "throughput", Unit: "B/s"}
						for b := range 100 {
							sum.Samples = append(sum.Samples, analysis.Point{Block: b, Position: x, Instance: fmt.Sprintf("i%d", b),
								Value: 1 + value.NormFloat64()/50})
						}
						res.Summaries = append(res.Summaries, sum)
					}
				}
				rec := bundle.Record{Run: fmt.Sprintf("20260102T030405Z-lab-%06d", i), Lab: fmt.Sprintf("lab-%02d", i%labs)}
				if err := bundle.WriteSamples(w, rec, res); err != nil { // one after another: only their size counts
					return err
				}
			}
			return nil
		})
}

// timed measures writing a file.
func timed(ctx context.Context, what, file string, do func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	began, cpu := time.Now(), cpuTime()
	if err := do(f); err != nil {
		return err
	}
	took, used := time.Since(began), cpuTime()-cpu
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	fmt.Printf("%-36s %6.1f s, CPU %.1f s, file %.0f MB, memory so far at most %.0f MB\n", what, took.Seconds(),
		used.Seconds(), float64(info.Size())/1e6, float64(u.Maxrss)/1e3)
	return ctx.Err()
}
