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
	"bakeoff/judge/stats"
	"bakeoff/measure/tool/fio"
	"bakeoff/measure/tool/sysbench"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/cpu"
	"bakeoff/measure/workload/external"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/memory"
	"bakeoff/reach/wire"
)

// side is one of two that do the same work.
type side struct {
	workload workload.Workload
	params   param.Values
	metric   string
	blob     string // of its CPU time: an wire.Result, or an wire.ExecResult
}

// contest is a native workload against a program.
type contest struct {
	name    string
	program string
	unit    float64 // of the metric, in one operation
	why     string  // what the two do differently
	sides   [2]side // native, program
	seconds float64 // of a trial
	shared  bool    // both read the native file
}

// contests are the seven that are compared.
func contests(length time.Duration) []contest {
	text := length.String()
	const size = "64MiB"
	file := func(name, op, pattern, block string, align string, why string) contest {
		fsync, count := "none", "0"
		if strings.HasSuffix(op, "write") {
			fsync, count = "each", "1"
		}
		return contest{name: name, program: "fio", unit: 1, why: why, shared: fsync == "none", sides: [2]side{
			{files.New(), param.Values{"op": op, "block": block, "size": size, "fsync": fsync, "time": text}, "throughput", workload.Work},
			{external.New(fio.New()), param.Values{"pattern": pattern, "block": block, "size": size, "invalidate": "false", "end-fsync": "false",
				"fsync": count, "align": align, "time": text}, "throughput", programBlob}}}
	}
	const (
		page   = "4096"
		reads  = "Both call pread on the same file, which is in memory, into one buffer at the beginning of a page. fio accounts for each call: clocks, histograms, its queue of operations. The native loop takes one time a call, and looks at the number of the block and at one word of it, so that a wrong block is found. In a profile of 4 KiB reads the kernel had 57 % of fio's CPU time and 83 % of the native loop's."
		writes = "Both do the same two calls for each block, pwrite and fsync; the native loop gives each block a new stamp, and reads the file back after the time. Most of it is waiting: for the disk, and then for a CPU. Where other work wants the CPUs they come to one unequally soon, and that alone made a ratio of 2 to 7; with real-time priority for both (chrt -f 1) it was 1.0 to 1.2 at the same load."
	)
	out := []contest{
		file("4 KiB random reads, from memory", "rand-read", "randread", "4KiB", page, reads+" Its order visits every block once a pass, fio's draws with repetition."),
		file("1 MiB sequential reads, from memory", "seq-read", "read", "1MiB", page, reads+" In blocks of 1 MiB nearly all of it is the kernel's copy."),
		file("1 MiB sequential reads, from memory, fio's buffer as it comes", "seq-read", "read", "1MiB", "",
			"The same as above but for the place of fio's buffer: 16 bytes past the beginning of a page, where page and buffer are not aligned alike and the kernel's copy (rep movsb) takes a slow way on some CPUs. With fio --iomem_align=64 or more the difference is gone."),
		file("4 KiB random writes, fsync after each", "rand-write", "randwrite", "4KiB", page, writes),
		file("1 MiB sequential writes, fsync after each", "seq-write", "write", "1MiB", page, writes),
		{name: "primes up to 20,000", program: "sysbench", unit: 1,
			why: "Both divide each number by all up to its square root, in 64-bit integers. sysbench compares each divisor with the root as a floating-point number, and so converts it every time; the native loop rounds the root once and compares integers. sysbench's count is used by nobody, the native one is compared with a sieve.",
			sides: [2]side{
				{cpu.New(), param.Values{"max": "20000", "time": text}, "throughput", workload.Work},
				{external.New(sysbench.New()), param.Values{"test": "cpu", "max-prime": "20000", "time": text}, "throughput", programBlob}}},
		{name: "writing memory, 1 MiB blocks", program: "sysbench", unit: 1 << 20,
			why: "Both store 8 bytes at a time, over and over into one block. sysbench computes each word that it stores, from its distance to the end of the block, in four instructions beside the store (as Debian's 1.0.20 is compiled); the native loop stores one value, another one in each pass, and does nothing beside.",
			sides: [2]side{
				{memory.New(), param.Values{"op": "write", "block": "1MiB", "time": text}, "throughput", workload.Work},
				{external.New(sysbench.New()), param.Values{"test": "memory", "operation": "write", "block": "1MiB", "time": text}, "bandwidth", programBlob}}},
	}
	for i := range out {
		out[i].seconds = length.Seconds()
	}
	return out
}

