package evidence

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/measure/workload/http"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The environment waited for most of the trial, for longer than some ticks of the scheduler, and got less
// than the rest. Each bound alone: the last value that passes, and the first that fails.
func TestBoundsOfCPUWait(t *testing.T) {
	for _, x := range []struct {
		what                   string
		seconds                float64 // that passed
		waited, throttled, got float64
		fails                  bool
	}{
		{"three quarters", 1, .75, 0, 0, false},
		{"more than three quarters", 1, .7501, 0, 0, true},
		{"three quarters of two seconds", 2, 1.5, 0, 0, false},
		{"more than three quarters of two seconds", 2, 1.5001, 0, 0, true},
		{"some ticks of a short trial", .06, .05, 0, 0, false},
		{"more ticks of a short trial", .06, .0501, 0, 0, true},
		{"a quarter was used", 1, .8, 0, .25, false},
		{"less than a quarter was used", 1, .8, 0, .2499, true},
		{"a quarter of two seconds was used", 2, 1.6, 0, .5, false},
		{"less than a quarter of two seconds was used", 2, 1.6, 0, .4999, true},
		{"a quota explains the difference", 1, .875, .125, 0, false},
		{"a quota explains less than the difference", 1, .875, .124, 0, true},
	} {
		trial := good()
		trial.Line.After.AtNS = int64(x.seconds * 1e9)
		scopes(&trial, f(0), f(x.waited), f(x.got))
		trial.Line.Before.Scope.Throttled, trial.Line.After.Scope.Throttled = f(2), f(2+x.throttled)
		if why := cpuWaitGate(trial); (why != "") != x.fails {
			t.Errorf("%s: %q", x.what, why)
		}
	}
	// The gate says nothing if other readings are missing or no time lies between them.
	for what, change := range map[string]func(*Trial){
		"no scope before":    func(t *Trial) { t.Line.Before.Scope = nil },
		"no scope after":     func(t *Trial) { t.Line.After.Scope = nil },
		"no use before":      func(t *Trial) { t.Line.Before.Scope.CPUSeconds = nil },
		"no use after":       func(t *Trial) { t.Line.After.Scope.CPUSeconds = nil },
		"a reading repeated": func(t *Trial) { t.Line.After.AtNS = t.Line.Before.AtNS },
		"time that went back": func(t *Trial) {
			t.Line.Before.AtNS = t.Line.After.AtNS + 1e9
		},
		"no bracket": func(t *Trial) { t.Line.After = nil },
	} {
		trial := good()
		scopes(&trial, f(0), f(.98), f(.007))
		if cpuWaitGate(trial) == "" {
			t.Fatal("98 % of waiting passes")
		}
		if change(&trial); cpuWaitGate(trial) != "" {
			t.Errorf("%s: %q", what, cpuWaitGate(trial))
		}
	}
}

// stalled is a trial in which fast responses took 1 ms and the given number others 42 ms.
func stalled(t *testing.T, slow int64) Trial {
	t.Helper()
	h := http.NewHistogram()
	for range 900 {
		http.Record(h, 1e6)
	}
	for range slow {
		http.Record(h, 42e6)
	}
	text, err := http.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	trial := good()
	trial.Work.Histogram = text
	trial.Work.Params = param.Values{"rate": "1000/s", "connections": "40", "keepalive": "true"}
	return trial
}

// The gate says which timer explains how many responses; nothing of a histogram that nobody
// recorded or that is damaged.
func TestStallSaysWhichTimer(t *testing.T) {
	want := "10.0 % of the responses took 36 to 50 ms, half of all took at most 1 ms, and few were in between: " +
		"TCP held the slow ones back (a delayed acknowledgment takes 40 ms or a little more)"
	if why := stallGate(stalled(t, 100)); why != want {
		t.Errorf("%q", why)
	}
	if why := stallGate(stalled(t, 9)); why != "" {
		t.Errorf("nine responses: %q", why)
	}
	// Responses between the two groups that the delayed acknowledgment does not explain.
	h := http.NewHistogram()
	for range 900 {
		http.Record(h, 1e6)
	}
	for range 100 {
		http.Record(h, 24e6)
	}
	text, err := http.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	trial := stalled(t, 0)
	trial.Work.Histogram = text
	want = "10.0 % of the responses took 20 to 50 ms, half of all took at most 1 ms, and few were in between: " +
		"TCP held the slow ones back (a connection is used every connections/rate = 40 ms)"
	if why := stallGate(trial); why != want {
		t.Errorf("%q", why)
	}
	for what, change := range map[string]func(*Trial){
		"no work":      func(t *Trial) { t.Work = nil },
		"no histogram": func(t *Trial) { t.Work.Histogram = "" },
		"damaged":      func(t *Trial) { t.Work.Histogram = "x" + t.Work.Histogram },
	} {
		trial := stalled(t, 100)
		if change(&trial); stallGate(trial) != "" {
			t.Errorf("%s: %q", what, stallGate(trial))
		}
	}
}

