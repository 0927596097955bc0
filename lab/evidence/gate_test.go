package evidence

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	workloadall "bakeoff/measure/workload/all"
	"bakeoff/reach/wire"
)

func f(v float64) *float64 { return &v }

// good is a trial that passes every gate: one second on the host, with load
// from another.
func good() Trial {
	cpu := func(user, idle float64) *facts.CPU { return &facts.CPU{User: user, Idle: idle} }
	before := func() *facts.Counters {
		return &facts.Counters{AtNS: 0, WallNS: ns(5e18), RawNS: ns(7), ClockSource: "tsc", ReadBytes: f(0), WriteBytes: f(0),
			CPU: cpu(10, 10), SwapIn: f(5), SwapOut: f(5), ThrottledSeconds: f(1), ThermalThrottles: f(3),
			FrequencyHz: f(3e9), Scope: &facts.Scope{OOMKills: f(0)}}
	}
	after := func() *facts.Counters {
		return &facts.Counters{AtNS: 1e9, WallNS: ns(5e18 + 1.001e9), RawNS: ns(999e6 + 7), ClockSource: "tsc",
			ReadBytes: f(3 << 20), WriteBytes: f(3 << 20), CPU: cpu(10.9, 10.1), SwapIn: f(5), SwapOut: f(5),
			ThrottledSeconds: f(1), ThermalThrottles: f(3), FrequencyHz: f(3e9), Scope: &facts.Scope{OOMKills: f(0)}}
	}
	return Trial{
		Line: store.Line{Trial: &store.Trial{Start: noon, End: noon.Add(time.Second),
			Before: before(), After: after(), GeneratorBefore: before(), GeneratorAfter: after()}},
		Work: &wire.Result{ElapsedNS: 9e8, Check: wire.Check{Verified: true, Scaling: 2.02},
			Errors: map[string]int64{"status 404": 0},
			Work:   9000, WorkUnit: "request", Forced: &wire.Forced{ReadBytes: 3 << 20, WriteBytes: 3 << 20},
			Values:   []sample.Value{{Metric: "latency-p50", Value: 2e-3}, {Metric: "latency-p99", Value: 5e-3}},
			Counters: &wire.Span{After: facts.Counters{AtNS: 95e7}}, Generator: &wire.Generator{Utilisation: .8,
				LatenessP50: f(2e-5), LatenessP99: f(1e-4)},
			Windows: []float64{10, 11, 10, 9, 10, 10, 11, 10, 10, 9, 10, 11, 10, 10, 9, 10}},
		Path:     &workload.Path{PerSecond: 20000, BytesPerSecond: 8e7, Workers: 1},
		Reported: &workload.ReportedTime{Seconds: 3, Elapsed: 3.1, CPUSeconds: 3},
	}
}

// scopes sets how long the environment waited for a CPU before and until the end of the
// trial, and the CPU time that it got in it.
func scopes(t *Trial, before, after, used *float64) {
	t.Line.Before.Scope.CPUWait, t.Line.After.Scope.CPUWait = before, after
	t.Line.Before.Scope.CPUSeconds, t.Line.After.Scope.CPUSeconds = f(0), used
}

// shares makes the CPU busy with tasks for 0.99 s, of which the environment used some, and sets
// how long it waited.
func shares(t *Trial, waited *float64, used float64) {
	scopes(t, f(0), waited, f(used))
	t.Line.Before.CPUSet, t.Line.After.CPUSet = []int{1}, []int{1}
	t.Line.Before.TaskNS, t.Line.After.TaskNS = ns(5e9), ns(5e9+99e7)
}

func ns(n int64) *int64 { return &n }

