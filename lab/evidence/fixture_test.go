package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fixture is a workload whose raw output is a wire.Result with one value.
type fixture struct {
	version int
	factor  float64 // what a changed parser multiplies by
	parsed  *int    // counts calls
}

func (f fixture) Doc() workload.Doc {
	return workload.Doc{Name: "fixture", Parser: f.version, State: "fresh", Cache: "warm",
		Metrics: []sample.Metric{{Name: "speed", Unit: "1/s", Better: sample.Higher, Primary: true,
			Scale: sample.Ratio, Doc: "how fast"}},
		Params: []param.Spec{{Name: "time", Kind: param.Duration, Default: "1s"}}}
}
func (f fixture) Parse(raw workload.Raw, _ param.Values) ([]sample.Value, error) {
	if f.parsed != nil {
		*f.parsed++
	}
	var r wire.Result
	if err := json.Unmarshal(raw[workload.Work], &r); err != nil {
		return nil, err
	}
	if r.Errors["wrong answer"] > 0 {
		return nil, fault.New(fault.Subject, "a wrong answer")
	}
	for i := range r.Values {
		r.Values[i].Value *= f.factor
	}
	return r.Values, nil
}

var today = []workload.Parser{fixture{version: 1, factor: 1}}

func catalogue() manifest.Catalogue {
	d := fixture{}.Doc()
	return manifest.Catalogue{
		Drivers: []manifest.DriverEntry{{Name: "chroot", Image: true}, {Name: "host"},
			{Name: "oci", Image: true, Backings: []string{"dir"}}},
		Workloads: []manifest.WorkloadEntry{{Name: d.Name, Metrics: d.Metrics, Params: d.Params}},
	}
}

const labText = `schema: bakeoff/lab/v1
name: fixture
contenders: [{name: host, driver: host}, {name: crun, driver: oci, image: "debian:bookworm"},
  {name: slow, driver: oci, image: "debian:bookworm", memory: 1GiB}]
baseline: host
cells: [{name: fast, workload: fixture, primary: true}, {name: other, workload: fixture}]
design: {looks: [8, 12], alphas: [.02, .03]}
`

func encoded(t testing.TB) (*plan.Plan, []byte) {
	t.Helper()
	lab, err := manifest.Parse("bakeoff.yaml", []byte(labText), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, catalogue(), 5, "test")
	if err != nil {
		t.Fatal(err)
	}
	data, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, data
}

// recorder writes a run as the controller would, with made-up numbers.
type recorder struct {
	t     testing.TB
	plan  *plan.Plan
	run   *store.Run
	clock time.Time
	noise *rand.Rand
	// speed is the true speed of a contender.
	speed map[string]float64
	// change edits a trial before it is kept; it may be nil.
	change func(plan.Slot, *store.Line, *wire.Result)
}

func record(t testing.TB) *recorder {
	p, data := encoded(t)
	run, err := store.Create(filepath.Join(t.TempDir(), "20261121T120000Z-fixture"), noon, []byte(labText), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	r := &recorder{t: t, plan: p, run: run, clock: noon, noise: rand.New(rand.NewPCG(1, 2)),
		speed: map[string]float64{"host": 1000, "host~twin": 1000, "crun": 1000, "slow": 500}}
	for _, c := range p.Contenders {
		if _, err := run.WriteFingerprint(c.Name, facts.Fingerprint{Schema: facts.FingerprintSchema,
			Facts: map[string]string{"kernel": "6.18", "driver.runtime": c.Driver}}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *recorder) append(l store.Line) {
	r.t.Helper()
	if err := r.run.Append(l); err != nil {
		r.t.Fatal(err)
	}
}

// trial keeps one trial.
func (r *recorder) trial(s plan.Slot) {
	r.t.Helper()
	start := r.clock
	r.clock = r.clock.Add(time.Second)
	value := r.speed[s.Contender] * math.Exp(.002*r.noise.NormFloat64())
	work := wire.Result{Schema: wire.WorkSchema, ElapsedNS: 9e8, Check: wire.Check{Verified: true, Scaling: 2},
		Values: []sample.Value{{Metric: "speed", Unit: "1/s", Value: math.Round(value*1000) / 1000}}}
	line := store.Line{Type: store.LineTrial, At: r.clock, Block: s.Block, Contender: s.Contender,
		Instance: fmt.Sprintf("%s-%d", s.Contender, s.Block), Status: store.OK,
		Trial: &store.Trial{Position: s.Position, Cell: s.Cell, Start: start, End: r.clock, State: "fresh",
			Cache: "warm", Parser: "fixture/1",
			Before: &facts.Counters{AtNS: start.UnixNano()}, After: &facts.Counters{AtNS: r.clock.UnixNano()}}}
	if r.change != nil {
		r.change(s, &line, &work)
	}
	text, err := json.Marshal(work)
	if err != nil {
		r.t.Fatal(err)
	}
	if line.Raw, err = r.run.WriteRaw(s, map[string][]byte{workload.Work: text}); err != nil {
		r.t.Fatal(err)
	}
	r.append(line)
}

// block keeps a block without the contenders that left.
func (r *recorder) block(index int, left ...string) {
	r.t.Helper()
	gone := map[string]bool{}
	for _, c := range left {
		gone[c] = true
	}
	for _, s := range r.plan.Blocks[index].Without(gone, nil).Slots() {
		r.trial(s)
	}
	r.append(store.Line{Type: store.LineBlock, At: r.clock, Block: index, Status: store.OK})
}

// finish ends the run and writes its results.
func (r *recorder) finish(reason string) analysis.Results {
	r.t.Helper()
	r.append(store.Line{Type: store.LineEnd, At: r.clock, Reason: reason})
	d, err := Load(r.run, today)
	if err != nil {
		r.t.Fatal(err)
	}
	results := analysis.Analyse(d)
	text, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.run.WriteResults(text); err != nil {
		r.t.Fatal(err)
	}
	return results
}

// edit changes a file of the run behind its back.
func (r *recorder) edit(name string, change func([]byte) []byte) {
	r.t.Helper()
	path := filepath.Join(r.run.Dir(), name)
	data, err := os.ReadFile(path)
	if err != nil {
		r.t.Fatal(err)
	}
	changed := change(bytes.Clone(data))
	if bytes.Equal(changed, data) {
		r.t.Fatalf("%s was not changed", name)
	}
	if err := os.WriteFile(path, changed, 0o666); err != nil {
		r.t.Fatal(err)
	}
}

func (r *recorder) replace(name, old, new string) {
	r.t.Helper()
	r.edit(name, func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) })
}

func (r *recorder) verify(workloads []workload.Parser) Report {
	r.t.Helper()
	cat := catalogue()
	report, err := Verify(r.run, workloads, &cat)
	if err != nil {
		r.t.Fatal(err)
	}
	return report
}

func findings(r Report) string {
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(append(lines, r.Notes...), "\n")
}
