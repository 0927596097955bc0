// Package sysbench is the tool sysbench, its tests cpu and memory. Pitfalls:
//
//   - The event of the CPU test is a loop whose result is not used. A compiler
//     that may assume a pure sqrt removes it, and millions of empty "events" per
//     second remain. Parse knows how many divisions an event needs, and fails a
//     trial whose events are faster than any processor divides.
//   - Events of two builds cannot be compared: the fingerprint has the version
//     and the hash of the program.
//   - The default memory block of 1 KiB measures the loop around it. Here the
//     default is 1 MiB.
//   - --test= is deprecated: the test's name is an argument.
package sysbench

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

// New returns the tool.
func New() tool.Tool { return sysbench{tool.VersionBy(`^sysbench (\d+\.\d+\.\d+)\S*`)} }

type sysbench struct{ tool.Versioned }

func (sysbench) Doc() tool.Doc {
	return tool.Doc{
		Name: "sysbench", Program: "sysbench", VersionArgs: []string{"--version"},
		Tried: []string{"1.0", "1.1"}, Least: "1.0",
		Summary: "sysbench as the platform ships it: the CPU test (primes) and the memory test",
		Packages: map[string][]string{
			"debian": {"sysbench"}, "alpine": {"sysbench"}, "freebsd": {"sysbench"},
			"dragonfly": {"sysbench"}, "netbsd": {"sysbench"}, "smartos": {"sysbench"},
		},
		Metrics: []sample.Metric{
			sample.Throughput("op/s",
				"events per second: an event is a loop over all numbers up to max-prime, or one memory block; comparable "+
					"only between runs of one build of sysbench"),
			sample.HigherRatio("bandwidth", "B/s", "bytes of memory blocks transferred per second"),
			sample.LowerRatio("latency-p95", "s", "95th percentile of the time of an event, in steps of 10 µs"),
		},
		Params: []param.Spec{
			{Name: "test", Kind: param.Text, Default: "cpu", Enum: []string{"cpu", "memory"},
				Doc: "which test of sysbench: prime numbers or memory"},
			{Name: "max-prime", Kind: param.Int, Default: "20000", Min: 10, Max: 10e6,
				Doc: "upper limit of the prime numbers of one event, with test=cpu"},
			{Name: "block", Kind: param.Size, Default: "1MiB", Min: 8, Max: 1 << 30, Doc: "size of a block, with " +
				"test=memory"},
			{Name: "operation", Kind: param.Text, Default: "write", Enum: []string{"read", "write"},
				Doc: "whether to read or to write blocks, with test=memory"},
			{Name: "access", Kind: param.Text, Default: "seq", Enum: []string{"seq", "rnd"},
				Doc: "sequential or random access, with test=memory"},
			{Name: "scope", Kind: param.Text, Default: "global", Enum: []string{"global", "local"},
				Doc: "one block for all threads (global) or one for each thread (local), with test=memory"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 1024, Doc: "number of threads"},
			{Name: "time", Kind: param.Duration, Default: "1s", Doc: "length of the test in whole seconds"},
		},
		State: "carried", Cache: "warm",
		Time:   func(p param.Values) time.Duration { return tool.WholeSeconds(p, "time") + 200*time.Millisecond },
		Parser: 3,
		Source: []string{"sysbench(1), https://github.com/akopytov/sysbench"},
	}
}

func (sysbench) Command(p param.Values, _ tool.Place) (tool.Command, error) {
	if p.Duration("time") <= 0 {
		return tool.Command{}, fault.New(fault.Invalid, "time must be positive (got %s)", p.Text("time"))
	}
	argv := []string{"sysbench", p.Text("test"),
		"--threads=" + p.Text("threads"), "--time=" + tool.Seconds(p, "time"), "--events=0"}
	if p.Text("test") == "cpu" {
		argv = append(argv, "--cpu-max-prime="+p.Text("max-prime"))
	} else {
		argv = append(argv,
			"--memory-block-size="+strconv.FormatInt(p.Bytes("block"), 10),
			"--memory-total-size=0", // no limit: the time is
			"--memory-oper="+p.Text("operation"), "--memory-access-mode="+p.Text("access"), "--memory-scope="+p.Text("scope"))
	}
	return tool.Command{Argv: append(argv, "run")}, nil
}

