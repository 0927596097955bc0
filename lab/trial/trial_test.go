package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/env"
	"bakeoff/lab/evidence"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// shelf is a driver without isolation: what it makes is a value in memory.
// It can be told to fail, which real drivers cannot be on demand; the real
// ones are run by drivertest and by the examples.
type shelf struct {
	name string
	fail func(spec driver.Spec) error // at creation
	down func() error                 // at Close
	open atomic.Int64
}

func (s *shelf) Doc() driver.Doc {
	return driver.Doc{Name: s.name, Summary: "in memory", Hosts: []string{"linux"}}
}
func (s *shelf) Check(context.Context, conn.Conn, param.Values) driver.Availability {
	if s.name == "absent" {
		return driver.Availability{Reason: "absent is not installed", Fix: "apt-get install absent"}
	}
	return driver.Availability{OK: true}
}

func (s *shelf) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	if s.fail != nil {
		if err := s.fail(spec); err != nil {
			return nil, err
		}
	}
	s.open.Add(1)
	return &book{shelf: s, spec: spec}, nil
}

func (s *shelf) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, nil
}

type book struct {
	nowhere
	shelf  *shelf
	spec   driver.Spec
	closed bool
	killed float64 // processes, because memory ran out
	waited float64 // seconds, for a CPU
}

func (b *book) Info() driver.Info {
	return driver.Info{Agent: "/agent", Scratch: "/tmp", Limits: facts.Limits{Memory: &b.spec.Memory}}
}
func (b *book) Usage(context.Context) (facts.Scope, error) {
	return facts.Scope{OOMKills: new(b.killed), CPUWait: new(b.waited), CPUSeconds: new(.007)}, nil
}
func (b *book) Diagnose(context.Context) []byte { return nil }
func (b *book) Close(context.Context) error {
	if !b.closed {
		b.closed = true
		b.shelf.open.Add(-1)
		if b.shelf.down != nil {
			return b.shelf.down()
		}
	}
	return nil
}

// nowhere is a Conn on which nothing exists.
type nowhere struct{}

func (nowhere) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, fault.New(fault.NotFound, "no program here")
}
func (nowhere) Push(context.Context, string, fs.FileMode, io.Reader) error {
	return errors.ErrUnsupported
}
func (nowhere) Pull(context.Context, string, io.Writer) error { return errors.ErrUnsupported }
func (nowhere) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// dice is a workload whose value follows from the contender, with some noise
// from the label: no clock, no machine.
type dice struct {
	run   func(t execution.Target, n int64) error
	count atomic.Int64
	wait  time.Duration
	// unread tells whether the output of a trial cannot be read; nil: all of it can.
	unread func(contender string, n int64) bool
}

func (d *dice) Doc() workload.Doc {
	return workload.Doc{Name: "dice", Summary: "drawn numbers", Parser: 1, State: "carried", Cache: "warm",
		Metrics: []sample.Metric{{Name: "throughput", Unit: "op/s", Better: sample.Higher,
			Primary: true, Scale: sample.Ratio}},
		Params: []param.Spec{{Name: "time", Kind: param.Duration, Default: "1ms", Doc: "none"}},
		Time:   func(param.Values) time.Duration { return time.Millisecond }}
}
func (d *dice) Prepare(context.Context, execution.Target, param.Values) error { return nil }
func (d *dice) Reset(context.Context, execution.Target, param.Values) error   { return nil }
func (d *dice) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	n := d.count.Add(1)
	time.Sleep(d.wait)
	if d.run != nil {
		if err := d.run(t, n); err != nil {
			return nil, err
		}
	}
	name := t.Subject.(*book).spec.Name
	if d.unread != nil && d.unread(name, n) {
		return workload.Raw{"value": fmt.Appendf(nil, "trial%d", n)}, nil
	}
	v := 1000 + float64(n*7919%13)
	if name == "slow" {
		v /= 2
	}
	return workload.Raw{"value": []byte(strconv.FormatFloat(v, 'g', -1, 64))}, nil
}
func (d *dice) Parse(raw workload.Raw, _ param.Values) ([]sample.Value, error) {
	v, err := strconv.ParseFloat(string(raw["value"]), 64)
	if err != nil {
		return nil, fault.New(fault.Invalid, "value: %w", err)
	}
	return []sample.Value{{Metric: "throughput", Unit: "op/s", Value: v}}, nil
}

