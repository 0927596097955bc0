// Command try compares bakeoff try with hyperfine on the bare host: the medians that
// both measure of a command of 5 ms and of one of 500 ms, and how long each takes to say
// whether two commands differ, where one takes 5 % longer and where they are the same.
//
//	make build
//	go run ./bench/try [-rounds 6] [-bakeoff ./bakeoff]
//
// The two programs run in turn, in an order that is drawn from a seed. hyperfine runs
// with its defaults, but without a shell. It compares nothing itself: as in
// bench/statistics, its two commands are called different if Welch's t-test at 5 % says
// so. hyperfine sends what a command prints to /dev/null, where some programs do less
// work; bakeoff reads it. A further measurement, by hyperfine with --output=pipe, shows
// how much of the difference of the medians that is. The few rounds here show how long a
// decision takes. How often a decision is wrong is in docs/method/statistics.md, from
// thousands of replays.
//
// It needs root, hyperfine and mawk. Six rounds take about eight minutes; fewer give no
// interval.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/bench/mirror"
	"bakeoff/bench/start"
	"bakeoff/judge/analysis"
	"bakeoff/judge/stats"
)

// slower is how much longer the second command takes if the two differ.
const slower = 1.05

func main() {
	rounds := flag.Int("rounds", 6, "number of times that both programs measure everything")
	program := flag.String("bakeoff", "./bakeoff", "the program, with bakeoff-agent beside it")
	seed := flag.Uint64("seed", 1, "seed of the order")
	flag.Parse()
	start.Main("bench/try", func(ctx context.Context) error {
		return runBenchmark(ctx, *rounds, *program, rand.New(rand.NewPCG(*seed, 0)))
	})
}