// The fast half must be below a quarter of the timer; what is slower is between the groups.
func TestStallApart(t *testing.T) {
	w := wait{least: 40 * time.Millisecond, most: 50 * time.Millisecond}
	for _, x := range []struct {
		fast, between time.Duration
		want          int64
	}{
		{9900 * time.Microsecond, 9900 * time.Microsecond, 100}, // below a quarter both
		{10100 * time.Microsecond, time.Millisecond, 0},         // the median is not apart
		{time.Millisecond, 9900 * time.Microsecond, 100},        // fast as well
		{time.Millisecond, 10100 * time.Microsecond, 0},         // too many between
	} {
		h := hdrhistogram.New(1, int64(time.Hour), 3)
		for at, n := range map[time.Duration]int64{45 * time.Millisecond: 100} {
			if err := h.RecordValues(int64(at), n); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []struct {
			d time.Duration
			n int64
		}{{x.fast, 800}, {x.between, 50}} {
			if err := h.RecordValues(int64(at.d), at.n); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.explains(h); got != x.want {
			t.Errorf("%v and %v: explains %d, want %d", x.fast, x.between, got, x.want)
		}
	}
}

// A generator that used no CPU time says so; one that cannot have used that much says nothing.
func TestAnswerAtItsBounds(t *testing.T) {
	r := record(t)
	for i, x := range []struct {
		text string
		want float64 // utilisation; -1: no generator
	}{
		{`{"generator":{"utilisation":0}}`, 0}, {`{"generator":{"utilisation":-0.001}}`, -1},
		{`{"generator":{"utilisation":999999}}`, 999999}, {`{"generator":{"utilisation":1e6}}`, -1},
		{`{"generator":null}`, -1},
	} {
		files, err := r.run.WriteRaw(r.plan.Blocks[0].Slots()[i], map[string][]byte{"work.json": []byte(x.text)})
		if err != nil {
			t.Fatal(err)
		}
		a, err := AnswerOf(r.run, files[0])
		if err != nil || (a.Generator != nil) != (x.want >= 0) || a.Generator != nil && a.Generator.Utilisation != x.want ||
			a.Latencies != nil {
			t.Errorf("%s: %+v, %v", x.text, a, err)
		}
	}
}

// A histogram without operations is no distribution and no error; its text is bounded; no
// lateness is a floor of 0; the larger floor of two counts.
func TestLatenciesAtTheirBounds(t *testing.T) {
	text := func(values ...int64) string {
		h := http.NewHistogram()
		for _, v := range values {
			http.Record(h, v)
		}
		out, err := http.EncodeHistogram(h)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if l, err := latenciesOf(text(), nil); l != nil || err != nil {
		t.Errorf("an empty histogram: %+v, %v", l, err)
	}
	one, err := latenciesOf(text(1e6), nil)
	if err != nil || one.Count() != 1 || one.Floor != 0 || one.Trials != 1 {
		t.Fatalf("one operation: %+v, %v", one, err)
	}
	for n, large := range map[int]bool{1 << 20: false, 1<<20 + 1: true} {
		_, err := latenciesOf(strings.Repeat("A", n), nil)
		if err == nil || strings.Contains(err.Error(), "too large") != large {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	two := &Latencies{histogram: one.histogram, Floor: .5, Trials: 1}
	if sum := (&Latencies{histogram: http.NewHistogram(), Floor: .25, Trials: 1}); !sum.Add(two) || sum.Floor != .5 ||
		sum.Trials != 2 || sum.Count() != 1 {
		t.Errorf("%+v", sum)
	}
	// One range differs alone: nothing is added.
	for _, other := range []*hdrhistogram.Histogram{
		hdrhistogram.New(one.histogram.LowestTrackableValue(), one.histogram.HighestTrackableValue(), 2),
		hdrhistogram.New(one.histogram.LowestTrackableValue(), one.histogram.HighestTrackableValue()/2, 3),
		hdrhistogram.New(one.histogram.LowestTrackableValue()+1, one.histogram.HighestTrackableValue(), 3),
	} {
		if one.Add(&Latencies{histogram: other, Trials: 1}) || one.Trials != 1 {
			t.Errorf("a range of %d to %d with %d digits was added", other.LowestTrackableValue(),
				other.HighestTrackableValue(), other.SignificantFigures())
		}
	}
}
