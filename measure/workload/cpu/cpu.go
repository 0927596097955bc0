// Package cpu is integer arithmetic: prime numbers by trial division, as in the
// CPU test of sysbench.
package cpu

import (
	"context"
	"fmt"
	"math"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary: "Searching for prime numbers up to a limit by trial division, one search after another",
		Metrics: []sample.Metric{sample.Throughput("op/s", "searches per second; each tests every number up to max")},
		Source: []string{
			"sysbench 1.0, tests/cpu: an event tests each number from 3 to cpu-max-prime by division up to its " +
				"square root. sysbench compares each divisor with a floating-point root and does not use the count " +
				"of primes, so a compiler may remove the loop. bakeoff rounds the root once, and compares every " +
				"count with the count of a sieve",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "cpu",
		Params: []param.Spec{
			{Name: "max", Kind: param.Int, Default: "20000", Min: 3, Max: 10e6, Doc: "the largest number tested"},
			workload.TimeParam,
		},
		Run: runLoop,
	}
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	limit := uint64(p.Int("max"))
	want := sievePrimes(limit)
	return loop.Timed{
		For: p.Duration("time"),
		Do: func(n int) error {
			for range n {
				if got := countPrimes(limit); got != want {
					return loop.Mismatch(fmt.Sprintf("the number of primes up to %d", limit), got, want)
				}
			}
			return nil
		},
	}.Operations(ctx, func() (string, error) {
		return fmt.Sprint(want), nil
	})
}

// countPrimes counts the primes up to limit by dividing each number by all numbers
// up to its square root. This is the timed work: 64-bit divisions, one square
// root per number, hardly any memory access.
//
//go:noinline
func countPrimes(limit uint64) int {
	n := 1 // 2
	for c := uint64(3); c <= limit; c++ {
		root := uint64(math.Sqrt(float64(c)))
		l := uint64(2)
		for ; l <= root; l++ {
			if c%l == 0 {
				break
			}
		}
		if l > root {
			n++
		}
	}
	return n
}

// sievePrimes counts the same primes with a sieve, to verify the result.
func sievePrimes(limit uint64) int {
	composite := make([]bool, limit+1)
	n := 0
	for c := uint64(2); c <= limit; c++ {
		if composite[c] {
			continue
		}
		n++
		for m := c * c; m <= limit; m += c {
			composite[m] = true
		}
	}
	return n
}