func TestGates(t *testing.T) {
	if failed := failing(good()); len(failed) != 0 {
		t.Fatalf("a good trial fails %v", failed)
	}
	if failed := failing(Trial{}); len(failed) != 0 {
		t.Errorf("where nothing is known, %v fail", failed)
	}
	for _, x := range []struct {
		name, gate, reason string
		change             func(*Trial)
	}{
		{"not verified", "answer", "not verified", func(t *Trial) { t.Work.Check.Verified = false }},
		{"a busy generator", "ceiling", "97 %", func(t *Trial) { t.Work.Generator.Utilisation = .97 }},
		{"more time inside than outside", "clock", "1.100 s passed inside, 1.000 s outside",
			func(t *Trial) { t.Work.ElapsedNS = 11e8 }},
		{"a clock that stood still", "clock", "0.400 s passed inside, 1.000 s outside", func(t *Trial) {
			t.Line.Clock = &store.Clock{InsideNS: 4e8, OutsideNS: 1e9, UncertaintyNS: 5e6}
		}},
		{"a wall clock that was set", "clock", "on the host the wall clock was set by −3600.999 s",
			func(t *Trial) { *t.Line.After.WallNS -= 3.601e12 }},
		{"a clock that is corrected", "clock", "on the host the clock was corrected by +0.051 s",
			func(t *Trial) { *t.Line.After.RawNS -= 5e7 }},
		{"another clock source", "clock", `from "tsc" to "hpet"`, func(t *Trial) { t.Line.After.ClockSource = "hpet" }},
		{"a wall clock set inside", "clock", "inside the wall clock was set by +60.000 s", func(t *Trial) {
			t.Work.Counters.Before.WallNS, t.Work.Counters.After.WallNS = ns(0), ns(60.95e9)
		}},
		{"another length", "own-time", "0.88 s", func(t *Trial) { t.OwnTime = "the program reports 0.88 s" }},
		{"CPU time for time", "cpu-time", "the program reports 1.48 s, but 3.02 s passed and its CPU time is 1.50 s",
			func(t *Trial) {
				t.Reported = &workload.ReportedTime{Seconds: 1.48, Elapsed: 3.02, CPUSeconds: 1.5}
			}},
		{"reads from memory", "disk", "3.0 MiB were read past the page cache, but the host's disks moved 0.5 MiB",
			func(t *Trial) { *t.Line.After.ReadBytes = 1 << 19 }},
		{"writes to memory", "disk", "3.0 MiB were written past the page cache",
			func(t *Trial) { *t.Line.After.WriteBytes = 0 }},
		{"a late generator", "lateness", "the median of the latency is 2 ms, and the generator sent 1.5 ms late",
			func(t *Trial) { t.Work.Generator.LatenessP50 = f(1.5e-3) }},
		{"a full path", "path", "10000 request/s of the 10100 that the network path carries (80 MB/s), with the " +
			"environment's CPUs 50 % busy", func(t *Trial) {
			t.Path.PerSecond, t.Line.After.CPU.User, t.Line.After.CPU.Idle = 10100, 10.5, 10.5
		}},
		{"a quota inside", "throttled", "0.500 of 0.950 s", func(t *Trial) {
			t.Work.Counters.Before.ThrottledSeconds, t.Work.Counters.After.ThrottledSeconds = f(0), f(.5)
		}},
		{"two kinds of errors", "errors", "short body: 1, status 404: 7",
			func(t *Trial) { t.Work.Errors = map[string]int64{"status 404": 7, "short body": 1} }},
		{"a falling clock", "frequency", "3.00 to 2.00 GHz", func(t *Trial) { t.Line.After.FrequencyHz = f(2e9) }},
		{"others that have the CPU", "cpu-wait", "waited 0.980 of 1.000 s for CPUs that other programs had, " +
			"and got 0.007 s of CPU time",
			func(t *Trial) { scopes(t, f(0), f(.98), f(.007)) }},
		{"CPUs that others used", "cpu-shared", "were busy for 0.990 s, and the environment used 0.400 s of them",
			func(t *Trial) { shares(t, f(.3), .4) }},
		{"CPUs that others used, and waits that are unknown", "cpu-shared", "used 0.400 s of them",
			func(t *Trial) { shares(t, nil, .4) }},
		{"a killed process", "memory", "1 processes", func(t *Trial) { t.Line.After.Scope.OOMKills = f(1) }},
		{"an empty loop", "scaling", "1.00 times", func(t *Trial) { t.Work.Check.Scaling = 1 }},
		{"scaling that is no number", "scaling", "NaN", func(t *Trial) { t.Work.Check.Scaling = math.NaN() }},
		{"a generator without its CPU", "starved", "12 %", func(t *Trial) {
			t.Work.Values = []sample.Value{{Metric: "generator-starved", Unit: "1", Value: .12}}
		}},
		{"steal from the generator", "steal", "8.0 % of the generator's", func(t *Trial) {
			t.Work.Values = []sample.Value{{Metric: "generator-stolen", Unit: "1", Value: .08}}
		}},
		{"steal", "steal", "9.1 %", func(t *Trial) { t.Line.After.CPU.Steal = .1 }},
		{"swap", "swap", "3 pages were swapped in and 0 out", func(t *Trial) { t.Line.After.SwapIn = f(8) }},
		{"heat", "throttled", "2 times", func(t *Trial) { t.Line.After.ThermalThrottles = f(5) }},
		{"a quota", "throttled", "0.100 of 1.000 s", func(t *Trial) { t.Line.After.ThrottledSeconds = f(1.1) }},
		{"steal from the generator's host", "steal", "9.1 % of the CPU time of the generator's host",
			func(t *Trial) { t.Line.GeneratorAfter.CPU.Steal = .1 }},
		{"heat of the generator's host", "throttled", "on the generator's host the hardware throttled 2 times",
			func(t *Trial) { t.Line.GeneratorAfter.ThermalThrottles = f(5) }},
		{"a quota on the generator", "throttled", "on the generator's host a quota held it back for 0.100 of 1.000 s",
			func(t *Trial) { t.Line.GeneratorAfter.ThrottledSeconds = f(1.1) }},
		{"a clock set on the generator's host", "clock", "on the generator's host the wall clock was set by −3600.999 s",
			func(t *Trial) { *t.Line.GeneratorAfter.WallNS -= 3.601e12 }},
		{"a step", "trend", "−50 % after 50 %", func(t *Trial) {
			t.Work.Windows = []float64{20, 20.1, 20.2, 20.3, 20, 20.1, 20.2, 20, 10, 10.1, 10.2, 10, 10.1, 10.3, 10, 10.1}
		}},
	} {
		trial := good()
		x.change(&trial)
		failed := failing(trial)
		if len(failed) != 1 || !strings.Contains(failed[x.gate], x.reason) {
			t.Errorf("%s: %v, want %s because of %q", x.name, failed, x.gate, x.reason)
		}
	}
	for name, change := range map[string]func(*Trial){
		"a full path and a busy server": func(t *Trial) {
			t.Path.PerSecond = 10100
			t.Line.After.CPU.User += .09
			t.Line.After.CPU.Idle -= .09
		},
		"others that have the CPU now and then": func(t *Trial) { scopes(t, f(0), f(.7), f(.2)) },
		"one CPU of several that is busy":       func(t *Trial) { scopes(t, f(0), f(.8), f(.5)) },
		"a kernel without pressure":             func(t *Trial) { scopes(t, nil, nil, f(.007)) },
		"a kernel without accounting":           func(t *Trial) { scopes(t, f(0), f(.98), nil) },
		"a quota of its own": func(t *Trial) {
			scopes(t, f(0), f(.98), f(.02))
			t.Line.Before.Scope.Throttled, t.Line.After.Scope.Throttled = f(3), f(3.9)
		},
		"CPUs that a kernel thread of its own used": func(t *Trial) { shares(t, f(.1), .4) },
		"CPUs that it used mostly itself":           func(t *Trial) { shares(t, f(.4), .6) },
		"CPUs that others used for some turns": func(t *Trial) {
			shares(t, f(.1), .05)
			t.Line.After.AtNS, *t.Line.After.TaskNS = 2e8, 5e9+2e8
			t.Line.After.WallNS, t.Line.After.RawNS, t.Work = ns(5e18+2e8), ns(2e8+7), nil
		},
		"CPUs that had time left": func(t *Trial) {
			shares(t, f(.5), .2)
			*t.Line.After.TaskNS = 5e9 + 9e8
		},
		"memory that was declared": func(t *Trial) { *t.Line.After.WriteBytes = 0; t.Backing = "tmpfs" },
		"a short honest claim":     func(t *Trial) { t.Reported.Seconds, t.Reported.CPUSeconds = 1, .2 },
		"a closed loop": func(t *Trial) {
			t.Work.Generator.LatenessP50,
				t.Work.Generator.LatenessP99 = nil, nil
		},
		"a generator's host that says nothing": func(t *Trial) {
			t.Line.GeneratorBefore,
				t.Line.GeneratorAfter = &facts.Counters{}, &facts.Counters{}
		},
		"a little steal from the generator": func(t *Trial) { t.Line.GeneratorAfter.CPU.Steal = .05 },
		"steal below a tick there": func(t *Trial) {
			*t.Line.GeneratorAfter.CPU = facts.CPU{User: 10.1, Idle: 10.1,
				Steal: .02}
		},
		"a generator that swaps":      func(t *Trial) { t.Line.GeneratorAfter.SwapIn = f(9) },
		"a rate that is known better": func(t *Trial) { t.Line.Before.ClockSource = "tsc-early" },
		"clocks that nobody read": func(t *Trial) {
			t.Line.After.WallNS, t.Line.Before.RawNS,
				t.Line.Before.ClockSource = nil, nil, ""
		},
	} {
		trial := good()
		change(&trial)
		if failed := failing(trial); len(failed) != 0 {
			t.Errorf("%s: %v", name, failed)
		}
	}
	trial := good()
	trial.Work.Errors = map[string]int64{wire.DiskFull: 3}
	if failed := failing(trial); failed["disk-full"] == "" || failed["errors"] == "" {
		t.Errorf("a full disk: %v", failed)
	}
}

