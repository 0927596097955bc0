package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/bench/mirror"
	"bakeoff/judge/stats"
	"bakeoff/measure/execution"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/tool/sysbench"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/cpu"
	external "bakeoff/measure/workload/external/runner"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/memory"
	"bakeoff/reach/wire"
)

// side is one of two sides that do the same work.
type side struct {
	workload execution.Runner
	params   param.Values
	metric   string
	blob     string // raw output with its CPU time: a wire.Result or a wire.ExecResult
}

// comparison is a native workload compared with a program.
type comparison struct {
	name    string
	program string
	unit    float64 // of the metric, in one operation
	why     string  // what the two do differently
	sides   [2]side // native, program
	seconds float64 // of a trial
	shared  bool    // both read the native file
}

// comparisons returns the seven comparisons.
func comparisons(length time.Duration) []comparison {
	text := length.String()
	const size = "64MiB"
	file := func(name, op, pattern, block string, align string, why string) comparison {
		fsync, count := "none", "0"
		if strings.HasSuffix(op, "write") {
			fsync, count = "each", "1"
		}
		return comparison{name: name, program: "fio", unit: 1, why: why, shared: fsync == "none", sides: [2]side{
			{execution.Native(files.New()),
				param.Values{"op": op, "block": block, "size": size, "fsync": fsync, "time": text}, "throughput",
				workload.Work},
			{external.New(fio.New()), param.Values{"pattern": pattern, "block": block, "size": size, "invalidate": "false",
				"end-fsync": "false",
				"fsync":     count, "align": align, "time": text}, "throughput", programBlob}}}
	}
	const (
		page  = "4096"
		reads = "Both call pread on the same file, which is in memory, into one page-aligned buffer. fio accounts for " +
			"each call: clocks, histograms, its queue of operations. The native loop reads the clock once per call, and " +
			"checks the number of the block and one word of it, so that it detects a wrong block. In a profile of 4 KiB " +
			"reads the kernel had 57 % of fio's CPU time and 83 % of the native loop's."
		writes = "Both do the same two calls for each block, pwrite and fsync; the native loop gives each block a new " +
			"stamp, and reads the file back afterwards, untimed. Most of the time is waiting: for the disk, and then for a " +
			"CPU. On a busy machine the two wait unequally long for a CPU, which alone gave a ratio of 2 to 7; with " +
			"real-time priority for both (chrt -f 1) it was 1.0 to 1.2 at the same load."
	)
	out := []comparison{
		file("4 KiB random reads, from memory", "rand-read", "randread", "4KiB", page,
			reads+" The native loop visits every block once per pass; fio draws blocks with repetition."),
		file("1 MiB sequential reads, from memory", "seq-read", "read", "1MiB", page,
			reads+" With blocks of 1 MiB nearly all of the time is the kernel's copy."),
		file("1 MiB sequential reads, from memory, with fio's default buffer", "seq-read", "read", "1MiB", "",
			"As above, except for the alignment of fio's buffer: it begins 16 bytes past the beginning of a page. Page and "+
				"buffer are then aligned differently, and the kernel's copy (rep movsb) is slow on some CPUs. With fio "+
				"--iomem_align=64 or more the difference disappears."),
		file("4 KiB random writes, fsync after each", "rand-write", "randwrite", "4KiB", page, writes),
		file("1 MiB sequential writes, fsync after each", "seq-write", "write", "1MiB", page, writes),
		{name: "primes up to 20,000", program: "sysbench", unit: 1,
			why: "Both divide each number by all integers up to its square root, in 64-bit integers. sysbench compares " +
				"each divisor with the root as a floating-point number, and so converts it every time; the native loop rounds " +
				"the root once and compares integers. sysbench does not use its count; the native loop compares its count " +
				"with a sieve.",
			sides: [2]side{
				{execution.Native(cpu.New()), param.Values{"max": "20000", "time": text}, "throughput", workload.Work},
				{external.New(sysbench.New()), param.Values{"test": "cpu", "max-prime": "20000", "time": text}, "throughput",
					programBlob}}},
		{name: "writing memory, 1 MiB blocks", program: "sysbench", unit: 1 << 20,
			why: "Both store 8 bytes at a time, repeatedly into one block. sysbench computes each word that it stores from " +
				"its distance to the end of the block, in four instructions in addition to the store (in Debian's build of " +
				"1.0.20); the native loop stores one value, a different one in each pass, and does nothing else.",
			sides: [2]side{
				{execution.Native(memory.New()), param.Values{"op": "write", "block": "1MiB", "time": text}, "throughput",
					workload.Work},
				{external.New(sysbench.New()), param.Values{"test": "memory", "operation": "write", "block": "1MiB",
					"time": text}, "bandwidth", programBlob}}},
	}
	for i := range out {
		out[i].seconds = length.Seconds()
	}
	return out
}

// programBlob is the name under which external workloads store the resources that a
// program used.
const programBlob = "exec.json"

// trial holds the results of one trial.
type trial struct {
	rate float64 // of the metric, per second
	cpu  float64 // seconds that the process spent on a CPU
}

// measured holds the results of a comparison.
type measured struct {
	ratios []float64  // logarithms of native / program, one per pair
	trials [2][]trial // of either side
	again  []string   // why trials were repeated
}

// mostAgain bounds the number of repeated trials of a comparison.
const mostAgain = 4

