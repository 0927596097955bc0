// Package sixtests is the workload "sixtests": the six tests that comparisons with
// bytebench 3.1 add up, one after another in one trial, with the sum and the average that
// such articles print.
//
// Its figures are not an index of UnixBench: the rates are those of bakeoff's own programs.
package sixtests

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/contextswitch"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/unixbench"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// The metrics.
const (
	sum     = "sum-of-six"
	average = "average-of-six"
)

// New returns the workload.
func New() workload.NativeParser {
	mean := sample.HigherRatio(average, "1", "the metric sum-of-six divided by six: the average that articles print")
	mean.Primary = true
	return workload.Native(workload.Doc{
		Refuse: workload.OnlyUnix,
		Summary: "The six tests of bytebench 3.1 in one trial, with the sum and the average of their ratios to a " +
			"machine of 1991",
		Metrics: []sample.Metric{mean,
			sample.HigherRatio(sum, "1", "sum of six rates, each divided by the rate of a machine of 1991"),
		},
		Volume: "volume",
		Time:   workload.TimedFor(2 * time.Second),
		Source: []string{
			"The BYTE UNIX Benchmarks 3.1 (1991): the rates of its file index.base. Results are not comparable with an " +
				"index of UnixBench: the rates of UnixBench are those of C programs, and bakeoff's rates are those of " +
				"the workloads unixbench (test=double, dhrystone, execl and shell8), files (op=copy) and switch",
			"The sum favors the test with the largest ratio: a machine that doubles this ratio and halves another one " +
				"gets a larger sum. Read the cells of the six tests first",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "sixtests",
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume for the file copy"},
			workload.TimeParam,
		},
		Prepare: func(ctx context.Context, p param.Values, env loop.Env) error {
			return files.Loop().Prepare(ctx, copyParams.withTestTime(p), env)
		},
		Run: run,
	}
}

// settings are the parameters of one of the six besides its time.
type settings param.Values

// withTestTime adds the time of one test: a sixth of the trial's.
func (s settings) withTestTime(p param.Values) param.Values {
	out := param.Values{"time": (p.Duration("time") / time.Duration(len(six))).String()}
	maps.Copy(out, s)
	return out
}

// copyParams are those of the file copy of bytebench 3.1.
var copyParams = settings{"op": "copy", "block": "1KiB", "size": "2MiB", "fsync": "none", "cache": "warm"}

// six are the tests, with the rates of a machine of 1991 (index.base).
var six = [...]struct {
	name string
	loop loop.Loop
	set  settings
	base float64 // op/s
}{
	{"arithmetic", unixbench.Loop(), settings{"test": "double"}, 2541.7},
	{"dhrystone", unixbench.Loop(), settings{"test": "dhrystone"}, 22366.3},
	{"execl", unixbench.Loop(), settings{"test": "execl"}, 16.5},
	{"file copy", files.Loop(), copyParams, 179.0}, // in KB/s, which are blocks of copyParams
	{"switch", contextswitch.Loop(), nil, 1318.5},
	{"shell8", unixbench.Loop(), settings{"test": "shell8"}, 4.0 / 60}, // per minute in index.base
}

// run runs all six. A unit of work is what the machine of 1991 did in a second, as the
// average counts it.
func run(ctx context.Context, p param.Values, env loop.Env) (wire.Result, error) {
	out := wire.Result{WorkUnit: "op", Check: wire.Check{Verified: true}}
	var spent float64
	var answers []string
	rates := map[string]float64{}
	known := true
	for _, t := range six {
		r, err := t.loop.Run(ctx, t.set.withTestTime(p), env)
		if err != nil {
			return r, fault.Op(t.name, err)
		}
		i := slices.IndexFunc(r.Values, func(v sample.Value) bool { return v.Metric == "throughput" })
		if i < 0 {
			return r, fault.New(fault.Lab, "%s: the loop reported no throughput", t.name)
		}
		v := r.Values[i].Value
		rates[t.name] = v
		answers = append(answers, fmt.Sprintf("%s %.6g op/s", t.name, v))
		out.ElapsedNS += r.ElapsedNS
		out.Check.Scaling = smallerScale(out.Check.Scaling, r.Check.Scaling)
		if known = known && r.WorkerCPUSeconds != nil; known {
			spent += *r.WorkerCPUSeconds
		}
	}
	total, mean := sumAndMean(rates)
	out.Work = mean * float64(out.ElapsedNS) / 1e9
	out.Values = []sample.Value{{Metric: average, Unit: "1", Value: mean}, {Metric: sum, Unit: "1", Value: total}}
	out.Check.Answer = strings.Join(answers, ", ")
	if known {
		out.WorkerCPUSeconds = &spent
	}
	return out, nil
}

// sumAndMean returns the sum and the average of the ratios of the rates, in op/s, to those of 1991.
func sumAndMean(rates map[string]float64) (total, mean float64) {
	for _, t := range six {
		total += rates[t.name] / t.base
	}
	return total, total / float64(len(six))
}

// smallerScale is the smaller one of two scalings of which 0 is one that was not checked.
func smallerScale(a, b float64) float64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
