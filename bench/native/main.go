// Command native measures bakeoff's own workloads against the programs that
// people know, side by side in one run on this machine: the reads and writes of
// files against fio's engine psync, cpu and memory against sysbench.
//
//	go run ./bench/native [-pairs 10] [-time 1s] [-dir DIR]
//
// It needs fio and sysbench, and some 130 MB below -dir, whose file system is
// what the file tests measure.
//
// What is to be expected, and why. Both sides of a file test do the same system
// calls in the same sizes on files that were laid out beforehand; the native
// one also looks at what it read, and stamps each block that it writes, so that
// a wrong block is found: that costs it most where a block is small and comes
// from memory. The native search for primes divides 64-bit integers as sysbench
// does, with a square root for each number where sysbench has one for each
// division; its count is compared with a sieve, and sysbench's is not used at
// all. The memory tests of both store 8 bytes at a time, but sysbench locks a
// mutex for every block.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"bakeoff/agent"
	"bakeoff/conn/local"
	"bakeoff/driver"
	"bakeoff/fault"
	"bakeoff/param"
	"bakeoff/stats"
	"bakeoff/tool/fio"
	"bakeoff/tool/sysbench"
	"bakeoff/workload"
	"bakeoff/workload/cpu"
	"bakeoff/workload/external"
	"bakeoff/workload/files"
	"bakeoff/workload/memory"
)

// side is one of two that do the same work.
type side struct {
	workload workload.Workload
	params   param.Values
	metric   string
}

// contest is a native workload against a program.
type contest struct {
	name            string
	native, program side
}

func contests(length time.Duration) []contest {
	time := length.String()
	file := func(name, op, pattern, block string) contest {
		fsync, end := "none", "false"
		if op == "rand-write" || op == "seq-write" {
			fsync, end = "end", "true"
		}
		return contest{name,
			side{files.New(), param.Values{"op": op, "block": block, "size": "64MiB", "fsync": fsync, "time": time}, "throughput"},
			side{external.New(fio.New()), param.Values{"pattern": pattern, "block": block, "size": "64MiB", "invalidate": "false", "end-fsync": end, "time": time}, "throughput"}}
	}
	return []contest{
		file("4 KiB random reads, from memory", "rand-read", "randread", "4KiB"),
		file("4 KiB random writes, fsync at the end", "rand-write", "randwrite", "4KiB"),
		file("1 MiB sequential reads, from memory", "seq-read", "read", "1MiB"),
		file("1 MiB sequential writes, fsync at the end", "seq-write", "write", "1MiB"),
		{"primes up to 20,000",
			side{cpu.New(), param.Values{"max": "20000", "time": time}, "throughput"},
			side{external.New(sysbench.New()), param.Values{"test": "cpu", "max-prime": "20000", "time": time}, "throughput"}},
		{"writing memory, 1 MiB blocks",
			side{memory.New(), param.Values{"op": "write", "block": "1MiB", "time": time}, "throughput"},
			side{external.New(sysbench.New()), param.Values{"test": "memory", "operation": "write", "block": "1MiB", "time": time}, "bandwidth"}},
	}
}

// machine is this one, as an environment.
type machine struct {
	local.Conn
	info driver.Info
}

func (m *machine) Info() driver.Info               { return m.info }
func (m *machine) Diagnose(context.Context) []byte { return nil }
func (m *machine) Close(context.Context) error     { return nil }

func main() {
	if len(os.Args) > 1 && (os.Args[1] == "work" || os.Args[1] == "exec" || os.Args[1] == "probe") {
		// This program is its own agent.
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, []agent.Loop{files.Loop(), cpu.Loop(), memory.Loop()}))
	}
	pairs := flag.Int("pairs", 10, "mirrored pairs of each contest: native, program, program, native, or the other way round")
	length := flag.Duration("time", time.Second, "length of one run, whole seconds")
	dir := flag.String("dir", "", "where the files are written; the folder for temporary ones when not given")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *pairs, *length, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench/native:", err)
		if fix := fault.Fix(err); fix != "" {
			fmt.Fprintln(os.Stderr, "  ", fix)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, pairs int, length time.Duration, dir string) error {
	if pairs < 1 || length < time.Second || length%time.Second != 0 || flag.NArg() > 0 {
		return fault.New(fault.Invalid, "usage: native [-pairs N] [-time SECONDS] [-dir DIR], with at least one pair and whole seconds")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "bench-native-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, d := range []string{"/data", "/scratch"} {
		if err := os.Mkdir(tmp+d, 0o755); err != nil {
			return err
		}
	}
	here := &machine{info: driver.Info{Agent: self, Scratch: tmp + "/scratch", Volumes: map[string]string{"/data": tmp + "/data"}}}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "native / program\t%d mirrored pairs of %v\t95 %%\n", pairs, length)
	for _, c := range contests(length) {
		fmt.Fprintf(os.Stderr, "%s …\n", c.name)
		ratios, err := c.measure(ctx, here, pairs)
		if err != nil {
			return fault.Op(c.name, err)
		}
		e := stats.HodgesLehmann(ratios, 0.95)
		fmt.Fprintf(w, "%s\t%.3f\t%s\n", c.name, math.Exp(e.Value), interval(e))
	}
	return w.Flush()
}

// interval formats the interval of a logarithm; few values bound nothing.
func interval(e stats.Estimate) string {
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) || math.IsNaN(e.Lo) {
		return "unbounded: too few pairs"
	}
	return fmt.Sprintf("%.3f … %.3f", math.Exp(e.Lo), math.Exp(e.Hi))
}

// measure returns the logarithm of native / program of each mirrored pair, in
// orders drawn by lot.
func (c contest) measure(ctx context.Context, here *machine, pairs int) ([]float64, error) {
	r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	sides := [2]side{c.native, c.program}
	var targets [2]workload.Target
	for i, s := range sides {
		all := param.Defaults(s.workload.Doc().Params)
		for k, v := range s.params {
			all[k] = v
		}
		sides[i].params = all
		targets[i] = workload.Target{Subject: here, State: map[string]string{}}
		if err := s.workload.Prepare(ctx, targets[i], all); err != nil {
			return nil, err
		}
	}
	var out []float64
	for range pairs {
		first := r.IntN(2)
		var sum [2]float64
		for _, i := range []int{first, 1 - first, 1 - first, first} {
			v, err := sides[i].once(ctx, targets[i])
			if err != nil {
				return nil, err
			}
			sum[i] += math.Log(v) / 2
		}
		out = append(out, sum[0]-sum[1])
	}
	return out, nil
}

// once does a trial.
func (s side) once(ctx context.Context, t workload.Target) (float64, error) {
	if err := s.workload.Reset(ctx, t, s.params); err != nil {
		return 0, err
	}
	raw, err := s.workload.Run(ctx, t, s.params)
	if err != nil {
		return 0, err
	}
	values, err := s.workload.Parse(raw, s.params)
	if err != nil {
		return 0, err
	}
	for _, v := range values {
		if v.Metric == s.metric && v.Value > 0 {
			return v.Value, nil
		}
	}
	return 0, fault.New(fault.Lab, "%s gave no %s", s.workload.Doc().Name, s.metric)
}