// bench is a lab, a plan and a run folder, ready to run.
type bench struct {
	t         testing.TB
	drivers   []driver.Driver
	shelf     *shelf
	dice      *dice
	plan      *plan.Plan
	lab       []byte
	dir, base string
}

const labHead = `schema: bakeoff/lab/v1
name: test
contenders:
  - {name: base, driver: shelf}
`

func newBench(t testing.TB, contenders, design string, cells ...string) *bench {
	t.Helper()
	b := &bench{t: t, base: t.TempDir(), shelf: &shelf{name: "shelf"}, dice: &dice{}}
	b.drivers = []driver.Driver{b.shelf, &shelf{name: "absent"}, &shelf{name: "second"}}
	b.lab = []byte(labHead + contenders + "baseline: base\ncells:\n")
	for _, cell := range append([]string{"one"}, cells...) {
		b.lab = append(b.lab, "  - {name: "+cell+", workload: dice, primary: true}\n"...)
	}
	b.lab = append(b.lab, "design: {"+design+"}\n"...)
	cat := preflight.CatalogueOf(b.drivers, []execution.Runner{b.dice})
	lab, err := manifest.Parse("bakeoff.yaml", b.lab, cat, "")
	if err != nil {
		t.Fatal(err)
	}
	if b.plan, err = plan.Expand(lab, cat, 1, "test"); err != nil {
		t.Fatal(err)
	}
	return b
}

