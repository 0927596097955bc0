package report

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/reach/wire"
)

// keep leaves the runs of tests where a person can look at their pages:
//
//	go test ./report -keep /some/folder
var keep = flag.String("keep", "", "folder to leave the runs of tests in")

const twin = "host" + name.TwinSuffix

// effect is the true state of a contender at a cell: its ratio to the
// baseline, noise of a trial, share of trials that fail.
type effect struct{ ratio, noise, fails float64 }

// world is what the fixture simulates: a run with every kind of verdict.
type world struct {
	baseline float64 // value of the first metric
	cost     float64 // value of the second, per unit of work
	effects  map[string]effect
}

var (
	contenders = []string{"host", "chroot", "crun", "microvm"}
	cells      = []analysis.Cell{
		{Name: "sha256-16k", Workload: "crypto", Params: param.Values{"algorithm": "sha256", "block": "16KiB", "time": "2s"},
			Metrics: []sample.Metric{
				{Name: "throughput", Unit: "B/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
					Doc: "bytes hashed in a second"},
				{Name: "cpu-per-op", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio,
					Doc: "CPU time of one block of 16 KiB"}}},
		{Name: "syscall", Workload: "syscall", Params: param.Values{"call": "getppid", "time": "1s"},
			Metrics: []sample.Metric{
				{Name: "rate", Unit: "op/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
					Doc: "system calls in a second"},
				{Name: "cpu-per-op", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio}}},
		{Name: "files", Workload: "files", Params: param.Values{"count": "2000", "size": "4KiB"}, Metrics: []sample.Metric{
			{Name: "create", Unit: "s/op", Better: sample.Lower, Primary: true, Scale: sample.Ratio,
				Doc: "time to create one file of 4 KiB"},
			{Name: "context-switches-per-op", Unit: "1", Better: sample.Lower, Scale: sample.Difference}}},
		{Name: "http-50", Workload: "http", Params: param.Values{"server": "nginx", "connections": "50", "time": "5s"},
			Metrics: []sample.Metric{
				{Name: "throughput", Unit: "request/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
					Doc: "good responses in a second"},
				{Name: "cpu-per-request", Unit: "s/request", Better: sample.Lower, Primary: true, Scale: sample.Ratio,
					Doc: "CPU time of the environment for one request"}}},
	}
	worlds = map[string]world{
		"sha256-16k": {1.84e9, 8.9e-6, map[string]effect{"host": {1, .004, 0}, "chroot": {1.001, .004, 0},
			"crun": {.999, .005, 0}, "microvm": {.052, .01, 0}, twin: {1, .004, 0}}},
		"syscall": {7.2e6, 1.38e-7, map[string]effect{"host": {1, .006, 0}, "chroot": {1, .006, 0},
			"crun": {.958, .008, 0}, "microvm": {.31, .02, 0}, twin: {1, .006, 0}}},
		"files": {4.1e-5, 2.3, map[string]effect{"host": {1, .05, 0}, "chroot": {1.018, .06, 0}, "crun": {.91, .05, 0},
			"microvm": {1.9, .08, .15}, twin: {1, .05, 0}}},
		"http-50": {31800, 4.6e-5, map[string]effect{"host": {1, .008, 0}, "chroot": {1.002, .008, 0},
			"crun": {1, .008, 0}, "microvm": {0, 0, 1}, twin: {1, .008, 0}}},
	}
)

// design of the fixture: 12 blocks, so that some comparisons are decided at
// the first look, some at the second, and some are not.
var (
	looks  = []int{8, 12}
	alphas = []float64{.02, .03}
)

const blocks = 12

