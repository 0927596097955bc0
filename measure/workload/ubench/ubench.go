// Package ubench is what ubench measures: integer and floating-point
// arithmetic, or memory allocation and copying, by more threads than there are
// CPUs.
package ubench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Refuse:  workload.OnlyUnix,
		Summary: "Integer and floating-point arithmetic, or memory allocation and copying, by two threads per CPU",
		Metrics: []sample.Metric{sample.Throughput("op/s", "rounds per second, all threads together; with test=both, "+
			"the mean of the rates of cpu and memory, which ubench calls the average")},
		Source: []string{
			"S. Rusinov, ubench 0.3: about two concurrent processes for each CPU, integer and floating-point " +
				"calculations in a ratio of 3:1, or memory allocation and copying from memory to memory. bakeoff " +
				"reimplements this definition with threads of one process, and verifies every round. Results are " +
				"not comparable with those of the C program",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "ubench",
		Params: []param.Spec{
			{Name: "test", Kind: param.Text, Default: "cpu", Enum: []string{"cpu", "memory", "both"},
				Doc: "which test. cpu: three integer rounds to one floating-point round. memory: allocates, fills " +
					"and copies blocks of 1 KiB to 512 KiB. both: first cpu, then memory, each for half of the time"},
			{Name: "workers", Kind: param.Int, Default: "0", Min: 0, Max: 1024,
				Doc: "number of threads; 0 means two threads for each CPU that the environment shows"},
			workload.TimeParam,
		},
		Run: runLoop,
	}
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	n := int(p.Int("workers"))
	if n == 0 {
		n = 2 * runtime.NumCPU()
	}
	rounds := map[string]func() func() error{"cpu": sumParts, "memory": copyParts}
	if p.Text("test") != "both" {
		return runTeam(ctx, n, rounds[p.Text("test")], p.Duration("time"))
	}
	cpu, err := runTeam(ctx, n, rounds["cpu"], p.Duration("time")/2)
	if err != nil {
		return cpu, err
	}
	memory, err := runTeam(ctx, n, rounds["memory"], p.Duration("time")/2)
	if err != nil {
		return memory, err
	}
	return averageOf(cpu, memory), nil
}

// runTeam runs rounds with n threads for a time.
func runTeam(ctx context.Context, n int, round func() func() error, length time.Duration) (wire.Result, error) {
	t := hireTeam(n, round)
	defer t.dismiss()
	return loop.Timed{For: length, Do: t.do, CPU: spentCPU}.Operations(ctx, func() (string, error) {
		return fmt.Sprintf("%d threads agreed in every round", n), nil
	})
}

// averageOf is the result of two parts of the same length: the rounds of both over their
// time, which is the mean of their rates. Its slices would show the change from one part to
// the other, so it has none.
func averageOf(a, b wire.Result) wire.Result {
	out := a
	out.Work += b.Work
	out.ElapsedNS += b.ElapsedNS
	out.Values = []sample.Value{loop.Throughput(out.Work/(float64(out.ElapsedNS)/1e9), "op/s")}
	out.Windows = nil
	out.Check.Answer = fmt.Sprintf("%s; cpu %.6g op/s, memory %.6g op/s", a.Check.Answer, a.Values[0].Value,
		b.Values[0].Value)
	out.Check.Scaling = min(a.Check.Scaling, b.Check.Scaling)
	if a.WorkerCPUSeconds != nil && b.WorkerCPUSeconds != nil {
		out.WorkerCPUSeconds = new(*a.WorkerCPUSeconds + *b.WorkerCPUSeconds)
	}
	return out
}

// spentCPU returns the CPU seconds of all threads of this process.
func spentCPU() (float64, error) {
	u, err := probe.Process()
	if err != nil {
		return 0, err
	}
	return u.CPUSeconds(), nil
}

// team is a group of threads that divide the rounds.
type team struct {
	jobs []chan int
	done chan error
}

// hireTeam starts n threads, each with its own round function.
func hireTeam(n int, round func() func() error) *team {
	t := &team{jobs: make([]chan int, n), done: make(chan error, n)}
	for i := range t.jobs {
		t.jobs[i] = make(chan int)
		go func() {
			runtime.LockOSThread()
			do := round()
			for k := range t.jobs[i] {
				var err error
				for range k {
					if err = do(); err != nil {
						break
					}
				}
				t.done <- err
			}
		}()
	}
	return t
}

// do runs n rounds, divided among the threads, and waits for all of them.
func (t *team) do(n int) error {
	for i, c := range t.jobs {
		c <- (n + len(t.jobs) - 1 - i) / len(t.jobs) // the first ones get the rest
	}
	var first error
	for range t.jobs {
		if err := <-t.done; first == nil {
			first = err
		}
	}
	return first
}

func (t *team) dismiss() {
	for _, c := range t.jobs {
		close(c)
	}
}

// steps is the length of a round of sums.
const steps = 2000

// sumParts is three integer parts to one floating-point part. Both results are
// known: a full-period generator takes as many steps forwards as backwards, and
// an integral has a closed form.
func sumParts() func() error {
	return func() error {
		for range 3 {
			if got := thereAndBack(42); got != 42 {
				return loop.Mismatch("the number that was stepped there and back", got, 42)
			}
		}
		if got := integral(); math.Abs(got-math.Pi) > 1e-6 {
			return loop.Mismatch("the integral of 4/(1+x²) from 0 to 1", got, math.Pi)
		}
		return nil
	}
}

// thereAndBack steps a linear congruential generator modulo 2⁶⁴ forwards and,
// with the inverse of its factor, backwards: multiplications, additions,
// shifts and a division for each step.
//
//go:noinline
func thereAndBack(x uint64) uint64 {
	const factor, inverse, plus = 6364136223846793005, 13877824140714322085, 1442695040888963407
	var folded uint64
	for range steps / 2 {
		x = x*factor + plus
		folded ^= x>>7/(x&1023+1) + x>>3
	}
	for range steps / 2 {
		folded ^= x>>7/(x&1023+1) + x>>3
		x = (x - plus) * inverse
	}
	return x + folded // every term was XORed twice, so folded is 0
}

// integral is the midpoint rule for 4/(1+x²): an addition, two multiplications
// and a division per step.
//
//go:noinline
func integral() float64 {
	const width = 1.0 / steps
	sum := 0.0
	for i := range steps {
		x := (float64(i) + 0.5) * width
		sum += 4 / (1 + x*x)
	}
	return sum * width
}

// sizes are the blocks of a round of copies, in bytes.
var sizes = []int{1 << 10, 1 << 13, 1 << 16, 1 << 19}

// copyParts allocates a block from the system, fills it, copies it to another one
// and releases both, for each size. This includes page faults, as with large
// blocks of malloc.
func copyParts() func() error {
	value := uint64(0)
	return func() error {
		for _, size := range sizes {
			value++
			if err := copyOnce(size, value); err != nil {
				return err
			}
		}
		return nil
	}
}

func copyOnce(size int, value uint64) error {
	from, err := allocate(size)
	if err != nil {
		return fault.Op("allocate", err)
	}
	defer release(from)
	to, err := allocate(size)
	if err != nil {
		return fault.Op("allocate", err)
	}
	defer release(to)
	for i := range from {
		from[i] = byte(value) ^ byte(i)
	}
	copy(to, from)
	at := int(value*7919) % size
	if want := byte(value) ^ byte(at); to[at] != want {
		return loop.Mismatch(fmt.Sprintf("byte %d of the copy", at), to[at], want)
	}
	return nil
}