// options opens the run folder, made when it is not there, and the manager.
func (b *bench) options(ctx context.Context) (Options, func()) {
	b.t.Helper()
	b.dir = filepath.Join(b.base, "run")
	var run *store.Run
	var err error
	if _, serr := os.Stat(b.dir); serr == nil {
		run, err = store.Resume(b.dir)
	} else {
		var enc []byte
		if enc, err = plan.Encode(b.plan); err == nil {
			run, err = store.Create(b.dir, time.Now(), b.lab, enc)
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
	manager, err := env.Open(ctx, env.Config{StateDir: filepath.Join(b.base, "state"),
		CacheDir: filepath.Join(b.base, "cache"), Host: nowhere{}, Run: "run"}, b.drivers)
	if err != nil {
		b.t.Fatal(err)
	}
	o := Options{Plan: b.plan, Run: run, Drivers: b.drivers, Workloads: []execution.Runner{b.dice}, Env: manager}
	return o, func() {
		if err := manager.Close(context.Background()); err != nil {
			b.t.Error(err)
		}
		if err := run.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bench) run(ctx context.Context) (Outcome, []store.Line) {
	b.t.Helper()
	o, done := b.options(ctx)
	defer done()
	out, err := Run(ctx, o)
	if err != nil {
		b.t.Fatal(err)
	}
	lines, err := o.Run.Journal()
	if err != nil {
		b.t.Fatal(err)
	}
	if n := b.shelf.open.Load(); n != 0 {
		b.t.Errorf("%d environments were never given back", n)
	}
	left, err := env.Leases(filepath.Join(b.base, "state"))
	if err != nil || len(left) != 0 {
		b.t.Errorf("leases left: %v %v", left, err)
	}
	return out, lines
}

func count(lines []store.Line, keep func(store.Line) bool) int {
	n := 0
	for _, l := range lines {
		if keep(l) {
			n++
		}
	}
	return n
}

func TestDecidesAndStops(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: second}\n", "looks: [8, 12], alphas: [.02, .03]")
	b.drivers[2] = &shelf{name: "second"}
	out, lines := b.run(t.Context())
	if out.Ended != analysis.EndedDecided {
		t.Fatalf("ended %q, want decided", out.Ended)
	}
	// 8 blocks of (base, slow, twin) twice each.
	if n := count(lines, func(l store.Line) bool { return l.Type == store.LineTrial }); n != 8*6 {
		t.Errorf("%d trials, want 48", n)
	}
	c := out.Results.Comparisons[0]
	if c.Verdict != "worse" || c.Contender != "slow" || *c.Ratio < 0.48 || *c.Ratio > 0.52 {
		t.Errorf("comparison %+v, want slow worse at half", c)
	}
	if out.Results.Twin == nil || out.Results.Twin.Different {
		t.Errorf("twin %+v, want one that does not differ", out.Results.Twin)
	}
}

func TestWhatCannotRunIsMissingAndTheRestRuns(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n  - {name: gone, driver: absent}\n", "looks: [8], alphas: [.05]")
	out, _ := b.run(t.Context())
	if out.Ended != analysis.EndedDecided && out.Ended != analysis.EndedBlocks {
		t.Errorf("ended %q", out.Ended)
	}
	i := slices.IndexFunc(out.Results.Missing, func(m analysisMissing) bool { return m.Contender == "gone" })
	if i < 0 || !strings.Contains(out.Results.Missing[i].Reason, "apt-get install absent") ||
		!out.Results.Missing[i].Gone {
		t.Errorf("missing %+v, want gone for good with its remedy", out.Results.Missing)
	}
}

func TestABaselineThatCannotRunIsRefused(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.shelf.fail = nil
	b.plan.Contenders[0].Driver = "absent"
	o, done := b.options(t.Context())
	defer done()
	var reason string
	o.Events = func(e Event) {
		if e.Kind == Unavailable {
			reason = e.Text
		}
	}
	_, err := Run(t.Context(), o)
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("error %v, want Unsupported", err)
	}
	if !strings.Contains(reason, "apt-get install absent") || strings.Contains(err.Error(), reason) {
		t.Errorf("the progress says %q, the error %q: the reason belongs in the first alone", reason, err)
	}
}

// The laboratory's failure voids the whole block and a spare one is run.
func TestOurFailureVoidsTheBlock(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.dice.run = func(_ execution.Target, n int64) error {
		if n == 9 {
			return fault.New(fault.Lab, "the way broke")
		}
		return nil
	}
	out, lines := b.run(t.Context())
	if out.Results.Void != 1 || out.Results.Blocks != 8 {
		t.Errorf("%d void and %d counting blocks, want 1 and 8", out.Results.Void, out.Results.Blocks)
	}
	if n := count(lines, func(l store.Line) bool {
		return l.Type == store.LineBlock && strings.Contains(l.Reason, "the way broke")
	}); n != 1 {
		t.Errorf("%d void blocks give the reason, want 1", n)
	}
}

func TestSubjectFailuresCountInTheRanks(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	b.dice.run = func(tg execution.Target, n int64) error {
		if tg.Subject.(*book).spec.Name == "slow" && n%5 == 0 {
			return fault.New(fault.Subject, "exit code 139")
		}
		return nil
	}
	out, _ := b.run(t.Context())
	i := slices.IndexFunc(out.Results.Summaries, func(s analysisSummary) bool { return s.Contender == "slow" })
	if i < 0 || out.Results.Summaries[i].Failures == 0 || out.Results.Summaries[i].N+
		out.Results.Summaries[i].Failures != 16 {
		t.Errorf("summary %+v, want failures counted beside 16 trials", out.Results.Summaries)
	}
}

// A trial that the environment cannot do, such as one without a shell, is a failure of the
// contender in every block. It voids none, so that the other contenders get their verdict.
func TestATrialThatTheSubjectCannotDoVoidsNoBlock(t *testing.T) {
	b := newBench(t, "  - {name: bare, driver: shelf}\n", "looks: [8], alphas: [.05]")
	runs := 0
	b.dice.run = func(tg execution.Target, _ int64) error {
		if tg.Subject.(*book).spec.Name != "bare" {
			return nil
		}
		runs++
		return fault.New(fault.Unsupported, "there is no sh")
	}
	out, lines := b.run(t.Context())
	if n := count(lines, func(l store.Line) bool { return l.Type == store.LineBlock && l.Status == store.Void }); n != 0 {
		t.Errorf("%d blocks are void", n)
	}
	if boots := count(lines, func(l store.Line) bool {
		return l.Type == store.LineEnvironment && l.Contender == "bare"
	}); runs != boots {
		t.Errorf("the trial was tried %d times in %d environments, want once in each", runs, boots)
	}
	if m := out.Results.Missing; len(m) != 1 || !strings.HasSuffix(m[0].Reason, "run: there is no sh") {
		t.Errorf("missing: %+v", m)
	}
}

// A program that the kernel killed cannot say why. The sentence of the failure does,
// with the limit; a failure of another trial in the same environment does not.
func TestOutOfMemoryIsNamed(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf, memory: 256MiB}\n", "looks: [8], alphas: [.05]")
	times := map[*book]int{}
	b.dice.run = func(tg execution.Target, _ int64) error {
		subject := tg.Subject.(*book)
		if subject.spec.Name != "slow" {
			return nil
		}
		if times[subject]++; times[subject] == 1 {
			subject.killed++
			return fault.New(fault.Subject, "exit code 137")
		}
		return fault.New(fault.Subject, "exit code 1")
	}
	out, lines := b.run(t.Context())
	const want = "killed by the kernel: out of memory (limit 256 MiB): run: exit code 137"
	named := count(lines, func(l store.Line) bool { return l.Trial != nil && l.Reason == want })
	other := count(lines, func(l store.Line) bool { return l.Trial != nil && l.Reason == "run: exit code 1" })
	if named == 0 || named != other {
		t.Errorf("%d trials say %q, and %d failed otherwise", named, want, other)
	}
	if m := out.Results.Missing; len(m) != 1 || !strings.HasSuffix(m[0].Reason, want) {
		t.Errorf("missing: %+v", m)
	}
}

