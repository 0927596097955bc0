package ubench

import (
	"math"
	"sync/atomic"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "40ms"},
		Cells:  []param.Values{{"test": "memory"}, {"test": "both"}, {"workers": "1"}, {"test": "memory", "workers": "3"}},
	})
}

func TestSumsHaveTheirAnswers(t *testing.T) {
	for _, x := range []uint64{0, 1, 42, math.MaxUint64} {
		if got := thereAndBack(x); got != x {
			t.Errorf("%d comes back as %d", x, got)
		}
	}
	if got := integral(); math.Abs(got-math.Pi) > 1e-6 || got == math.Pi {
		t.Errorf("the integral is %v", got)
	}
}

// All rounds are done, by all threads, and an error of one is the error of
// the batch.
func TestTeam(t *testing.T) {
	var count, hired atomic.Int64
	bad := fault.New(fault.Subject, "a wrong sum")
	members := hireTeam(3, func() func() error {
		hired.Add(1)
		return func() error {
			if count.Add(1) == 20 {
				return bad
			}
			return nil
		}
	})
	defer members.dismiss()
	for _, n := range []int{1, 2, 3, 7} {
		before := count.Load()
		if err := members.do(n); err != nil || count.Load()-before != int64(n) {
			t.Errorf("%d rounds: %d were done, %v", n, count.Load()-before, err)
		}
	}
	if err := members.do(30); err != bad {
		t.Errorf("error is %v", err)
	}
	if err := members.do(2); err != nil || hired.Load() != 3 {
		t.Errorf("after an error: %v; %d threads", err, hired.Load())
	}
}

// The average is the mean of both rates, as ubench prints it; the costs are those of both.
func TestAverage(t *testing.T) {
	part := func(rate, cpu float64) wire.Result {
		return wire.Result{Values: []sample.Value{loop.Throughput(rate, "op/s")}, Work: rate, ElapsedNS: 1e9,
			Windows: []float64{1}, WorkerCPUSeconds: &cpu}
	}
	got := averageOf(part(52218, 2), part(42596, 1))
	if got.Values[0].Value != 47407 || got.Work != 94814 || got.ElapsedNS != 2e9 || *got.WorkerCPUSeconds != 3 ||
		got.Windows != nil {
		t.Errorf("%+v", got)
	}
}
