// Command overhead measures what bakeoff itself costs, side by side in one run:
//
//   - the share of a run's wall time that is spent neither in trials nor in creating
//     and preparing environments,
//   - the throughput of a workload through bakeoff compared with the same binary run
//     by hand on the same CPU, in mirrored pairs,
//   - the controller's peak memory,
//   - the time to analyze 1,000,000 samples.
//
// It needs root, and what examples/quick needs: go run ./bench/overhead.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/bench/mirror"
	"bakeoff/bench/start"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/store"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/host"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

func main() {
	lab := flag.String("lab", "examples/quick", "lab whose overhead to measure")
	budget := flag.Duration("budget", 2*time.Minute, "budget of the run")
	pairs := flag.Int("blocks", 24, "number of mirrored blocks of a workload by hand and through bakeoff")
	flag.Parse()
	start.Main("overhead", func(ctx context.Context) error {
		return measure(ctx, *lab, *budget, *pairs)
	})
}

func measure(ctx context.Context, lab string, budget time.Duration, pairs int) error {
	dir, err := os.MkdirTemp("", "bakeoff-overhead-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"bakeoff", "bakeoff-agent"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(dir, name), "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", name, err, out)
		}
	}
	analyse()
	if err := byHand(ctx, filepath.Join(dir, "bakeoff-agent"), dir, pairs); err != nil {
		return err
	}
	return shareOfTime(ctx, filepath.Join(dir, "bakeoff"), lab, budget, filepath.Join(dir, "runs"))
}

// analyse times the analysis of a million samples: 26 mirrored blocks of 8 contenders on
// as many cells as needed.
func analyse() {
	const contenders, blocks, samples = 8, 26, 1_000_000
	cells := samples / (contenders * blocks * 2)
	rng := rand.New(rand.NewPCG(1, 2))
	d := analysis.Data{Baseline: "c0", Margin: 0.02, Looks: []int{8, 12, 18, 26},
		Alphas: []float64{.01, .01, .015, .015}, Scope: analysis.ScopeMachine}
	for c := range contenders {
		d.Contenders = append(d.Contenders, analysis.Contender{Name: "c" + strconv.Itoa(c)})
	}
	metric := sample.Metric{Name: "throughput", Unit: "op/s", Better: sample.Higher, Scale: sample.Ratio}
	for k := range cells {
		m := metric
		m.Primary = k < 4
		d.Cells = append(d.Cells, analysis.Cell{Name: "k" + strconv.Itoa(k), Metrics: []sample.Metric{m}})
	}
	n := 0
	for b := range blocks {
		for k := range cells {
			for p := range 2 * contenders {
				c := min(p, 2*contenders-1-p)
				d.Observations = append(d.Observations, analysis.Observation{Block: b, Position: n % (2 * contenders * cells),
					Contender: d.Contenders[c].Name, Cell: d.Cells[k].Name,
					Values: []sample.Value{{Metric: "throughput", Unit: "op/s", Value: 1000 * math.Exp(0.02*rng.NormFloat64())}}})
				n++
			}
		}
	}
	start := time.Now()
	r := analysis.Analyse(d)
	fmt.Printf("analysis of %d samples: %.2f s (%d comparisons; target: at most 1 s)\n", n, time.Since(start).Seconds(),
		len(r.Comparisons))
}