// A contender that failed because other programs had its CPUs is not to blame: the block
// is void, a spare one replaces it, and the journal names the cause. A contender that
// used up its memory at the same time failed by itself.
func TestAFailureWithoutACPUVoidsTheBlock(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf, memory: 256MiB}\n", "looks: [8], alphas: [.05]")
	b.dice.run = func(tg execution.Target, n int64) error {
		subject := tg.Subject.(*book)
		switch {
		case n == 9:
			subject.waited += 3600 // more than the trial took
			return fault.New(fault.Subject, "the server answered nothing")
		case n == 20:
			subject.waited += 3600
			subject.killed++
			return fault.New(fault.Subject, "exit code 137")
		}
		return nil
	}
	out, lines := b.run(t.Context())
	if out.Results.Void != 1 || out.Results.Blocks != 8 {
		t.Errorf("%d void and %d counting blocks, want 1 and 8", out.Results.Void, out.Results.Blocks)
	}
	for _, want := range []string{"for CPUs that other programs had, and got 0.000 s of CPU time: run: " +
		"the server answered nothing",
		"out of memory (limit 256 MiB): run: exit code 137"} {
		if n := count(lines, func(l store.Line) bool { return l.Trial != nil && strings.Contains(l.Reason, want) }); n != 1 {
			t.Errorf("%d trials say %q, want 1", n, want)
		}
	}
}

// A run in which no comparison can get a verdict any more ends before its budget and
// says why. Every trial of slow fails a check; after 13 of 26 blocks so will half of
// its trials at the last look, whatever follows.
func TestStopsWhereNothingCanBeDecided(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8, 26], alphas: [.02, .03]")
	b.dice.run = func(tg execution.Target, _ int64) error {
		if subject := tg.Subject.(*book); subject.spec.Name == "slow" {
			subject.killed++
		}
		return nil
	}
	out, lines := b.run(t.Context())
	if out.Ended != analysis.EndedStuck || out.Results.Blocks != 13 || lines[len(lines)-1].Reason != analysis.EndedStuck ||
		!strings.Contains(analysis.EndedText(out.Ended), "can no longer get one") {
		t.Errorf("ended %q after %d blocks, want stuck after 13", out.Ended, out.Results.Blocks)
	}
	run, err := store.Open(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if r, err := evidence.Verify(run, execution.Parsers([]execution.Runner{b.dice}), nil); err != nil || !r.OK() {
		t.Errorf("it does not verify: %v, %v", err, r.Findings)
	}
}

