package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// Timed is the timed part of a loop: units of work done one after another for a
// given time, on one thread, without the garbage collector. Before it starts,
// Run finds a batch size that takes much longer than reading the clock, and
// checks that twice the units take about twice the time. If a compiler removed
// the work, that check fails.
type Timed struct {
	For time.Duration
	// Do does n units of work. It does not allocate.
	Do func(n int) error
	// Begin is called just before the timed part, after the checks. Finish
	// is called at its end and is timed, for example a last fsync. Both may
	// be nil.
	Begin, Finish func() error
	// Low and High are the accepted bounds of time(2n)/time(n); 0 is 1.6
	// and 2.6. Work that waits for a device scales less evenly than
	// computation.
	Low, High float64
	// Largest bounds n; 0 means no bound. Run does not check the scaling if Largest
	// is 1.
	Largest int
	// Clock is the monotonic clock and CPU the CPU seconds spent so far;
	// nil uses this system's clock, and the CPU time of this thread and its
	// finished children.
	Clock func() time.Duration
	CPU   func() (float64, error)
}

// Timing is the result of a timed part.
type Timing struct {
	Work       float64 // units
	Elapsed    time.Duration
	CPUSeconds *float64
	Windows    []float64 // units done in each of equal slices of Elapsed
	Scaling    float64   // time(2n)/time(n); 0 if it was not checked
}

const (
	windows = 16   // slices of the timed part
	records = 4096 // batches whose end times are kept; beyond that, pairs are merged
	share   = 200  // a batch takes about this fraction of the timed part: 1/share
)

// Run runs the timed part. An error of Do ends it. An error of kind
// fault.Subject says that the time did not scale with the work.
func (t Timed) Run(ctx context.Context) (Timing, error) {
	if t.Clock == nil {
		began := time.Now()
		t.Clock = func() time.Duration { return time.Since(began) }
	}
	if t.CPU == nil {
		t.CPU = probe.Thread
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer withoutCollector()()

	n, err := t.batchSize(ctx)
	if err != nil {
		return Timing{}, err
	}
	scaling, err := t.scaling(ctx, n)
	if err != nil {
		return Timing{}, err
	}
	out, err := t.measure(ctx, n)
	out.Scaling = scaling
	return out, err
}

// Verified runs the timed part, and then check, which verifies what it did and
// returns the answer.
func (t Timed) Verified(ctx context.Context, check func() (answer string, err error)) (Timing, wire.Check, error) {
	timing, err := t.Run(ctx)
	if err != nil {
		return timing, wire.Check{}, err
	}
	answer, err := check()
	return timing, wire.Check{Answer: answer}, err
}

// Operations is Verified for a loop whose only metric is its throughput, in op/s.
func (t Timed) Operations(ctx context.Context, check func() (answer string, err error)) (wire.Result, error) {
	timing, c, err := t.Verified(ctx, check)
	if err != nil {
		return wire.Result{}, err
	}
	return timing.Result("op", c, Throughput(timing.Rate(), "op/s")), nil
}

// ErrEnough is returned by Do if the work ends before the time. Its units
// count.
var ErrEnough = errors.New("all the work is done")

// slack is how much the heap may grow before the garbage collector runs, in
// bytes: some system calls of Go allocate a little, which could fill a small
// guest after hours.
const slack = 64 << 20

// withoutCollector collects garbage and then disables the garbage collector.
// restore enables it again.
func withoutCollector() (restore func()) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + slack)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}

// timeUnits returns the time for n units.
func (t Timed) timeUnits(n int) (time.Duration, error) {
	from := t.Clock()
	err := t.Do(n)
	return t.Clock() - from, err
}

// shortestTime returns the shortest of k times for n units, because noise only adds
// time.
func (t Timed) shortestTime(ctx context.Context, n, k int) (time.Duration, error) {
	least := time.Duration(math.MaxInt64)
	for range k {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		d, err := t.timeUnits(n)
		if err != nil {
			return 0, err
		}
		least = min(least, d)
	}
	return least, nil
}

