package evidence

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http"

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
	trial := func(block int, contender string, before, after *facts.Counters) store.Line {
		return store.Line{Type: store.LineTrial, Block: block, Contender: contender,
			Trial: &store.Trial{Before: before, After: after}}
	}
	read := func(at float64) *facts.Counters {
		return &facts.Counters{CPU: &facts.CPU{User: at}, CPUSource: facts.SourceTicks}
	}
	none := store.Line{Type: store.LineTrial, Contender: "none"}
	s := &story{counts: map[int]bool{0: true}, trials: []store.Line{trial(1, "void", read(1), read(2)), none,
		trial(0, "begun", read(1), nil), trial(0, "ended", nil, read(2)), trial(0, "host", read(1), read(2))}}
	if got, told := s.cpuSources(); !told || len(got) != 1 || got["host"] != facts.SourceTicks {
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

// Each line of a journal is compared with the plan: the lines before it, the line, and
// what is wrong with it.
func TestStepsOfAJournal(t *testing.T) {
	p, _ := encoded(t)
	p.Blocks = p.Blocks[:3]
	p.Blocks[0].Boots = []plan.Boot{{}, {Host: "box", System: "one"}}
	slots := p.Blocks[0].Slots()
	of := func(s plan.Slot) store.Line {
		return store.Line{Type: store.LineTrial, Block: s.Block, Contender: s.Contender,
			Trial: &store.Trial{Position: s.Position, Cell: s.Cell}}
	}
	boot := func(block int, host, system string) store.Line {
		return store.Line{Type: store.LineBoot, Block: block, Boot: &store.Boot{Host: host, System: system}}
	}
	end := func(block int) store.Line { return store.Line{Type: store.LineBlock, Block: block} }
	unfit := func(contender string, cells ...string) store.Line {
		return store.Line{Type: store.LineUnfit, Contender: contender, Cells: cells, Reason: "no such program"}
	}
	other := of(slots[0])
	other.Contender = slots[0].Contender + "x"
	beyond := of(slots[0])
	beyond.Position = len(slots)
	late := of(p.Blocks[1].Slots()[0])
	late.Block = 3
	for _, x := range []struct {
		what   string
		before []store.Line
		line   store.Line
		want   string // in the problem; "" for none
	}{
		{"the first trial", nil, of(slots[0]), ""},
		{"the next", []store.Line{of(slots[0])}, of(slots[1]), ""},
		{"the first of the next block", []store.Line{of(slots[5])}, of(p.Blocks[1].Slots()[0]), ""},
		{"twice", []store.Line{of(slots[0])}, of(slots[0]), "a second time"},
		{"an earlier one", []store.Line{of(slots[1])}, of(slots[0]), "after a later one"},
		{"one of an earlier block", []store.Line{of(p.Blocks[1].Slots()[0])}, of(slots[5]), "after a later one"},
		{"after the end", []store.Line{end(0)}, of(slots[0]), "after its block ended"},
		{"another", nil, other, "but the plan has"},
		{"a position beyond", nil, beyond, "positions"},
		{"a block beyond", nil, late, "a trial of block 3, but the plan has 3 blocks"},
		{"an end", nil, end(2), ""},
		{"a second end", []store.Line{end(2)}, end(2), "block 2 ended a second time"},
		{"an end beyond", nil, end(3), "block 3 ended, but the plan has 3 blocks"},
		{"a boot", nil, boot(0, "box", "one"), ""},
		{"another host", nil, boot(0, "bux", "one"), "does not contain"},
		{"another system", nil, boot(0, "box", "two"), "does not contain"},
		{"a boot of no host", nil, boot(0, "", ""), "does not contain"},
		{"a boot of another block", nil, boot(1, "box", "one"), "does not contain"},
		{"a boot after the end", []store.Line{end(0)}, boot(0, "box", "one"), "after it ended"},
		{"a boot beyond", nil, boot(3, "box", "one"), "a boot for block 3"},
		{"a cell that cannot run", nil, unfit("crun", "fast", "other"), ""},
		{"one of nobody", nil, unfit("c", "fast"), "not in the plan"},
		{"an unknown one", nil, unfit("crun", "fast", "none"), `"none", which is not in the plan`},
		{"one after a trial", []store.Line{of(slots[0])}, unfit("crun", "fast"), "after the first trial"},
		{"its trial", []store.Line{unfit(slots[0].Contender, slots[0].Cell)}, of(slots[0]), "which the run leaves out"},
		{"an environment", nil, store.Line{Type: store.LineEnvironment, Contender: "crun"}, ""},
		{"an unknown environment", nil, store.Line{Type: store.LineEnvironment, Contender: "c"}, "not in the plan"},
	} {
		w := newWalk(p)
		for _, l := range x.before {
			if problem := w.step(l); problem != "" {
				t.Fatalf("%s: before it: %s", x.what, problem)
			}
		}
		if got := w.step(x.line); (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, want %q", x.what, got, x.want)
		}
	}
}

// Why a cell has no observation: its environment, its last trial, the blocks in which it
// was tried, or the end of the run, in this order.
func TestWhyACellIsMissing(t *testing.T) {
	trial := func(contender string, status store.Status, reason string) store.Line {
		return store.Line{Type: store.LineTrial, Contender: contender, Status: status, Reason: reason,
			Trial: &store.Trial{Cell: "fast"}}
	}
	p := &plan.Plan{Cells: []plan.Cell{{Cell: manifest.Cell{Name: "fast"}}}}
	for _, name := range []string{"absent", "broken", "unlucky", "late", "fine"} {
		p.Contenders = append(p.Contenders, plan.Contender{Contender: manifest.Contender{Name: name}})
	}
	s := &story{plan: p, ended: analysis.EndedInterrupted, void: map[int]string{0: "the disk was full"},
		lines: []store.Line{
			{Type: store.LineEnvironment, Contender: "absent", Status: store.Void, Reason: "it is not installed"},
			{Type: store.LineEnvironment, Contender: "late", Status: store.OK, Reason: "none"},
			trial("broken", store.OK, ""), trial("broken", store.Void, "it broke"), trial("broken", store.OK, ""),
			trial("unlucky", store.OK, "")}}
	want := map[string]string{"absent": "it is not installed", "broken": "it broke",
		"unlucky": "no block in which it was tried counts: the disk was full",
		"late":    "the run ended before it was tried: " + analysis.EndedText(analysis.EndedInterrupted)}
	reasons := func() map[string]string {
		got := map[string]string{}
		for _, m := range s.missing([]analysis.Observation{{Contender: "fine", Cell: "fast"}}) {
			got[m.Contender] = m.Reason
		}
		return got
	}
	if got := reasons(); !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A run that goes on has time left.
	s.ended = ""
	delete(want, "unlucky")
	delete(want, "late")
	if got := reasons(); !maps.Equal(got, want) {
		t.Errorf("while it runs: %q, want %q", got, want)
	}
}

// What a later program adds to a plan is taken away before plans are compared, and named.
func TestWithoutNewer(t *testing.T) {
	read := func(text string) (v any) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, x := range []struct{ stored, again, left, newer string }{
		{`{"cells":[{"name":"c","params":{"a":"1"}}]}`, `{"cells":[{"name":"c","params":{"a":"1","b":"2"}}]}`,
			`{"cells":[{"name":"c","params":{"a":"1"}}]}`, "b of c"},
		{`{"cells":[{"name":"c"}]}`, `{"cells":[{"name":"c","params":{"b":"2"}}]}`, `{"cells":[{"name":"c"}]}`, "b of c"},
		{`{"cells":[{"name":"c","params":{}}]}`, `{"cells":[{"name":"c","params":{"b":"2"}}]}`,
			`{"cells":[{"name":"c","params":{}}]}`, "b of c"},
		{`{"cells":[{"name":"c"}]}`, `{"cells":[{"name":"c"}]}`, `{"cells":[{"name":"c"}]}`, ""},
		{`{"contenders":[{"name":"x"}]}`, `{"contenders":[{"name":"x","options":{"o":"1"}},{"name":"y"}]}`,
			`{"contenders":[{"name":"x"},{"name":"y"}]}`, "o of x"},
		{`{"cells":[{"name":"c","metrics":[{"name":"m","unit":"s"}]}]}`,
			`{"cells":[{"name":"c","metrics":[{"name":"m","unit":"s","scale":"ratio"},{"name":"n"}]}]}`,
			`{"cells":[{"name":"c","metrics":[{"name":"m","unit":"s"}]}]}`, "metric n of c, scale of metric m"},
		{`{"cells":[{"name":"c","metrics":[]}]}`, `{"cells":[{"name":"c","metrics":[{"name":"n","primary":true}]}]}`,
			`{"cells":[{"name":"c","metrics":[{"name":"n","primary":true}]}]}`, ""},
	} {
		again := read(x.again)
		newer := withoutNewer(read(x.stored), again)
		if got := strings.Join(newer, ", "); got != x.newer || !reflect.DeepEqual(again, read(x.left)) {
			t.Errorf("%s and %s: %q and %v", x.stored, x.again, got, again)
		}
	}
}

// A design's scope and its trials in a block follow from the plan.
func TestDesignOfAPlan(t *testing.T) {
	for _, x := range []struct {
		instances string
		mirror    bool
		scope     analysis.Scope
		trials    int
	}{{"run", false, analysis.ScopeInstance, 1}, {"block", true, analysis.ScopeMachine, 2}} {
		s := &story{plan: &plan.Plan{}, void: map[int]string{3: "x"}}
		s.plan.Design.Instances, s.plan.Design.Mirror = x.instances, x.mirror
		if d := s.design(); d.Scope != x.scope || d.Trials != x.trials || d.Void != 1 {
			t.Errorf("%+v: scope %v, %d trials, %d void", x, d.Scope, d.Trials, d.Void)
		}
	}
}

// The journal says of which cells each trial created an environment.
func TestFreshCells(t *testing.T) {
	s := &story{}
	for _, x := range [][2]string{{"boot", "fresh"}, {"boot", "fresh"}, {"mixed", "fresh"}, {"mixed", "carried"}} {
		s.trials = append(s.trials, store.Line{Trial: &store.Trial{Cell: x[0], State: x[1]}})
	}
	for cell, want := range map[string]bool{"boot": true, "mixed": false, "none": false} {
		if got := s.fresh(cell); got != want {
			t.Errorf("%s: %v", cell, got)
		}
	}
}

// What a load generator reported is read from its raw output, and the latencies are; a
// file that was changed is an error, other raw output is none.
func TestAnswerOf(t *testing.T) {
	r := record(t)
	slot := r.plan.Blocks[0].Slots()[0]
	h := http.NewHistogram()
	for i := range int64(1000) {
		http.Record(h, (i+1)*1e6)
	}
	text, err := http.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.run.WriteRaw(slot, map[string][]byte{"text": []byte("hello"), "none.json": []byte(`{}`),
		"work.json": []byte(`{"generator":{"utilisation":0.5},"values":[{"metric":"latency-floor","unit":"s",` +
			`"value":0.002}],"histogram":"` + text + `"}`),
		"wrong.json": []byte(`{"generator":{"utilisation":-1}}`), "large.json": []byte(`{"generator":{"utilisation":1e6}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		a, err := AnswerOf(r.run, f)
		is := strings.HasSuffix(f.Name, "work.json")
		if err != nil || (a.Generator != nil) != is || (a.Latencies != nil) != is || is && a.Generator.Utilisation != .5 {
			t.Errorf("%s: %+v, %v", f.Name, a, err)
		}
		if l := a.Latencies; is {
			median := l.Seconds(50)
			if !l.Add(l) || l.Count() != 2000 || l.Trials != 2 || l.Floor != .002 || median < .499 || median > .501 {
				t.Errorf("latencies: %d, %d trials, floor %g, median %g", l.Count(), l.Trials, l.Floor, l.Seconds(50))
			}
			other := &Latencies{histogram: hdrhistogram.New(1, 1000, 2)}
			if l.Add(other) || l.Count() != 2000 {
				t.Error("latencies of another range were added")
			}
		}
		f.SHA256 = strings.Repeat("0", 64)
		if a, err := AnswerOf(r.run, f); err == nil || a.Generator != nil || a.Latencies != nil {
			t.Errorf("%s, changed: %+v, %v", f.Name, a, err)
		}
	}
	for _, damaged := range []string{"x", text[:len(text)/2], strings.Repeat("A", maxHistogram+1)} {
		if l, err := latenciesOf(damaged, nil); err == nil || l != nil {
			t.Errorf("a damaged histogram: %+v, %v", l, err)
		}
	}
}

func FuzzLatencies(f *testing.F) {
	h := http.NewHistogram()
	http.Record(h, 1e6)
	text, err := http.EncodeHistogram(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := latenciesOf(text, nil); err == nil && l != nil && (l.Count() < 1 || l.Seconds(50) < 0) {
			t.Errorf("%d operations, median %g", l.Count(), l.Seconds(50))
		}
	})
}

// Samples that depend on a trial are those of its block and position.
func TestDependents(t *testing.T) {
	results := map[string]any{"summaries": []any{
		map[string]any{"cell": "fast", "contender": "crun", "metric": "speed", "median": 5., "samples": []any{
			map[string]any{"block": 1., "position": 2., "value": 7.}, map[string]any{"block": 1., "position": 3., "value": 8.},
			map[string]any{"block": 2., "position": 2., "value": 9.}}},
		map[string]any{"cell": "fast", "contender": "host", "metric": "speed", "median": 6.}}}
	got := strings.Join(dependents(results, store.Line{Contender: "crun", Block: 1,
		Trial: &store.Trial{Cell: "fast", Position: 2}}), "\n")
	if !strings.Contains(got, "value = 7") || !strings.Contains(got, "median = 5") || strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
}

// Every workload on zfs-fuse has the caveat, whether it wrote facts or not. A workload
// that does not use the volume has none.
func TestCaveatOfZFSFuse(t *testing.T) {
	r := record(t)
	p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "crun", Volumes: []manifest.Volume{
		{Path: "/a", Backing: "file:zfs"}, {Path: "/b", Backing: "file:zfs"}}}}},
		Cells: []plan.Cell{{Cell: manifest.Cell{Name: "fast", Workload: "fixture"}}}}
	if _, err := r.run.WriteFingerprint("crun", facts.Fingerprint{Schema: facts.FingerprintSchema,
		Facts: map[string]string{"fs./a": "fuse.zfs rw,nosuid", "fs./b": "zfs rw"}}); err != nil {
		t.Fatal(err)
	}
	line := store.Line{Type: store.LineTrial, Contender: "crun", Status: store.Subject, Trial: &store.Trial{Cell: "fast"}}
	for _, x := range []struct {
		w        workload.Parser
		at, want string
	}{{stored{}, "/a", workload.ZFSFuse}, {stored{}, "/b", ""}, {stored{}, "/c", ""}, {fixture{}, "/a", ""}} {
		p.Cells[0].Params = param.Values{"data": x.at}
		o, err := NewReader(r.run, []workload.Parser{x.w}).observe(p, line)
		if err != nil || o.Caveat != x.want {
			t.Errorf("%T on %s: caveat %q, %v; want %q", x.w, x.at, o.Caveat, err, x.want)
		}
	}
}