// A run in which every trial fails ends after two blocks. So does one in which only the
// baseline, or only the contender, never succeeds. If another contender is left, the
// run measures only those that succeed.
func TestStopsWhereEverythingFails(t *testing.T) {
	for _, tt := range []struct {
		contenders string
		fails      string
		blocks     int
		ended      string
	}{
		{"  - {name: slow, driver: shelf}\n", "base base~twin slow", 2, analysis.EndedFailed},
		{"  - {name: slow, driver: shelf}\n", "base base~twin", 2, analysis.EndedFailed},
		{"  - {name: slow, driver: shelf}\n", "slow", 2, analysis.EndedFailed},
		{"", "base base~twin", 2, analysis.EndedFailed},
		{"  - {name: slow, driver: shelf}\n  - {name: broken, driver: shelf}\n", "broken", 8, analysis.EndedStuck},
	} {
		b := newBench(t, tt.contenders, "looks: [8, 26], alphas: [.02, .03]")
		b.dice.run = func(tg execution.Target, _ int64) error {
			if slices.Contains(strings.Fields(tt.fails), tg.Subject.(*book).spec.Name) {
				return fault.New(fault.Subject, "exit code 3")
			}
			return nil
		}
		out, lines := b.run(t.Context())
		failed := count(lines, func(l store.Line) bool { return l.Trial != nil && l.Status == store.Subject })
		if want := 4 * len(strings.Fields(tt.fails)); out.Ended != tt.ended || out.Results.Blocks != tt.blocks ||
			failed != want {
			t.Errorf("%s: ended %q after %d blocks with %d failed trials, want %q after %d with %d", tt.fails, out.Ended,
				out.Results.Blocks, failed, tt.ended, tt.blocks, want)
		}
		run, err := store.Open(b.dir)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := evidence.Verify(run, execution.Parsers([]execution.Runner{b.dice}), nil); err != nil || !r.OK() {
			t.Errorf("%s: it does not verify: %v, %v", tt.fails, err, r.Findings)
		}
		run.Close()
	}
}

func TestInterruptedRunKeepsWhatItHas(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	ctx, cancel := context.WithCancel(t.Context())
	b.dice.run = func(_ execution.Target, n int64) error {
		if n == 15 {
			cancel()
		}
		return nil
	}
	out, _ := b.run(ctx)
	if out.Ended != analysis.EndedInterrupted || out.Results.Blocks != 2 || out.Results.Void != 1 {
		t.Errorf("ended %q with %d blocks and %d void; want interrupted, 2, 1", out.Ended,
			out.Results.Blocks, out.Results.Void)
	}
	b.dice.run = nil
	out, lines := b.run(t.Context()) // resumes
	if out.Results.Blocks != 8 {
		t.Errorf("%d blocks after resuming, want 8", out.Results.Blocks)
	}
	once(t, b.plan, lines)
}

func TestBudget(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [26], alphas: [.05], budget: 1s")
	o, done := b.options(t.Context())
	defer done()
	clock := time.Now()
	o.Now = func() time.Time { clock = clock.Add(5 * time.Millisecond); return clock }
	out, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if out.Ended != analysis.EndedBudget || out.Results.Blocks == 0 || out.Results.Blocks == 26 {
		t.Errorf("ended %q after %d blocks, want budget in between", out.Ended, out.Results.Blocks)
	}
}

// once checks that every trial of the journal is in the plan at its place and
// that none stands there twice.
func once(t testing.TB, p *plan.Plan, lines []store.Line) {
	t.Helper()
	seen := map[string]bool{}
	for _, l := range lines {
		if l.Type != store.LineTrial {
			continue
		}
		key := fmt.Sprint(l.Block, "/", l.Position)
		if seen[key] {
			t.Errorf("trial %s was run twice", key)
		}
		seen[key] = true
		i := slices.IndexFunc(p.Blocks, func(b plan.Block) bool { return b.Index == l.Block })
		j := slices.IndexFunc(p.Blocks[i].Slots(), func(s plan.Slot) bool { return s.Position == l.Position })
		if s := p.Blocks[i].Slots()[j]; s.Contender != l.Contender || s.Cell != l.Cell {
			t.Errorf("trial %s is %s on %s, planned was %s on %s", key, l.Cell, l.Contender, s.Cell, s.Contender)
		}
	}
}