// measure runs the mirrored pairs in random orders. A trial that fails its own checks is
// repeated and reported: on a busy machine, the check that time grows with work may
// fail.
func (c comparison) measure(ctx context.Context, here *machine, pairs int) (measured, error) {
	var m measured
	r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	var targets [2]execution.Target
	for i, s := range c.sides {
		all := param.Defaults(s.workload.Doc().Params)
		for k, v := range s.params {
			if v != "" {
				all[k] = v
			}
		}
		c.sides[i].params = all
		targets[i] = execution.Target{Subject: here, State: map[string]string{}}
		if err := s.workload.Prepare(ctx, targets[i], all); err != nil {
			return m, err
		}
	}
	if c.shared {
		link, err := shareNative(here.info.Volumes["/data"])
		if err != nil {
			return m, err
		}
		defer os.Remove(link) // before anything is written through it
	}
	for range pairs {
		first := r.IntN(2)
		var sum [2]float64
		for _, i := range []int{first, 1 - first, 1 - first, first} {
			t, err := c.sides[i].runTrial(ctx, targets[i])
			for ; fault.Is(err, fault.Subject) && len(m.again) < mostAgain; t, err = c.sides[i].runTrial(ctx, targets[i]) {
				m.again = append(m.again, err.Error())
			}
			if err != nil {
				return m, err
			}
			sum[i] += math.Log(t.rate) / 2
			m.trials[i] = append(m.trials[i], t)
		}
		m.ratios = append(m.ratios, sum[0]-sum[1])
	}
	return m, nil
}

// shareNative makes the program read the native file, the newest of those in dir. Two files of
// one size have different places in memory, which alone made reads of 1 MiB by one program
// take 73 or 117 µs. It returns the program's name for the file.
func shareNative(dir string) (program string, err error) {
	var native string
	var newest time.Time
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.Name() == "fio.dat":
			program = path
		case strings.HasPrefix(e.Name(), "large-") && st.ModTime().After(newest):
			native, newest = path, st.ModTime()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if native == "" || program == "" {
		return "", fault.New(fault.Lab, "%s does not contain a file of both sides: %q, %q", dir, native, program)
	}
	if err := os.Remove(program); err != nil {
		return "", err
	}
	return program, os.Link(native, program)
}

// runTrial runs one trial.
func (s side) runTrial(ctx context.Context, t execution.Target) (trial, error) {
	if err := s.workload.Reset(ctx, t, s.params); err != nil {
		return trial{}, err
	}
	raw, err := s.workload.Run(ctx, t, s.params)
	if err != nil {
		return trial{}, err
	}
	values, err := s.workload.Parse(raw, s.params)
	if err != nil {
		return trial{}, err
	}
	for _, v := range values {
		if v.Metric == s.metric && v.Value > 0 {
			cpu, err := cpuTime(s.blob, raw[s.blob])
			return trial{v.Value, cpu}, err
		}
	}
	return trial{}, fault.New(fault.Lab, "%s gave no %s", s.workload.Doc().Name, s.metric)
}

// cpuTime returns the CPU time of a trial in seconds: of a native loop in its timed part,
// of a program as a whole.
func cpuTime(name string, blob []byte) (float64, error) {
	if name == programBlob {
		var r wire.ExecResult
		err := json.Unmarshal(blob, &r)
		return r.Usage.CPUSeconds(), err
	}
	var r wire.Result
	if err := json.Unmarshal(blob, &r); err != nil || r.WorkerCPUSeconds == nil {
		return math.NaN(), err
	}
	return *r.WorkerCPUSeconds, nil
}

// printResult writes the results, and the explanation of a difference.
func (c comparison) printResult(w io.Writer, m measured) {
	e := stats.HodgesLehmann(m.ratios, 0.95)
	fmt.Fprintf(w, "\n%s: native / %s %s\n", c.name, c.program, mirror.Text(e, 3, len(m.ratios), "pairs"))
	for i, name := range []string{"native", c.program} {
		took, cpu := c.operation(m.trials[i])
		fmt.Fprintf(w, "  %-9s %9s per operation, %9s of CPU time%s\n", name, secondsText(took), secondsText(cpu),
			[]string{"", ", including its start"}[i])
	}
	for _, why := range m.again {
		fmt.Fprintf(w, "  a trial was repeated: %s\n", why)
	}
	verdict := "no difference found"
	switch {
	case math.IsInf(e.Lo, 0) || math.IsNaN(e.Lo):
		verdict = "too few pairs to show a difference"
	case e.Lo > 0 || e.Hi < 0:
		verdict = "they differ"
	}
	fmt.Fprintf(w, "  %s. %s\n", verdict, c.why)
}

// operation returns the median time and CPU time of an operation, in seconds.
func (c comparison) operation(trials []trial) (took, cpu float64) {
	var a, b []float64
	for _, t := range trials {
		a = append(a, c.unit/t.rate)
		b = append(b, t.cpu/c.seconds*c.unit/t.rate)
	}
	return medianOf(a), medianOf(b)
}

// medianOf returns the median of a non-empty list.
func medianOf(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// secondsText formats seconds with three digits.
func secondsText(s float64) string {
	switch {
	case math.IsNaN(s):
		return "unknown"
	case s < 1e-6:
		return fmt.Sprintf("%.3g ns", s*1e9)
	case s < 1e-3:
		return fmt.Sprintf("%.3g µs", s*1e6)
	}
	return strings.TrimSpace(fmt.Sprintf("%.3g ms", s*1e3))
}