// batchSize returns a number of units that takes a small share of the timed part,
// and at least 100 µs, so that the cost of reading the clock is negligible.
func (t Timed) batchSize(ctx context.Context) (int, error) {
	want := min(max(t.For/share, 100*time.Microsecond), 10*time.Millisecond)
	for n := 1; n < 1<<30; {
		if t.Largest > 0 && n >= t.Largest {
			return t.Largest, nil
		}
		d, err := t.timeUnits(n)
		if err == nil && d >= want {
			// The first time may include an interruption.
			if d, err = t.shortestTime(ctx, n, 2); err == nil && d >= want {
				return n, nil
			}
		}
		if err != nil {
			return 0, err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		// Approach the share in bounded steps, because short times are
		// inexact.
		step := float64(want) / float64(max(d, 1))
		n = int(float64(n)*min(max(step, 1.2), 8)) + 1
	}
	return 0, fault.New(fault.Subject, "the work takes no time: the compiler optimized it away")
}

// scaling returns time(2n)/time(n), each the shortest of several. It adds
// rounds while the ratio is out of bounds, because noise can only make a time
// too long, with more units while the ratio is too small, because then the cost
// of starting the work (such as threads) matters less. The ratio of a removed
// loop is 1. On a busy machine the bounds may be missed in every round; that is
// not a failure of the subject.
func (t Timed) scaling(ctx context.Context, n int) (float64, error) {
	if t.Largest == 1 {
		return 0, nil
	}
	low, high := t.Low, t.High
	low = cmp.Or(low, 1.6)
	high = cmp.Or(high, 2.6)
	single, double := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	singleCPU, doubleCPU := math.Inf(1), math.Inf(1)
	tries := 3 // in a round
	if n == 1 {
		tries = 1 // one unit takes long, so noise matters little
	}
	var ratio float64
	for round := range 8 {
		few := ratio < low || single == 0 // 0: n units fit between two ticks of the clock
		if more := 8 * n; round > 0 && few && single < scalingMost && (t.Largest == 0 || more <= t.Largest) {
			n = more
			single, double = math.MaxInt64, math.MaxInt64
			singleCPU, doubleCPU = math.Inf(1), math.Inf(1)
		}
		for range tries {
			one, oneCPU, err := t.timeAndCPU(ctx, n)
			if err != nil {
				return 0, err
			}
			two, twoCPU, err := t.timeAndCPU(ctx, 2*n)
			if err != nil {
				return 0, err
			}
			single, double = min(single, one), min(double, two)
			singleCPU, doubleCPU = min(singleCPU, oneCPU), min(doubleCPU, twoCPU)
		}
		ratio = float64(double) / float64(max(single, 1))
		if ratio >= low && ratio <= high {
			return ratio, nil
		}
	}
	if ratio >= removed {
		// The work is done, if not evenly: the result contains the
		// ratio.
		return ratio, nil
	}
	// A busy scheduler may interrupt the single time in every round and the
	// double time in none. CPU time excludes such interruptions, and for a
	// removed loop it does not double.
	if r := doubleCPU / singleCPU; r >= low && r <= high {
		return r, nil
	}
	// Work that takes this long was not removed: the clock of a guest that loses time, or
	// a neighbor, made both times alike. The gate "scaling" reads the ratio.
	if single >= scalingMost {
		return ratio, nil
	}
	return ratio, fault.New(fault.Subject, "twice the work took %.2f times the time (%v and %v for %d and %d units): "+
		"the compiler optimized the work away",
		ratio, single, double, n, 2*n)
}

// timeAndCPU returns the time and the CPU seconds of n units; the latter are
// infinite if the system does not count them.
func (t Timed) timeAndCPU(ctx context.Context, n int) (time.Duration, float64, error) {
	before, berr := t.CPU()
	d, err := t.shortestTime(ctx, n, 1)
	after, aerr := t.CPU()
	if berr != nil || aerr != nil {
		return d, math.Inf(1), err
	}
	return d, after - before, err
}

// scalingMost is the time of n units beyond which n is not increased.
const scalingMost = 10 * time.Millisecond

// removed is the ratio below which the work was removed.
const removed = 1.3

// measure runs batches of n until the time is up.
func (t Timed) measure(ctx context.Context, n int) (Timing, error) {
	var out Timing
	ends := make([]time.Duration, 0, records)
	each := 1 // batches per record
	if t.Begin != nil {
		if err := t.Begin(); err != nil {
			return out, err
		}
	}
	before, cpuErr := t.CPU()
	from := t.Clock()
	for batches := 1; ; batches++ {
		err := t.Do(n)
		if err != nil && err != ErrEnough {
			return out, err
		}
		at := t.Clock() - from
		out.Work += float64(n)
		if batches%each == 0 {
			if len(ends) == records {
				ends = everySecond(ends)
				each *= 2
			}
			if batches%each == 0 {
				ends = append(ends, at)
			}
		}
		if at >= t.For || err == ErrEnough {
			break
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
	}
	if t.Finish != nil {
		if err := t.Finish(); err != nil {
			return out, err
		}
	}
	out.Elapsed = t.Clock() - from
	if after, err := t.CPU(); err == nil && cpuErr == nil {
		out.CPUSeconds = new(after - before)
	}
	out.Windows = spreadWork(ends, float64(n*each))
	return out, nil
}

// everySecond keeps every second end time, in place.
func everySecond(ends []time.Duration) []time.Duration {
	for i := range len(ends) / 2 {
		ends[i] = ends[2*i+1]
	}
	return ends[:len(ends)/2]
}

// spreadWork divides the work between consecutive end times among equal slices of
// the time until the last one. It returns nil if there are fewer end times than
// slices.
func spreadWork(ends []time.Duration, work float64) []float64 {
	if len(ends) < windows || ends[len(ends)-1] <= 0 {
		return nil
	}
	out := make([]float64, windows)
	width := float64(ends[len(ends)-1]) / windows
	from := 0.0
	for _, e := range ends {
		to := float64(e)
		for i := int(from / width); i < windows && to > from; i++ {
			lo, hi := max(from, float64(i)*width), min(to, float64(i+1)*width)
			if hi > lo {
				out[i] += work * (hi - lo) / (to - from)
			}
			if hi >= to {
				break
			}
		}
		from = to
	}
	return out
}

// Rate is units per second.
func (t Timing) Rate() float64 { return t.Work / t.Elapsed.Seconds() }

// Result makes the result of a loop from the timing, its check and its values.
// unit is the name of one unit of work.
func (t Timing) Result(unit string, check wire.Check, values ...sample.Value) wire.Result {
	check.Verified, check.Scaling = true, t.Scaling
	return wire.Result{
		Values:           values,
		Work:             t.Work,
		WorkUnit:         unit,
		ElapsedNS:        t.Elapsed.Nanoseconds(),
		WorkerCPUSeconds: t.CPUSeconds,
		Windows:          t.Windows,
		Check:            check,
	}
}

// Throughput is a value of the metric throughput.
func Throughput(rate float64, unit string) sample.Value {
	return sample.Value{Metric: "throughput", Unit: unit, Value: rate}
}

// Mismatch is the error of a loop with a wrong result.
func Mismatch(what string, got, want any) error {
	return fault.Wrap(fault.Subject, "check", fmt.Errorf("%s is %v instead of %v", what, got, want))
}