// Environments that were to serve all blocks do not live on where the controller
// was killed: the results say that there were two sets of them.
func TestResumedWithInstancesOfTheRun(t *testing.T) {
	const design = "looks: [8], alphas: [.05], instances: run"
	if base := os.Getenv("TRIAL_CHILD"); base != "" {
		b := newBench(t, "  - {name: slow, driver: shelf}\n", design)
		b.base = base
		b.runUntilKilled(t)
		return
	}
	b := newBench(t, "  - {name: slow, driver: shelf}\n", design)
	b.killAfter(t, "TestResumedWithInstancesOfTheRun", 30)
	outcome, _ := b.run(t.Context())
	r := outcome.Results
	if r.InstanceSets != 2 || !slices.ContainsFunc(r.Warnings,
		func(w string) bool { return strings.Contains(w, "but 2 did, one after another") }) {
		t.Errorf("%d sets of instances, warnings %q", r.InstanceSets, r.Warnings)
	}
	text, err := os.ReadFile(filepath.Join(b.base, "run", store.ResultsFile))
	if err != nil || !bytes.Contains(text, []byte(`"instance_sets": 2`)) &&
		!bytes.Contains(text, []byte(`"instance_sets":2`)) {
		t.Errorf("results.json does not say it: %v", err)
	}
}

// What is made once for the run is in the first block's time, and in no other's:
// neither does the budget end for its sake, nor is it said that it will.
func TestMakingInstancesOnceIsNoBlocksTime(t *testing.T) {
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05], instances: run, budget: 20m")
	clock := time.Now() // a moment passes with each look at it
	b.shelf.fail = func(driver.Spec) error { clock = clock.Add(5 * time.Minute); return nil }
	o, done := b.options(t.Context())
	defer done()
	o.Now = func() time.Time { clock = clock.Add(time.Millisecond); return clock }
	var first Event
	o.Events = func(e Event) {
		if e.Kind == BlockEnd && e.Done == 1 {
			first = e
		}
	}
	outcome, err := Run(t.Context(), o)
	if err != nil || outcome.Results.Blocks != 8 {
		t.Errorf("%d blocks, ended %q, %v", outcome.Results.Blocks, outcome.Ended, err)
	}
	if made := 3 * 5 * time.Minute; first.Took <= 0 || first.Elapsed < first.Took+made {
		t.Errorf("the first block took %v of %v, in which three were made", first.Took, first.Elapsed)
	}
}

// runUntilKilled is the run of a child that killAfter kills. It does not end
// before that, however late the parent looks: one of the last trials waits.
func (b *bench) runUntilKilled(t *testing.T) {
	const held = 40 // of 48 trials, in the middle of a block
	b.dice.wait = 20 * time.Millisecond
	b.dice.run = func(_ execution.Target, n int64) error {
		if n == held {
			time.Sleep(2 * time.Minute) // killAfter waits for a minute
		}
		return nil
	}
	b.run(t.Context())
}

// killAfter runs a test of that name as a child, and kills it when the journal
// has so many lines.
func (b *bench) killAfter(t *testing.T, name string, lines int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+name+"$")
	// A killed child removes no folder of its own: it makes them below ours.
	child.Env = append(os.Environ(), "TRIAL_CHILD="+b.base, "TMPDIR="+t.TempDir())
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(b.base, "run", store.JournalFile)) // not there at first
		if bytes.Count(text, []byte("\n")) >= lines {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child wrote no %d lines: %s", lines, out.Bytes())
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
}

// A controller killed at any moment loses no finished trial; the next one
// goes on with the same schedule.
func TestKilledAndResumed(t *testing.T) {
	if base := os.Getenv("TRIAL_CHILD"); base != "" {
		b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
		b.base = base
		b.runUntilKilled(t)
		return
	}
	b := newBench(t, "  - {name: slow, driver: shelf}\n", "looks: [8], alphas: [.05]")
	journal := filepath.Join(b.base, "run", store.JournalFile)
	for _, lines := range []int{5, 17, 40} {
		b.killAfter(t, "TestKilledAndResumed", lines)
	}
	before, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	outcome, lines := b.run(t.Context())
	after, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	whole := before[:bytes.LastIndexByte(before, '\n')+1]
	if !bytes.HasPrefix(after, whole) {
		t.Error("a line that was on disk before the kill is gone")
	}
	once(t, b.plan, lines)
	if outcome.Results.Blocks != 8 || outcome.Results.Void < 1 || outcome.Results.Void > 3 {
		t.Errorf("%d blocks, %d void; want 8 and one a kill at most", outcome.Results.Blocks, outcome.Results.Void)
	}
	var again map[string]any
	b2, err := os.ReadFile(filepath.Join(b.base, "run", store.ResultsFile))
	if err != nil || json.Unmarshal(b2, &again) != nil {
		t.Errorf("results.json: %v", err)
	}
}