func (s sysbench) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := labeled.Text(out.Stdout)
	if err := checkEcho(text, p); err != nil {
		return r, err
	}
	took, err := text.Number("total time:", "s")
	if err != nil { // version 1.1 prints it below "Throughput:", with another name
		var newer error
		if took, newer = text.Number("time elapsed:", "s"); newer != nil {
			return r, fmt.Errorf("%w, nor with \"time elapsed:\"", err)
		}
	}
	if r.Work, err = text.Number("total number of events:", ""); err != nil {
		return r, err
	}
	if !(took > 0) {
		return r, fmt.Errorf("total time must be positive (got %g s)", took)
	}
	if err := r.Lasted(took, tool.WholeSeconds(p, "time"), out.Elapsed); err != nil {
		return r, err
	}
	if r.Work <= 0 {
		return r, fault.WithFix(fault.New(fault.Subject, "no event finished in %g s", took), "increase time")
	}
	if p.Text("test") == "cpu" {
		if err := possible(r.Work, took, p); err != nil {
			return r, err
		}
	} else {
		r.Add(s.Doc(), "bandwidth", r.Work*float64(p.Bytes("block"))/took)
	}
	r.Add(s.Doc(), "throughput", r.Work/took)
	// In milliseconds with two decimals: 0.00 is below its resolution.
	p95, err := text.Number("95th percentile:", "")
	r.AddKnown(s.Doc(), "latency-p95", p95/1e3)
	return r, err
}

// checkEcho checks that the output has the requested parameters.
func checkEcho(text labeled.Text, p param.Values) error {
	want := map[string]string{"Number of threads:": p.Text("threads")}
	if p.Text("test") == "cpu" {
		want["Prime numbers limit:"] = p.Text("max-prime")
	} else {
		// sysbench prints whole KiB, rounded down.
		want["block size:"] = fmt.Sprintf("%dKiB", p.Bytes("block")>>10)
		want["operation:"] = p.Text("operation")
		want["scope:"] = p.Text("scope")
		want["total size:"] = "0MiB" // no limit: the time is
	}
	if rate, err := text.Line("Target transaction rate:"); err == nil {
		return tool.Differs("rate", rate, "no limit")
	}
	return tool.Echoes(text, want, true)
}

// divisionsPerSecond is more than one thread of any processor achieves: one
// division per cycle at 10 GHz.
const divisionsPerSecond = 10e9

// possible refuses events that were too fast to be real.
func possible(events, took float64, p param.Values) error {
	n := divisions(p.Int("max-prime"))
	if did := events * n / took / float64(p.Int("threads")); did > divisionsPerSecond {
		return fault.WithFix(
			fault.New(fault.Subject, "%.3g divisions per second and thread are more than any processor achieves: an "+
				"optimizing compiler removed the loop of this build", did),
			"use the workload cpu, which verifies its result")
	}
	return nil
}

// divisions returns the minimum number of divisions in an event with this
// limit. sysbench divides every number from 3 to the limit by 2, 3, … up to its
// root until one divides it. Every number has one division, and a prime has
// all. There are n/ln n primes up to n, more than x/ln x for x ≥ 17 (Rosser and
// Schoenfeld 1962), and those above n/2 have √(n/2) divisions each.
func divisions(limit int64) float64 {
	n := float64(limit)
	if n < 100 {
		return n
	}
	pi := func(x float64) float64 { return x / math.Log(x) }
	upper := 1.25506 * pi(n/2) // at most, below n/2
	return n + max(0, pi(n)-upper)*math.Sqrt(n/2)
}