func failing(t Trial) map[string]string {
	out := map[string]string{}
	for _, g := range Gates() {
		if reason := g.Failed(t); reason != "" {
			out[g.Name] = reason
		}
	}
	return out
}

func TestGatesAreListedInOrder(t *testing.T) {
	var names []string
	for _, g := range Gates() {
		names = append(names, g.Name)
		if g.Doc == "" {
			t.Errorf("%s does not say what it means", g.Name)
		}
	}
	if !slices.IsSorted(names) {
		t.Error(names)
	}
}

// The distribution of U equals the one counted over all orders.
func TestRankSumEqualsEnumeration(t *testing.T) {
	for m := 1; m <= 5; m++ {
		for n := 1; n <= 5; n++ {
			counts := make([]float64, m*n+1)
			for bits := range 1 << (m + n) {
				u, seen, ones := 0, 0, 0
				for i := range m + n {
					if bits>>i&1 == 1 {
						u += seen // beats the zeros below it
						ones++
					} else {
						seen++
					}
				}
				if ones == m {
					counts[u]++
				}
			}
			if got := arrangements(m, n); !slices.Equal(got, counts) {
				t.Errorf("%d and %d: %v, want %v", m, n, got, counts)
			}
		}
	}
	// 8 values all below 8 others: 2 of C(16,8).
	if p := rankSum([]float64{1, 2, 3, 4, 5, 6, 7, 8},
		[]float64{9, 10, 11, 12, 13, 14, 15, 16}); math.Abs(p-2./12870) > 1e-12 {
		t.Errorf("p is %v", p)
	}
	if p := rankSum([]float64{1, 1, 1}, []float64{1, 1, 1}); p != 1 {
		t.Errorf("nothing but ties: p is %v", p)
	}
}