// programBlob is where external workloads keep what a program spent.
const programBlob = "exec.json"

// trial is what one trial gave.
type trial struct {
	rate float64 // of the metric, a second
	cpu  float64 // seconds that the process spent on a CPU
}

// measured is what a contest gave.
type measured struct {
	ratios []float64  // logarithms of native / program, one a pair
	trials [2][]trial // of either side
	again  []string   // why trials were repeated
}

// mostAgain bounds how many trials of a contest are repeated.
const mostAgain = 4

// measure does the mirrored pairs, in orders drawn by lot. A trial that its own
// checks refuse is repeated and named: on a machine that does other work, the
// check that time grows with work may be spoiled.
func (c contest) measure(ctx context.Context, here *machine, pairs int) (measured, error) {
	var m measured
	r := rand.New(rand.NewPCG(1, uint64(len(c.name))))
	var targets [2]workload.Target
	for i, s := range c.sides {
		all := param.Defaults(s.workload.Doc().Params)
		for k, v := range s.params {
			if v != "" {
				all[k] = v
			}
		}
		c.sides[i].params = all
		targets[i] = workload.Target{Subject: here, State: map[string]string{}}
		if err := s.workload.Prepare(ctx, targets[i], all); err != nil {
			return m, err
		}
	}
	if c.shared {
		link, err := share(here.info.Volumes["/data"])
		if err != nil {
			return m, err
		}
		defer os.Remove(link) // before anything is written through it
	}
	for range pairs {
		first := r.IntN(2)
		var sum [2]float64
		for _, i := range []int{first, 1 - first, 1 - first, first} {
			t, err := c.sides[i].once(ctx, targets[i])
			for ; fault.Is(err, fault.Subject) && len(m.again) < mostAgain; t, err = c.sides[i].once(ctx, targets[i]) {
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

// share makes the program read the native file, of those in dir the newest: two
// files of one size do not lie alike in memory, and that alone made reads of 1 MiB
// by one program take 73 or 117 µs. It returns the name that the program knows it by.
func share(dir string) (program string, err error) {
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
		return "", fault.New(fault.Lab, "below %s there is no file of both sides: %q, %q", dir, native, program)
	}
	if err := os.Remove(program); err != nil {
		return "", err
	}
	return program, os.Link(native, program)
}

// once does a trial.
func (s side) once(ctx context.Context, t workload.Target) (trial, error) {
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

// cpuTime reads what a trial spent on a CPU, in seconds: of a native loop in its
// timed part, of a program as a whole.
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

// print writes what was measured, and what explains a difference.
func (c contest) print(w io.Writer, m measured) {
	e := stats.HodgesLehmann(m.ratios, 0.95)
	fmt.Fprintf(w, "\n%s: native / %s %.3f, %s\n", c.name, c.program, math.Exp(e.Value), interval(e))
	for i, name := range []string{"native", c.program} {
		took, cpu := c.operation(m.trials[i])
		fmt.Fprintf(w, "  %-9s %9s an operation, %9s of CPU time%s\n", name, brief(took), brief(cpu), []string{"", ", its start included"}[i])
	}
	for _, why := range m.again {
		fmt.Fprintf(w, "  a trial was repeated: %s\n", why)
	}
	verdict := "no difference is shown"
	switch {
	case math.IsInf(e.Lo, 0) || math.IsNaN(e.Lo):
		verdict = "too few pairs to tell a difference; there may be one"
	case e.Lo > 0 || e.Hi < 0:
		verdict = "they differ"
	}
	fmt.Fprintf(w, "  %s. %s\n", verdict, c.why)
}

// operation returns the medians of what an operation took and spent, in seconds.
func (c contest) operation(trials []trial) (took, cpu float64) {
	var a, b []float64
	for _, t := range trials {
		a = append(a, c.unit/t.rate)
		b = append(b, t.cpu/c.seconds*c.unit/t.rate)
	}
	return middle(a), middle(b)
}

// middle is the median of what is not empty.
func middle(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// brief writes seconds with three digits.
func brief(s float64) string {
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

// interval formats the interval of a logarithm; few values bound nothing.
func interval(e stats.Estimate) string {
	if math.IsInf(e.Lo, 0) || math.IsInf(e.Hi, 0) || math.IsNaN(e.Lo) {
		return "unbounded: too few pairs"
	}
	return fmt.Sprintf("%.3f to %.3f", math.Exp(e.Lo), math.Exp(e.Hi))
}