// byHand runs the same binary with the same arguments through the host driver and
// directly, pinned to the same CPU, in mirrored pairs.
func byHand(ctx context.Context, program, dir string, pairs int) error {
	drv := host.Driver{}
	manager, err := env.Open(ctx, env.Config{StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"),
		Host: local.Conn{}, Agent: program, Run: "overhead"}, []driver.Driver{drv})
	if err != nil {
		return err
	}
	defer manager.Close(context.WithoutCancel(ctx))
	lease, err := manager.Lease(ctx, drv, manifest.Contender{Name: "host", Driver: "host", CPUs: 1,
		Memory: 256 * unit.MiB}, driver.Image{})
	if err != nil {
		return err
	}
	defer lease.Return(context.WithoutCancel(ctx))
	args := []string{"work", "crypto", "--json", "algorithm=sha256", "block=16KiB", "time=300ms"}
	through := func() (float64, error) {
		var out conn.Tail
		out.Limit = 1 << 20
		exit, err := lease.Exec(ctx, conn.Cmd{Argv: append([]string{lease.Info().Agent}, args...), Stdout: &out})
		if err != nil {
			return 0, err
		}
		if !exit.OK() {
			return 0, fmt.Errorf("through bakeoff: %v", exit)
		}
		return throughput(out.Bytes())
	}
	cpu := strconv.Itoa(lease.CPUSet[0])
	alone := func() (float64, error) {
		out, err := exec.CommandContext(ctx, "taskset", append([]string{"-c", cpu, program}, args...)...).Output()
		if err != nil {
			return 0, fmt.Errorf("by hand: %w", err)
		}
		return throughput(out)
	}
	e, err := mirror.Blocks(pairs, rand.New(rand.NewPCG(3, 4)), func(_ int, bakeoff bool) (float64, error) {
		if bakeoff {
			return through()
		}
		return alone()
	})
	if err != nil {
		return err
	}
	fmt.Printf("sha256 through bakeoff / by hand: %s (target: within ±0.5 %%)\n", mirror.Text(e, 4, pairs, "blocks"))
	return nil
}

func throughput(b []byte) (float64, error) {
	var r wire.Result
	if err := json.Unmarshal(b, &r); err != nil {
		return 0, err
	}
	for _, v := range r.Values {
		if v.Metric == "throughput" {
			return v.Value, nil
		}
	}
	return 0, fmt.Errorf("the loop reported no throughput")
}

// shareOfTime runs a lab and reads from its journal how the time was spent.
func shareOfTime(ctx context.Context, program, lab string, budget time.Duration, out string) error {
	cmd := exec.CommandContext(ctx, program, "run", lab, "--out", out, "--budget", budget.String(), "--seed", "1")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var peak int64
	var err error
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-time.After(250 * time.Millisecond):
			peak = max(peak, highWater(cmd.Process.Pid))
		}
	}
	if code := cmd.ProcessState.ExitCode(); err != nil && code != 4 {
		return fmt.Errorf("run %s: %w: %s", lab, err, log.Bytes())
	}
	runs, err := filepath.Glob(filepath.Join(out, "*", store.JournalFile))
	if err != nil || len(runs) != 1 {
		return fmt.Errorf("run %s left %d journals: %s", lab, len(runs), log.Bytes())
	}
	f, err := os.Open(runs[0])
	if err != nil {
		return err
	}
	defer f.Close()
	lines, _, err := store.ReadJournal(f)
	if err != nil {
		return err
	}
	printReport(lines, peak)
	return nil
}

// printReport prints how the wall time from the first creation to the end of the last block
// was spent.
func printReport(lines []store.Line, peak int64) {
	var first, last time.Time
	var trials, creations time.Duration
	blocks, n := 0, 0
	for _, l := range lines {
		switch l.Type {
		case store.LineEnvironment:
			d := time.Duration(l.CreateNS + l.PrepareNS)
			creations += d
			if first.IsZero() && d > 0 {
				first = l.At.Add(-d)
			}
		case store.LineTrial:
			trials += l.End.Sub(l.Start)
			n++
		case store.LineBlock:
			last = l.At
			blocks++
		}
	}
	wall := last.Sub(first)
	rest := wall - trials - creations
	fmt.Printf("%d blocks, %d trials in %.1f s: %.1f s in trials, %.1f s creating and preparing environments\n", blocks,
		n, wall.Seconds(), trials.Seconds(), creations.Seconds())
	fmt.Printf("outside both: %.1f %% of the wall time, %.0f ms a trial (target: at most 10 %%)\n",
		100*rest.Seconds()/wall.Seconds(), 1000*rest.Seconds()/float64(max(n, 1)))
	if peak > 0 {
		fmt.Printf("peak memory of the controller: %.1f MiB (target: at most 64)\n", float64(peak)/(1<<20))
	} else {
		fmt.Println("peak memory of the controller: unavailable on", runtime.GOOS)
	}
}

// highWater returns the peak resident memory of a process in bytes, 0 if unknown.
func highWater(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}
	return 0
}