// Steady noise of 10 % fails the trend gate in at most 1 of 100 trials; a
// slope of 70 % and a step of 30 % in noise of 3 % nearly always, a step of 10 %
// never: that is what neighbours on a machine do.
func TestTrendFindsChangesAndNotNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const runs = 4000
	count := func(windows int, sd float64, shape func(x float64) float64) int {
		n := 0
		for range runs {
			w := make([]float64, windows)
			for i := range w {
				w[i] = math.Exp(sd*r.NormFloat64()) * shape(float64(i)/float64(windows))
			}
			if trend(w) != "" {
				n++
			}
		}
		return n
	}
	for _, windows := range []int{16, 100} {
		if n := count(windows, .1, func(float64) float64 { return 1 }); n > runs/100 {
			t.Errorf("%d windows of noise: %d of %d", windows, n, runs)
		}
		if n := count(windows, .03, func(x float64) float64 { return 1 + .7*x }); n < runs*95/100 {
			t.Errorf("%d windows on a slope: %d of %d", windows, n, runs)
		}
		if n := count(windows, .03, func(x float64) float64 { return 1 - .3*math.Floor(x*1.6) }); n < runs*95/100 {
			t.Errorf("%d windows with a step: %d of %d", windows, n, runs)
		}
		if n := count(windows, .03, func(x float64) float64 { return 1 - .1*math.Floor(x*1.6) }); n > runs/100 {
			t.Errorf("%d windows with a small step: %d of %d", windows, n, runs)
		}
	}
	if trend(make([]float64, 16)) != "" || trend([]float64{1, 2, 3}) != "" || trend(nil) != "" {
		t.Error("no data has a trend")
	}
}