func runBenchmark(ctx context.Context, rounds int, program string, rnd *rand.Rand) error {
	if rounds < 1 || flag.NArg() > 0 {
		return fault.New(fault.Invalid, "usage: try [-rounds N] [-bakeoff PATH], with at least one round")
	}
	for name, fix := range map[string]string{"hyperfine": "apt-get install hyperfine", "mawk": "apt-get install mawk",
		program: "make build"} {
		if _, err := exec.LookPath(name); err != nil {
			return fault.WithFix(fault.New(fault.Unsupported, "%s is missing", name), fix)
		}
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{dir: dir, bakeoff: program}
	for _, length := range []time.Duration{5 * time.Millisecond, 500 * time.Millisecond} {
		n, err := calibrate(ctx, length)
		if err != nil {
			return err
		}
		for _, ratio := range []float64{slower, 1} {
			if err := b.compare(ctx, length, n, ratio, rounds, rnd); err != nil {
				return err
			}
		}
	}
	return nil
}

// loopCommand is a command that does n additions.
func loopCommand(n int) []string {
	return []string{"mawk", fmt.Sprintf("BEGIN{for(i=0;i<%d;i++)x+=i}", n)}
}

// calibrate returns how many additions take the length, beside the start of the
// program: the difference of two numbers, each at its fastest of several runs.
func calibrate(ctx context.Context, length time.Duration) (int, error) {
	fastest := func(n int) (time.Duration, error) {
		least := time.Duration(math.MaxInt64)
		for range 10 {
			argv := loopCommand(n)
			start := time.Now()
			if err := exec.CommandContext(ctx, argv[0], argv[1:]...).Run(); err != nil {
				return 0, err
			}
			least = min(least, time.Since(start))
		}
		return least, nil
	}
	const few, many = 1, 1_000_000
	start, err := fastest(few)
	if err != nil {
		return 0, err
	}
	end, err := fastest(many)
	if err != nil {
		return 0, err
	}
	per := float64(end-start) / (many - few)
	if per <= 0 || length <= start {
		return 0, fault.New(fault.Lab, "the loop takes %v for %d and %v for %d additions: no length can be chosen", start,
			few,
			end, many)
	}
	return int(float64(length-start) / per), nil
}

// bench is what all comparisons share.
type bench struct {
	dir, bakeoff string
}

// measured is what a program said of two commands.
type measured struct {
	took      time.Duration // until it said it
	medians   [2]float64    // seconds
	runs      int           // of both commands
	different bool          // it called them different
	verdict   string
}

// compare lets both programs measure two commands of a length, the second of which takes
// ratio times as long.
func (b bench) compare(ctx context.Context, length time.Duration, n int, ratio float64,
	rounds int, rnd *rand.Rand) error {
	commands := [2][]string{loopCommand(n), loopCommand(int(float64(n) * ratio))}
	fmt.Printf("mawk, %v, and a second command with %.3g times the work\n\n", length, ratio)
	fmt.Printf("%6s  %-9s %9s %6s %12s %12s  %s\n", "round", "program", "time", "runs", "first", "second", "answer")
	var took [2]float64
	var different [2]int
	var medians, piped []float64
	for round := range rounds {
		var got [2]measured
		for _, i := range rnd.Perm(2) {
			measure, name := b.hyperfine, "hyperfine"
			if i == 1 {
				measure, name = b.measureByTry, "bakeoff"
			}
			m, err := measure(ctx, commands)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			got[i] = m
			took[i] += m.took.Seconds()
			if m.different {
				different[i]++
			}
			fmt.Printf("%6d  %-9s %7.1f s %6d %9.3f ms %9.3f ms  %s\n", round+1, name, m.took.Seconds(), m.runs,
				1e3*m.medians[0], 1e3*m.medians[1], m.verdict)
		}
		medians = append(medians, math.Log(got[1].medians[0]/got[0].medians[0]))
		times, err := b.hyperfineTimes(ctx, "pipe", commands[0])
		if err != nil {
			return fmt.Errorf("hyperfine: %w", err)
		}
		piped = append(piped, math.Log(got[1].medians[0]/stats.Median(times[0])))
	}
	e := stats.HodgesLehmann(medians, 0.95)
	fmt.Printf("\nmedian of the first command, bakeoff / hyperfine: %s\n", mirror.Text(e, 3, rounds, "rounds"))
	e = stats.HodgesLehmann(piped, 0.95)
	fmt.Printf("the same, bakeoff / hyperfine --output=pipe: %s\n", mirror.Text(e, 3, rounds, "rounds"))
	fmt.Printf("time to the answer, bakeoff / hyperfine: %.2f (%.1f s and %.1f s a round)\n", took[1]/took[0],
		took[1]/float64(rounds), took[0]/float64(rounds))
	fmt.Printf("called different: bakeoff %d, hyperfine with Welch's t-test %d of %d\n\n",
		different[1], different[0], rounds)
	return nil
}

// hyperfine measures both commands with hyperfine, and compares its times.
func (b bench) hyperfine(ctx context.Context, commands [2][]string) (m measured, err error) {
	start := time.Now()
	times, err := b.hyperfineTimes(ctx, "null", commands[0], commands[1])
	if err != nil {
		return m, err
	}
	m.took = time.Since(start)
	for i, t := range times {
		m.medians[i] = stats.Median(t)
		m.runs += len(t)
	}
	p := stats.WelchP(times[0], times[1])
	m.different = p < 0.05
	m.verdict = "p = " + strconv.FormatFloat(p, 'g', 2, 64)
	return m, nil
}

// hyperfineTimes returns the times in seconds that hyperfine measures of each command.
// output is where hyperfine sends what the commands print: null or pipe.
func (b bench) hyperfineTimes(ctx context.Context, output string, commands ...[]string) (times [][]float64, err error) {
	file := filepath.Join(b.dir, "hyperfine.json")
	args := []string{"--shell=none", "--style=none", "--output", output, "--export-json", file}
	for _, c := range commands {
		args = append(args, fmt.Sprintf("%s '%s'", c[0], c[1]))
	}
	if out, err := exec.CommandContext(ctx, "hyperfine", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var said struct {
		Results []struct {
			Times []float64 `json:"times"`
		} `json:"results"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, err
	}
	if len(said.Results) != len(commands) {
		return nil, fmt.Errorf("%d results of %d commands", len(said.Results), len(commands))
	}
	for _, r := range said.Results {
		times = append(times, r.Times)
	}
	return times, nil
}

// measureByTry measures the commands with bakeoff try.
func (b bench) measureByTry(ctx context.Context, commands [2][]string) (m measured, err error) {
	args := []string{"try", "--json"}
	for i, c := range commands {
		args = append(args, "-n", []string{"first", "second"}[i], "-c", fmt.Sprintf("%s '%s'", c[0], c[1]))
	}
	c := exec.CommandContext(ctx, b.bakeoff, args...)
	c.Dir = b.dir
	var errs bytes.Buffer
	c.Stderr = &errs
	start := time.Now()
	out, err := c.Output()
	m.took = time.Since(start)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return m, err
	}
	var r analysis.Results
	if jerr := json.Unmarshal(out, &r); jerr != nil {
		return m, fmt.Errorf("%w: %w: %s", err, jerr, errs.Bytes())
	}
	for i, name := range []string{"first", "second"} {
		k := slices.IndexFunc(r.Summaries, func(s analysis.Summary) bool { return s.Contender == name && s.Median != nil })
		if k < 0 {
			return m, fmt.Errorf("the median of %s is missing: %s", name, errs.Bytes())
		}
		m.medians[i] = *r.Summaries[k].Median
		m.runs += r.Summaries[k].N
	}
	k := slices.IndexFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Contender == "second" && c.Primary })
	if k < 0 {
		return m, fmt.Errorf("nothing was compared: %s", errs.Bytes())
	}
	m.verdict = string(r.Comparisons[k].Verdict)
	m.different = m.verdict == string(analysis.Better) || m.verdict == string(analysis.Worse)
	return m, nil
}
