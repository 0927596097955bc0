package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// Without a step, at most Level of the series get a P of at most Level, whatever the
// noise; with ties too.
func TestStepTestKeepsItsLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() float64{
		"normal": r.NormFloat64,
		"skewed": r.ExpFloat64,
		"Cauchy": func() float64 { return math.Tan(math.Pi * (r.Float64() - 0.5)) },
		"ties":   func() float64 { return float64(r.IntN(4)) },
	} {
		for _, n := range []int{9, 30} {
			const replays = 1500
			alarms := 0
			for range replays {
				xs := make([]float64, n)
				for i := range xs {
					xs[i] = draw()
				}
				if StepTest(xs, ones(n), StepOption{Least: 3, Level: 0.05}).P <= 0.05 {
					alarms++
				}
			}
			// 5 % of 1500 are 75, with a standard deviation of 8.4.
			if alarms > 100 || alarms < 25 {
				t.Errorf("%s, %d values: %d alarms in %d", name, n, alarms, replays)
			}
		}
	}
}

func TestStepTestFindsTheStep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, at := range []int{10, 15, 20} {
		xs := make([]float64, 30)
		for i := range xs {
			if xs[i] = r.NormFloat64(); i >= at {
				xs[i] += 10
			}
		}
		got := StepTest(xs, ones(30), StepOption{Least: 3, Level: 0.01})
		if max(got.At-at, at-got.At) > 2 || got.P > 0.01 {
			t.Errorf("a step at %d: %+v", at, got)
		}
		// Backward, it is as clear and mirrored.
		slices.Reverse(xs)
		back := StepTest(xs, ones(30), StepOption{Least: 3, Level: 0.01})
		if back.At != 30-got.At || math.Abs(back.Scan-got.Scan) > 1e-9*got.Scan {
			t.Errorf("backward: %+v, forward %+v", back, got)
		}
		// Whatever keeps the order of the values changes nothing.
		for i := range xs {
			xs[i] = math.Exp(xs[i] / 3)
		}
		if curved := StepTest(xs, ones(30), StepOption{Least: 3, Level: 0.01}); curved.Scan != back.Scan {
			t.Errorf("values with the same ranks: %+v", curved)
		}
	}
}

// One value that is far off is no step, at the end neither, nor are two.
func TestStepTestIgnoresFewValuesFarOff(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	alarms := 0
	for range 200 {
		xs := make([]float64, 40)
		for i := range xs {
			xs[i] = r.NormFloat64()
		}
		xs[39] = 1000
		if StepTest(xs, ones(40), StepOption{Least: 3, Level: 0.05}).P <= 0.05 {
			alarms++
		}
	}
	if alarms > 25 {
		t.Errorf("%d of 200 series with one value far off have a step", alarms)
	}
}

// Half of the values are noisier by a factor of ten: the test stays near its level.
func TestStepTestWithUnequalVariances(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	variances := make([]float64, 40)
	for i := range variances {
		if variances[i] = 1; i >= 30 {
			variances[i] = 100
		}
	}
	const replays = 1000
	alarms, found := 0, 0
	for range replays {
		xs, step := make([]float64, 40), make([]float64, 40)
		for i := range xs {
			xs[i] = math.Sqrt(variances[i]) * r.NormFloat64()
			if step[i] = xs[i]; i >= 15 {
				step[i] += 2
			}
		}
		if StepTest(xs, variances, StepOption{Least: 3, Level: 0.05}).P <= 0.05 {
			alarms++
		}
		if StepTest(step, variances, StepOption{Least: 3, Level: 0.05}).P <= 0.05 {
			found++
		}
	}
	if alarms > 80 || found < 950 {
		t.Errorf("%d alarms, %d found in %d", alarms, found, replays)
	}
}

func TestStepTestEdges(t *testing.T) {
	for name, s := range map[string]Step{
		"none":         StepTest(nil, nil, StepOption{Least: 3, Level: 0.05}),
		"too short":    StepTest(make([]float64, 5), ones(5), StepOption{Least: 3, Level: 0.05}),
		"constant":     StepTest(ones(30), ones(30), StepOption{Least: 3, Level: 0.05}),
		"wrong length": StepTest(ones(30), ones(29), StepOption{Least: 3, Level: 0.05}),
	} {
		if s.P != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	xs := []float64{1, 2, 3, 4, 11, 12, 13, 14}
	o := StepOption{Least: 3, Level: 0.05}
	a := StepTest(xs, ones(8), o)
	if a != StepTest(xs, ones(8), o) {
		t.Error("the same series and seed give different results")
	}
	// Of 70 ways to choose the lower half, 2 are as clear, and few other orders are.
	if a.At != 4 || a.P < 2./70-0.015 || a.P > 0.05 {
		t.Errorf("a clear step in 8 values: %+v", a)
	}
	if o.Inflation = 3; StepTest(xs, ones(8), o).P <= 0.05 {
		t.Error("a threefold variance is ignored")
	}
}

// A level that returns is found by BumpTest, which keeps its level too.
func TestBumpTest(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const replays = 600
	alarms, found := 0, 0
	o := StepOption{Least: 3, Level: 0.05}
	for range replays {
		xs, bump := make([]float64, 30), make([]float64, 30)
		for i := range xs {
			xs[i] = r.ExpFloat64()
			if bump[i] = r.NormFloat64(); i >= 12 && i < 17 {
				bump[i] += 8
			}
		}
		if BumpTest(xs, ones(30), o).P <= 0.05 {
			alarms++
		}
		got := BumpTest(bump, ones(30), o)
		if got.P <= 0.05 && max(got.From-12, 12-got.From) <= 2 && max(got.To-17, 17-got.To) <= 2 {
			found++
		}
	}
	// 5 % of 600 are 30, with a standard deviation of 5.3.
	if alarms > 46 || alarms < 12 || found < 520 {
		t.Errorf("%d alarms and %d found in %d", alarms, found, replays)
	}
	for name, b := range map[string]Bump{
		"none":      BumpTest(nil, nil, o),
		"too short": BumpTest(make([]float64, 8), ones(8), o),
		"constant":  BumpTest(ones(30), ones(30), o),
		"too large": BumpTest(slices.Repeat([]float64{math.MaxFloat64, -math.MaxFloat64}, 8), ones(16), o),
	} {
		if b.P != 1 && name != "too large" {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
