// Package calibrate is a workload that can do an exact amount of additional
// work. bakeoff calibrate tests itself with it.
package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// Rounds is the number of digests in one operation without extra work; 1 % more
// is Rounds/100.
const Rounds = 1000

// CPUThroughput is the metric that does not depend on other load of the
// machine.
const CPUThroughput = "cpu-throughput"

// Extra is a file in the scratch directory of an environment with the
// percentage of extra work that is added to each operation without being
// counted; 0 if it is missing. It is not a parameter, because all contenders
// must have the same parameters, or the trial is void.
const Extra = "bakeoff-calibrate-extra"

// maxExtra bounds Extra; more is never needed.
const maxExtra = 1000

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary: "A chain of SHA-256 digests, to which bakeoff calibrate adds an exact amount of work",
		Metrics: []sample.Metric{
			sample.Throughput("op/s", "chains per second, each computed completely"),
			sample.HigherRatio(CPUThroughput, "op/s",
				"chains per second of the thread's CPU time; time without a CPU does not count"),
		},
		Source: []string{"FIPS 180-4"},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "calibrate",
		Params: []param.Spec{
			workload.TimeParam,
		},
		Run: runLoop,
	}
}

func runLoop(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	extra, err := addedRounds(env.Dir)
	if err != nil {
		return wire.Result{}, err
	}
	rounds := Rounds + Rounds/100*extra
	first, want := digestChain(Rounds), digestChain(rounds)
	timing, err := loop.Timed{
		For: p.Duration("time"),
		Do: func(n int) error {
			for range n {
				if got := digestChain(rounds); got != want {
					return loop.Mismatch(fmt.Sprintf("digest %d of the chain", rounds), hex.EncodeToString(got[:8]),
						hex.EncodeToString(want[:8]))
				}
			}
			return nil
		},
	}.Run(ctx)
	if err != nil {
		return wire.Result{}, err
	}
	if timing.CPUSeconds == nil || !(*timing.CPUSeconds > 0) {
		return wire.Result{}, fault.New(fault.Unsupported,
			"calibrate: this system did not report a CPU time of the thread within %v", timing.Elapsed)
	}
	return timing.Result("op", wire.Check{Answer: hex.EncodeToString(first[:])}, loop.Throughput(timing.Rate(), "op/s"),
		sample.Value{Metric: CPUThroughput, Unit: "op/s", Value: timing.Work / *timing.CPUSeconds}), nil
}

// addedRounds reads the file Extra next to the loop's directory; dir may be "".
func addedRounds(dir string) (int, error) {
	if dir == "" {
		return 0, nil
	}
	file := filepath.Join(filepath.Dir(dir), Extra)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fault.Wrap(fault.Lab, "calibrate", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 16))
	if err != nil {
		return 0, fault.Wrap(fault.Lab, "calibrate", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 || n > maxExtra {
		return 0, fault.New(fault.Invalid, "calibrate: %s must contain a percentage from 0 to %[3]d (got %[2]q)", file,
			text, maxExtra)
	}
	return n, nil
}

// digestChain digests 32 zero bytes, then the result, and so on: no step can be
// precomputed, run in parallel, or omitted.
//
//go:noinline
func digestChain(rounds int) (sum [sha256.Size]byte) {
	for range rounds {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}