// example is the simulated run: observations and the schedule.
func example() (analysis.Data, plan.Plan) {
	rng := rand.New(rand.NewPCG(1, 2))
	names := append(append([]string{}, contenders...), twin)
	d := analysis.Data{Run: "20261121T200000Z-static-web", Seed: 42, Baseline: "host", Twin: twin, Cells: cells,
		Margin: 0.02,
		Looks:  looks, Alphas: alphas, Scope: analysis.ScopeMachine, Trials: 2, Void: 1, Ended: "blocks",
		Meant: []string{"driver"}, Facts: sampleFacts(),
		Missing: []analysis.Missing{{Contender: "microvm", Cell: "http-50",
			Reason: "the server answered 404 to the first request: /index.html is not in the image"}}}
	drivers := map[string]string{"host": "host", "chroot": "chroot", "crun": "oci", "microvm": "qemu", twin: "host"}
	p := plan.Plan{Schema: plan.Schema, Lab: "static-web", Version: "0.1.0", Seed: 42, Baseline: "host", Twin: twin,
		Design: manifest.Design{Margin: 0.02, Looks: looks, Alphas: alphas, Instances: "block", Mirror: true,
			Budget: 30 * time.Minute}}
	for _, n := range names {
		c := analysis.Contender{Name: n, Driver: drivers[n], Host: "local", Facts: map[string]string{}}
		if n == "microvm" {
			c.Facts["accelerator"] = "tcg (no /dev/kvm)"
		}
		if n == twin {
			c.TwinOf = "host"
		}
		d.Contenders = append(d.Contenders, c)
		p.Contenders = append(p.Contenders, plan.Contender{Contender: manifest.Contender{Name: n, Driver: c.Driver,
			Host: "local", CPUs: 1, Memory: 512 * unit.MiB}, TwinOf: c.TwinOf})
	}
	for k := range blocks + 1 {
		block := plan.Block{Index: k, Create: names, Spare: k == blocks}
		position := 0
		for _, c := range cells {
			order := append([]string{}, names...)
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for i := len(names) - 1; i >= 0; i-- {
				order = append(order, order[i])
			}
			block.Visits = append(block.Visits, plan.Visit{Cell: c.Name, Order: order})
			drift := 1 + 0.01*math.Sin(float64(k)/2) // the machine's, which all contenders share
			for _, n := range order {
				if n == "microvm" && c.Name == "http-50" {
					position++
					continue
				}
				d.Observations = append(d.Observations, observe(rng, c, n, k, position, drift))
				position++
			}
		}
		p.Blocks = append(p.Blocks, block)
	}
	for _, c := range cells {
		for _, m := range c.Metrics {
			for _, n := range names[1:] {
				if m.Primary && n == twin {
					p.TwinFamily = append(p.TwinFamily, plan.Comparison{Contender: n, Cell: c.Name, Metric: m.Name})
				} else if m.Primary {
					p.Family = append(p.Family, plan.Comparison{Contender: n, Cell: c.Name, Metric: m.Name})
				}
			}
		}
	}
	return d, p
}

// observe simulates one trial.
func observe(rng *rand.Rand, c analysis.Cell, name string, block, position int, drift float64) analysis.Observation {
	w := worlds[c.Name]
	e := w.effects[name]
	o := analysis.Observation{Block: block, Position: position, Instance: fmt.Sprintf("%s-%d", name, block),
		Contender: name, Cell: c.Name}
	if rng.Float64() < e.fails {
		o.Failed, o.Reason = true, "fsync: input/output error"
		return o
	}
	noise := math.Exp(e.noise * rng.NormFloat64())
	value := w.baseline * e.ratio * drift * noise
	cost := w.cost * drift * noise
	if name == "crun" {
		cost *= 1.12
	}
	if name == "microvm" {
		cost *= 7.4
	}
	if c.Metrics[1].Scale == sample.Difference {
		cost = math.Round(10*cost) / 10
	}
	if c.Name == "http-50" && name == "crun" {
		o.Gates = map[string]string{"ceiling": "the load generator was 97 % busy: its ceiling was measured"}
	}
	o.Values = []sample.Value{{Metric: c.Metrics[0].Name, Unit: c.Metrics[0].Unit, Value: value},
		{Metric: c.Metrics[1].Name, Unit: c.Metrics[1].Unit, Value: cost}}
	return o
}

func sampleFacts() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, n := range append(append([]string{}, contenders...), twin) {
		f := map[string]string{"kernel": "Linux 6.18.3", "arch": "amd64", "cpu.model": "AMD EPYC 9654", "cpu.count": "1",
			"clocksource": "tsc", "libc": "glibc 2.36", "openssl": "3.0.15", "os": "Debian 12", "fs./": "ext4 rw,relatime",
			"governor": "performance"}
		switch n {
		case "crun":
			f["fs./"] = "overlay rw,lowerdir=…,upperdir=…"
			f["limit.memory"] = "512MiB"
		case "microvm":
			f["kernel"], f["clocksource"], f["fs./"] = "Linux 6.1.0-cloud", "kvm-clock", "ext4 ro on virtio-blk"
			f["cpu.model"] = "QEMU TCG CPU"
			delete(f, "governor")
		}
		out[n] = f
	}
	return out
}