// Of two splits that are equally unlikely, the trend gate names the first.
func TestTrendNamesTheFirstSplit(t *testing.T) {
	w := slices.Concat(slices.Repeat([]float64{1}, 7), []float64{1.5}, slices.Repeat([]float64{2}, 7))
	if got := trend(w); !strings.Contains(got, "+94 % after 47 % of the time") {
		t.Error(got)
	}
}

// What the controller timed does not depend on the clock of the environment.
func TestTheClockInsideSparesWhatIsTimedOutside(t *testing.T) {
	trial := good()
	trial.Line.Clock = &store.Clock{InsideNS: 4e8, OutsideNS: 1e9, UncertaintyNS: 5e6}
	if clockGate(trial) == "" {
		t.Error("a clock that stood still passes")
	}
	if trial.TimedOutside = true; clockGate(trial) != "" {
		t.Errorf("the controller timed it: %s", clockGate(trial))
	}
}

// The times of a boot are the controller's, and those of a web server the generator's: neither a
// trial nor a whole comparison fails for the clock of their environment.
func TestTimesThatAreTakenOutside(t *testing.T) {
	r := record(t)
	slow := &store.Clock{InsideNS: 4e8, OutsideNS: 1e9, UncertaintyNS: 5e6}
	for name, outside := range map[string]bool{"boot": true, "connect": true, "http": true, "wrk": true, "crypto": false,
		"files": false} {
		p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "netbsd"}}},
			Cells: []plan.Cell{{Cell: manifest.Cell{Name: "c", Workload: name, Params: param.Values{}}}}}
		o, err := NewReader(r.run, workloadall.Parsers()).observe(p, store.Line{Type: store.LineTrial, Contender: "netbsd",
			Status: store.Subject, Trial: &store.Trial{Cell: "c", Clock: slow}})
		if err != nil || (o.Clock == analysis.ClockReading{}) != outside || (o.Gates["clock"] == "") != outside {
			t.Errorf("%s: clock %+v, gates %+v, %v", name, o.Clock, o.Gates, err)
		}
	}
}
