package evidence

import (
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

func load(t *testing.T, r *recorder) analysis.Data {
	t.Helper()
	d, err := Load(r.run, today)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestBlocksThatEndedWellCount(t *testing.T) {
	r := record(t)
	r.block(0)
	for _, s := range r.plan.Blocks[1].Slots()[:3] { // interrupted
		r.trial(s)
	}
	r.append(store.Line{Type: store.LineResume})
	r.block(2)
	for _, s := range r.plan.Blocks[3].Slots()[:2] {
		r.trial(s)
	}
	r.append(store.Line{Type: store.LineBlock, Block: 3, Status: store.Void, Reason: "the network broke"})
	for _, s := range r.plan.Blocks[4].Slots()[:5] { // under way
		r.trial(s)
	}
	d := load(t, r)
	blocks := map[int]int{}
	for _, o := range d.Observations {
		blocks[o.Block]++
	}
	if want := map[int]int{0: 16, 2: 16}; !reflect.DeepEqual(blocks, want) {
		t.Errorf("observations by block are %v, want %v", blocks, want)
	}
	if d.Void != 2 || d.Ended != "" || d.Trials != 2 || d.Scope != analysis.ScopeMachine {
		t.Errorf("void %d, ended %q, trials %d, scope %s", d.Void, d.Ended, d.Trials, d.Scope)
	}
	if o := d.Observations[0]; len(o.Values) != 1 || o.Values[0].Metric != "speed" || o.Instance == "" || o.Gates != nil {
		t.Errorf("an observation: %+v", o)
	}
	if len(d.Missing) != 0 {
		t.Errorf("missing while it runs: %v", d.Missing)
	}
}

func TestFailedSubjectsAreObservations(t *testing.T) {
	r := record(t)
	r.change = func(s plan.Slot, l *store.Line, w *wire.Result) {
		switch {
		case s.Contender == "slow" && s.Cell == "fast":
			l.Status, l.Reason = store.Subject, "it crashed"
		case s.Contender == "crun" && s.Cell == "other":
			w.Errors = map[string]int64{"wrong answer": 1}
		}
	}
	r.block(0)
	reasons := map[string]int{}
	for _, o := range load(t, r).Observations {
		if o.Failed {
			reasons[o.Contender+" "+o.Reason]++
			if len(o.Values) != 0 {
				t.Errorf("failed with values: %+v", o)
			}
		}
	}
	if want := map[string]int{"slow it crashed": 2, "crun a wrong answer": 2}; !reflect.DeepEqual(reasons, want) {
		t.Errorf("failures: %v", reasons)
	}
}

func TestMissingHasItsReason(t *testing.T) {
	r := record(t)
	r.append(store.Line{Type: store.LineEnvironment, Contender: "slow", Status: store.Void,
		Reason: "crun is not installed"})
	r.block(0, "slow")
	d := load(t, r)
	want := []analysis.Missing{{Contender: "slow", Cell: "fast", Reason: "crun is not installed"},
		{Contender: "slow", Cell: "other", Reason: "crun is not installed"}}
	if !reflect.DeepEqual(d.Missing, want) {
		t.Errorf("missing: %v", d.Missing)
	}

	r = record(t)
	r.trial(r.plan.Blocks[0].Slots()[0])
	r.append(store.Line{Type: store.LineEnd, Reason: "interrupted"})
	d = load(t, r)
	if len(d.Missing) != 8 || d.Ended != "interrupted" || d.Void != 1 {
		t.Errorf("interrupted in the first block: %d missing, ended %q, void %d", len(d.Missing), d.Ended, d.Void)
	}
	for _, m := range d.Missing {
		if !strings.Contains(m.Reason, "interrupted") {
			t.Errorf("%+v", m)
		}
	}
}

func TestFactsTellWhatDiffers(t *testing.T) {
	r := record(t)
	r.append(store.Line{Type: store.LineEnvironment, Contender: "crun", Instance: "crun-0", Status: store.OK,
		Facts:  map[string]string{"version": "1.8"},
		Limits: &facts.Limits{NotEnforced: map[string]string{"memory": "no such controller"}}})
	r.append(store.Line{Type: store.LineEnvironment, Contender: "host", Instance: "host-0",
		Status: store.OK, Limits: &facts.Limits{}})
	r.block(0)
	d := load(t, r)
	want := map[string]string{"kernel": "6.18", "driver.runtime": "oci", "driver.version": "1.8", "enforced.cpus": "yes",
		"enforced.memory": "no: no such controller"}
	if !reflect.DeepEqual(d.Facts["crun"], want) {
		t.Errorf("facts: %v", d.Facts["crun"])
	}
	if own := d.Contenders[1].Facts; !reflect.DeepEqual(own, map[string]string{"runtime": "oci", "version": "1.8"}) {
		t.Errorf("the contender's own: %v", own)
	}
	// slow has more memory because the lab file says so.
	if want := []string{"driver.runtime", "driver.version", "limit.cgroup.memory", "memory"}; !reflect.DeepEqual(d.Meant,
		want) {
		t.Errorf("meant: %v", d.Meant)
	}
	var confounders []string
	for _, c := range analysis.Analyse(d).Comparisons[0].Confounders {
		confounders = append(confounders, c.Name)
	}
	if want := []string{"enforced.memory"}; !reflect.DeepEqual(confounders, want) {
		t.Errorf("confounders of crun: %v", confounders)
	}
}

// What told the time of CPUs is a fact of each contender, once journals say it.
func TestSourcesOfCPUTimeAreFacts(t *testing.T) {
	sources := func(of map[string]string) map[string]string {
		r := record(t)
		r.change = func(s plan.Slot, l *store.Line, _ *wire.Result) {
			for i, c := range []*facts.Counters{l.Before, l.After} {
				c.CPU, c.CPUSource = &facts.CPU{User: float64(i)}, of[s.Contender]
				if ns := int64(i+1) * 1e9; c.CPUSource != "" && c.CPUSource != facts.SourceTicks {
					c.TaskNS = &ns
				}
			}
			if s.Contender == "slow" && s.Position%2 == 1 { // as after a start of another kernel
				l.After.TaskNS, l.After.CPUSource = nil, of["host"]
			}
		}
		r.block(0)
		got := map[string]string{}
		for contender, facts := range load(t, r).Facts {
			if v, ok := facts[analysis.FactCPUTime]; ok {
				got[contender] = v
			}
		}
		return got
	}
	got := sources(map[string]string{"host": facts.SourceTicks, "host~twin": facts.SourceTicks,
		"crun": facts.SourceSchedstat, "slow": facts.SourceSchedstat})
	want := map[string]string{"host": "ticks", "host~twin": "ticks", "crun": "schedstat", "slow": "schedstat and ticks"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, and %v is right", got, want)
	}
	if got := sources(nil); len(got) != 0 {
		t.Errorf("an older journal tells %v", got)
	}
	older := storyOf(&plan.Plan{}, "", []store.Line{
		{Type: store.LineTrial, Contender: "host", Trial: &store.Trial{Before: &facts.Counters{CPU: &facts.CPU{}},
			After: &facts.Counters{CPU: &facts.CPU{}}}},
		{Type: store.LineBlock, Status: store.OK},
	})
	if by, told := older.cpuSources(); told || by["host"] != facts.SourceTicks {
		t.Errorf("an older journal, compared with a newer one: %v, %v", by, told)
	}
}

func TestLoadRefusesWhatIsNotAsPlanned(t *testing.T) {
	for name, change := range map[string]func(*recorder){
		"a trial in another's place": func(r *recorder) {
			s := r.plan.Blocks[0].Slots()
			s[0].Contender = s[1].Contender
			r.trial(s[0])
		},
		"a trial twice": func(r *recorder) {
			r.block(0)
			r.append(store.Line{Type: store.LineTrial, Contender: r.plan.Blocks[0].Slots()[0].Contender, Status: store.OK,
				Trial: &store.Trial{Cell: r.plan.Blocks[0].Slots()[0].Cell}})
		},
		"half a block that counts": func(r *recorder) {
			for _, s := range r.plan.Blocks[0].Slots()[:8] {
				r.trial(s)
			}
			r.append(store.Line{Type: store.LineBlock, Status: store.OK})
		},
		"a block that the plan does not have": func(r *recorder) {
			r.append(store.Line{Type: store.LineBlock, Block: 99, Status: store.OK})
		},
		"another plan": func(r *recorder) { r.replace(store.PlanFile, `"seed": 5`, `"seed": 6`) },
	} {
		r := record(t)
		change(r)
		if _, err := Load(r.run, today); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := record(t)
	r.block(0)
	if _, err := Load(r.run, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without the workload: %v", err)
	}
	r.replace("raw/"+store.RawName(r.plan.Blocks[0].Slots()[3])+"/work.json", "9", "8")
	if _, err := Load(r.run, today); !fault.Is(err, fault.Invalid) {
		t.Errorf("a changed digit: %v", err)
	}
}

func TestReaderParsesATrialOnce(t *testing.T) {
	r := record(t)
	parsed := 0
	reader := NewReader(r.run, []workload.Parser{fixture{version: 1, factor: 1, parsed: &parsed}})
	for i := range 3 {
		r.block(i)
		d, err := reader.Load()
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Observations) != 16*(i+1) || parsed != 16*(i+1) {
			t.Errorf("after block %d: %d observations, %d parsed", i, len(d.Observations), parsed)
		}
		if fresh := load(t, r); !reflect.DeepEqual(d, fresh) {
			t.Error("a reader that was there before sees something else")
		}
	}
}

// What reading the folder costs after each of twelve blocks of 16 trials: all
// of it anew, and only what was added.
func BenchmarkLoad(b *testing.B) {
	r := record(b)
	for i := range 12 {
		r.block(i)
	}
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			if _, err := Load(r.run, today); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		reader := NewReader(r.run, today)
		for b.Loop() {
			if _, err := reader.Load(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
