package evidence

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/probe"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A group of slow responses is a timer's if it is large enough, and little lies
// between it and the fast ones or above it.
func TestWaitExplainsAGroup(t *testing.T) {
	w := wait{least: 36 * time.Millisecond, most: 50 * time.Millisecond}
	for _, x := range []struct {
		what                         string
		fast, between, within, above int64
		want                         int64
	}{
		{"one group", 900, 0, 100, 0, 100},
		{"a quarter lies between", 900, 25, 100, 0, 100},
		{"more lies between", 900, 26, 100, 0, 0},
		{"a quarter lies above", 900, 0, 100, 25, 100},
		{"more lies above", 900, 0, 100, 26, 0},
		{"a quarter on each side", 900, 25, 100, 25, 100},
		{"ten", 900, 0, 10, 0, 10},
		{"fewer than ten", 100, 0, 9, 0, 0},
		{"one percent", 990, 0, 10, 0, 10},
		{"less than one percent", 991, 0, 10, 0, 0},
		{"no fast group", 100, 0, 200, 0, 0},
	} {
		h := hdrhistogram.New(1, int64(time.Hour), 3)
		for at, n := range map[time.Duration]int64{time.Millisecond: x.fast, 20 * time.Millisecond: x.between,
			40 * time.Millisecond: x.within, 80 * time.Millisecond: x.above} {
			if err := h.RecordValues(int64(at), n); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.explains(h); got != x.want {
			t.Errorf("%s: explains %d, want %d", x.what, got, x.want)
		}
	}
}

// stored is a workload whose parameter data names a volume.
type stored struct{ fixture }

func (s stored) Doc() workload.Doc {
	d := s.fixture.Doc()
	d.Volume = "data"
	return d
}

// A cell's backing is that of the volume that its parameter names.
func TestBackingOfACell(t *testing.T) {
	p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "c", Volumes: []manifest.Volume{
		{Path: "/a", Backing: "zfs"}, {Path: "/b", Backing: "file:ext4"}, {Path: "/d", Backing: "tmpfs"}}}}}}
	for at, want := range map[string]string{"/a": "zfs", "/b": "file:ext4", "/d": "tmpfs", "/e": ""} {
		cell := plan.Cell{Cell: manifest.Cell{Params: param.Values{"data": at}}}
		if got := backing(p, "c", cell, stored{}); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
		if got := backing(p, "c", cell, fixture{}); got != "" {
			t.Errorf("a workload without a volume has the backing %q", got)
		}
	}
}

// Only trials that count, with both readings, say what told the time of CPUs.
func TestCPUSourcesOfTrialsThatCount(t *testing.T) {
	trial := func(block int, contender string, before, after *probe.Counters) store.Line {
		return store.Line{Type: store.LineTrial, Block: block, Contender: contender,
			Trial: &store.Trial{Before: before, After: after}}
	}
	read := func(at float64) *probe.Counters {
		return &probe.Counters{CPU: &probe.CPU{User: at}, CPUSource: probe.SourceTicks}
	}
	none := store.Line{Type: store.LineTrial, Contender: "none"}
	s := &story{counts: map[int]bool{0: true}, trials: []store.Line{trial(1, "void", read(1), read(2)), none,
		trial(0, "begun", read(1), nil), trial(0, "ended", nil, read(2)), trial(0, "host", read(1), read(2))}}
	if got, told := s.cpuSources(); !told || len(got) != 1 || got["host"] != probe.SourceTicks {
		t.Errorf("%v, %v", got, told)
	}
	s.trials = s.trials[:4]
	if got, told := s.cpuSources(); told || len(got) != 0 {
		t.Errorf("of trials that do not count: %v, %v", got, told)
	}
}

// The CPUs beside a network path are counted over the time that passed.
func TestPathOverTwoSeconds(t *testing.T) {
	trial := good()
	trial.Line.After.AtNS, trial.Work.ElapsedNS = 2e9, 18e8
	trial.Work.Work, trial.Path.PerSecond, trial.Path.Workers = 18000, 10100, 0
	// Four CPU seconds in two seconds are two CPUs: 1.9 seconds are 48 %.
	trial.Line.After.CPU.User, trial.Line.After.CPU.Idle = 11.9, 12.1
	if why := failing(trial)["path"]; !strings.Contains(why, "CPUs 48 % busy") {
		t.Errorf("%q", why)
	}
	trial.Line.After.CPU.User, trial.Line.After.CPU.Idle = 13.9, 10.1
	if why := failing(trial)["path"]; why != "" {
		t.Errorf("both CPUs are busy: %q", why)
	}
}