const lab = `schema: bakeoff/lab/v1
name: static-web
contenders:
  - {name: host, driver: host}
  - {name: chroot, driver: chroot, image: debian:bookworm}
  - {name: crun, driver: oci, runtime: crun, image: debian:bookworm}
  - {name: microvm, driver: qemu, machine: microvm, image: debian:bookworm}
baseline: host
cells:
  - {name: sha256-16k, workload: crypto, params: {algorithm: sha256, block: 16KiB, time: 2s}, primary: true}
`

// folder writes a run folder for d and p, with results as given, and returns
// its path.
func folder(t testing.TB, d analysis.Data, p plan.Plan, r analysis.Results) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), d.Run)
	if *keep != "" {
		dir = filepath.Join(*keep, t.Name(), d.Run)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	planned, err := json.MarshalIndent(p, "", "  ")
	must(t, err)
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	run, err := store.Create(dir, at, []byte(lab), planned)
	must(t, err)
	defer run.Close()
	for name, f := range d.Facts {
		_, err := run.WriteFingerprint(name, facts.Fingerprint{Schema: facts.FingerprintSchema, Facts: f})
		must(t, err)
	}
	journal(t, run, at, d)
	r.PlanSHA256 = cmp.Or(r.PlanSHA256, plan.Hash(planned))
	results, err := json.Marshal(r)
	must(t, err)
	must(t, run.WriteResults(results))
	return dir
}

// journal writes what the run would have: environments, trials with counters
// and one raw output each, and a void block. The trials of one
// block are enough for the strips: each is synced.
func journal(t testing.TB, run *store.Run, at time.Time, d analysis.Data) {
	t.Helper()
	memory, one := 512*unit.MiB, 1
	for i, c := range d.Contenders {
		l := facts.Limits{CPUs: &one, CPUSet: []int{1}, Memory: &memory}
		if c.Driver == "host" {
			l.NotEnforced = map[string]string{"memory": "a bare host has no group of its own"}
		}
		must(t, run.Append(store.Line{Type: store.LineEnvironment, At: at, Contender: c.Name, Instance: c.Name + "-0",
			Status:   store.OK,
			CreateNS: int64(i+1) * 130e6, Limits: &l}))
	}
	for i, o := range d.Observations {
		if o.Block != 1 {
			continue
		}
		start := at.Add(time.Duration(i) * time.Second)
		line := store.Line{Type: store.LineTrial, At: start, Block: o.Block, Contender: o.Contender, Instance: o.Instance,
			Status: store.OK,
			Trial: &store.Trial{Position: o.Position, Cell: o.Cell, Start: start, End: start.Add(time.Second), State: "fresh",
				Cache: "warm"}}
		if o.Failed {
			line.Status, line.Reason = store.Subject, o.Reason
		}
		busy := map[string]float64{"sha256-16k": .99, "syscall": .98, "files": .41, "http-50": .62}[o.Cell]
		counter := func(v float64) *float64 { return &v }
		line.Before = &facts.Counters{CPU: &facts.CPU{}, AtNS: 1, ContextSwitches: counter(1000), MajorFaults: counter(3)}
		line.After = &facts.Counters{CPU: &facts.CPU{User: busy * .7, System: busy * .3, Steal: .006,
			IOWait: map[bool]float64{true: .3}[o.Cell == "files"], Idle: max(0, .694-busy)},
			AtNS: 2_000_000_001, ContextSwitches: counter(25000), MajorFaults: counter(3)}
		if o.Contender == "microvm" && o.Cell == "syscall" {
			line.Before = nil // a machine that has no counters
		}
		work := wire.Result{Schema: wire.WorkSchema}
		if o.Cell == "http-50" {
			work.Generator = &wire.Generator{Utilisation: .97, Priority: "real-time <b>"}
		}
		data, err := json.Marshal(work)
		must(t, err)
		line.Raw, err = run.WriteRaw(plan.Slot{Block: o.Block, Position: o.Position, Contender: o.Contender, Cell: o.Cell},
			map[string][]byte{"work.json": data})
		must(t, err)
		must(t, run.Append(line))
	}
	must(t, run.Append(store.Line{Type: store.LineBlock, At: at.Add(time.Minute), Block: 5, Status: store.Void,
		Reason: "the host's clock stepped by 2.1 s"}))
	must(t, run.Append(store.Line{Type: store.LineEnd, At: at.Add(8 * time.Minute), Reason: "blocks"}))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
