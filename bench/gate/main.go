// Command gate measures how often the recipe for CI of docs/guides/ci.md fails a build that
// it must pass, and passes one that it must fail.
//
//	make build
//	go run ./bench/gate [-rounds 20] [-budget 20s] [-bakeoff ./bakeoff] [-busy 0]
//
// It builds a program twice. The second build does 0, 3, 5.5 or 10 % more of the same work,
// and the recipe tolerates 5 %. The changes run in an order that is drawn from a seed. With
// -busy it keeps that many threads busy, so that the machine has a load.
//
// It needs root. Twenty rounds take about twenty minutes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"bakeoff/base/fault"
	"bakeoff/bench/start"
)

// The exit codes of the recipe, as docs/guides/ci.md has them.
const (
	passes    = 0
	fails     = 3
	undecided = 6
)

// whole is the work of the first build, in units of the subject.
const whole = 1000

// changes are how much more work the second build does, in units.
var changes = []int{0, 30, 55, 100}

func main() {
	rounds := flag.Int("rounds", 20, "how often each change is measured")
	budget := flag.Duration("budget", 20*time.Second, "budget of a run")
	program := flag.String("bakeoff", "./bakeoff", "the program, with bakeoff-agent beside it")
	busy := flag.Int("busy", 0, "threads that are kept busy")
	seed := flag.Uint64("seed", 1, "seed of the order")
	flag.Parse()
	start.Main("bench/gate", func(ctx context.Context) error {
		for range *busy {
			go func() {
				for ctx.Err() == nil {
				}
			}()
		}
		return runGate(ctx, *rounds, *budget, *program, rand.New(rand.NewPCG(*seed, 0)))
	})
}

// tally counts how the runs of one change ended.
type tally struct {
	codes map[int]int
	took  []time.Duration
}

func runGate(ctx context.Context, rounds int, budget time.Duration, program string, rnd *rand.Rand) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bakeoff-gate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildSubject(ctx, filepath.Join(dir, "old"), whole); err != nil {
		return err
	}
	seen := map[int]*tally{}
	for _, more := range changes {
		if err := buildSubject(ctx, filepath.Join(dir, "new-"+strconv.Itoa(more)), whole+more); err != nil {
			return err
		}
		seen[more] = &tally{codes: map[int]int{}}
	}
	before := loadAverage()
	for i := range rounds {
		for _, k := range rnd.Perm(len(changes)) {
			more := changes[k]
			code, took, err := runRecipe(ctx, program, dir, "./new-"+strconv.Itoa(more), budget)
			if err != nil {
				return err
			}
			seen[more].codes[code]++
			seen[more].took = append(seen[more].took, took)
			fmt.Fprintf(os.Stderr, "round %d of %d: %s more work, exit code %d after %v\n", i+1, rounds, percent(more), code,
				took.Round(time.Second))
		}
	}
	fmt.Printf("tolerance 5 %%, budget %v, load %s before and %s after\n\n", budget, before, loadAverage())
	printTally(seen)
	return nil
}

// buildSubject builds the subject with so much work.
func buildSubject(ctx context.Context, out string, units int) error {
	c := exec.CommandContext(ctx, "go", "build", "-ldflags", "-X main.units="+strconv.Itoa(units), "-o", out,
		"./bench/gate/subject")
	c.Stderr = os.Stderr
	return fault.Op("build the subject", c.Run())
}

// runRecipe runs the recipe of docs/guides/ci.md once.
func runRecipe(ctx context.Context, program, dir, build string, budget time.Duration) (code int, took time.Duration,
	err error) {
	c := exec.CommandContext(ctx, program, "try", "-c", "./old", "-c", build, "--metric", "cpu", "--margin", "5%",
		"--budget", budget.String(), "--fail-on", "worse-than-margin,failed")
	c.Dir = dir
	began := time.Now()
	out, err := c.CombinedOutput()
	took = time.Since(began)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		code, err = ended.ExitCode(), nil
	}
	if !slices.Contains([]int{passes, fails, undecided}, code) {
		err = fmt.Errorf("bakeoff try: exit code %d\n%s", code, out)
	}
	return code, took, err
}

func printTally(seen map[int]*tally) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "more work\tfails (3)\tpasses (0)\tnot decided (6)\tmedian time\tlongest")
	for _, more := range changes {
		t := seen[more]
		slices.Sort(t.took)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%v\n", percent(more), t.codes[fails], t.codes[passes],
			t.codes[undecided], t.took[len(t.took)/2].Round(time.Second), t.took[len(t.took)-1].Round(time.Second))
	}
	w.Flush()
}

func percent(units int) string { return fmt.Sprintf("%g %%", 100*float64(units)/whole) }

// loadAverage is the load average of one minute.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return cmp.Or(first, "unknown")
}
