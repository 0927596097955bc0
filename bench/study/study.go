// Package study is the frame of programs that print tables of seeded replays.
package study

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

	"bakeoff/base/lists"
)

// Study holds what all tables of a program share.
type Study struct {
	Replays int    // of a cell
	Seed    uint64 // of the noise
	Out     io.Writer
}

// Table is a table that a program can print.
type Table struct {
	Name  string
	Print func(Study)
}

// Main reads the flags of a program and prints its tables, or the one of --only.
func Main(program string, replays int, tables ...Table) {
	s := Study{Out: os.Stdout}
	names := lists.Map(tables, func(t Table) string { return t.Name })
	last := len(names) - 1
	list := strings.Join(names[:last], ", ") + " or " + names[last]
	flag.IntVar(&s.Replays, "replays", replays, "replays per cell")
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the noise")
	only := flag.String("only", "", "print one table only: "+list)
	flag.Parse()
	fail := func(text string) {
		fmt.Fprintln(os.Stderr, program+": "+text)
		os.Exit(2)
	}
	if s.Replays < 1 || flag.NArg() > 0 {
		fail("-replays must be positive, and there are no arguments")
	}
	known := *only == ""
	for _, t := range tables {
		if *only == "" || *only == t.Name {
			known = true
			t.Print(s)
		}
	}
	if !known {
		fail(fmt.Sprintf("unknown table %q; use %s", *only, list))
	}
}

// Table begins a table: its title and the heads of its columns.
func (s Study) Table(title string, columns ...string) *tabwriter.Writer {
	fmt.Fprintf(s.Out, "\n%s (%d replays a cell, seed %d; ± is the 95 %% error of the simulation)\n\n", title, s.Replays,
		s.Seed)
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns, "\t"))
	return w
}

// Sum runs one replay many times, each with a stream of its own, on all CPUs. add sums
// outcomes, in any order.
func Sum[T, O any](s Study, one func(*rand.Rand) O, add func(*T, O)) (out T) {
	var mu sync.Mutex
	Each(s.Replays, func(i int) {
		x := one(rand.New(rand.NewPCG(s.Seed, uint64(i+1))))
		mu.Lock()
		defer mu.Unlock()
		add(&out, x)
	})
	return out
}

// Each calls f with the numbers below n, on all CPUs.
func Each(n int, f func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				f(int(i - 1))
			}
		})
	}
	workers.Wait()
}

// Percent is a share with the 95 % error of the simulation, in percent.
func Percent(k, n int) string {
	if n == 0 {
		return "–"
	}
	p := float64(k) / float64(n)
	return fmt.Sprintf("%.1f ±%.1f", 100*p, 196*math.Sqrt(p*(1-p)/float64(n)))
}
