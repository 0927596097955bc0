package plan

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/lab/manifest"
)

func catalogue() manifest.Catalogue {
	m := func(name string, better sample.Better) sample.Metric {
		return sample.Metric{Name: name, Unit: "1", Better: better, Scale: sample.Ratio, Primary: true}
	}
	return manifest.Catalogue{
		Drivers: []manifest.DriverEntry{{Name: "host"}, {Name: "oci", Image: true}},
		Workloads: []manifest.WorkloadEntry{
			{Name: "crypto", Metrics: []sample.Metric{m("throughput", sample.Higher)},
				Params: []param.Spec{{Name: "time", Kind: param.Duration, Default: "2s"}}},
			{Name: "http", Metrics: []sample.Metric{m("throughput", sample.Higher), m("cpu-per-request", sample.Lower)}},
		},
	}
}

func lab(t testing.TB, design string) *manifest.Lab {
	t.Helper()
	l, err := manifest.Parse("bakeoff.yaml", []byte(`schema: bakeoff/lab/v1
name: web
contenders: [{name: host, driver: host}, {name: crun, driver: oci, image: "debian:bookworm"}, `+
		`{name: runc, driver: oci, image: "debian:bookworm"}]
baseline: host
cells:
  - {name: sha, workload: crypto, primary: true}
  - {name: web, workload: http, primary: [throughput]}
  - {name: more, workload: http}
design: `+design+"\n"), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func expand(t testing.TB, design string, seed uint64) *Plan {
	t.Helper()
	p, err := Expand(lab(t, design), catalogue(), seed, "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func encode(t testing.TB, p *Plan) []byte {
	t.Helper()
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPlanRegistersTheExperiment(t *testing.T) {
	p := expand(t, "{}", 1)
	if p.Twin != "host~twin" || p.Contenders[3].TwinOf != "host" || p.Contenders[3].Driver != "host" ||
		len(p.Contenders) != 4 {
		t.Errorf("twin: %+v", p.Contenders)
	}
	want := []Comparison{{"crun", "sha", "throughput"}, {"crun", "web", "throughput"}, {"runc", "sha", "throughput"},
		{"runc", "web", "throughput"}}
	if !reflect.DeepEqual(p.Family, want) {
		t.Errorf("family: %v", p.Family)
	}
	if want := []Comparison{{"host~twin", "sha", "throughput"},
		{"host~twin", "web", "throughput"}}; !reflect.DeepEqual(p.TwinFamily, want) {
		t.Errorf("the twin's family: %v", p.TwinFamily)
	}
	if web := p.Cells[1]; !web.Metrics[0].Primary || web.Metrics[1].Primary || p.Cells[2].Metrics[0].Primary {
		t.Errorf("primary metrics are not the lab's: %+v", p.Cells)
	}
	if p.Planned() != 26 || len(p.Blocks) != 34 {
		t.Errorf("%d blocks planned, %d drawn", p.Planned(), len(p.Blocks))
	}
}

// Every block visits every contender once in random order and then mirrored:
// ABC CBA.
func TestBlocksAreCompleteAndMirrored(t *testing.T) {
	p := expand(t, "{}", 7)
	for _, b := range p.Blocks {
		for _, v := range b.Visits {
			back := slices.Clone(v.Order)
			slices.Reverse(back)
			if len(v.Order) != 8 || !slices.Equal(v.Order, back) {
				t.Fatalf("block %d, cell %s: %v", b.Index, v.Cell, v.Order)
			}
		}
		slots := b.Slots()
		if len(slots) != 24 || slots[23].Position != 23 || slots[8].Cell != b.Visits[1].Cell {
			t.Fatalf("block %d has slots %v", b.Index, slots)
		}
	}
	if p := expand(t, "{mirror: false}", 7); len(p.Blocks[0].Visits[0].Order) != 4 {
		t.Errorf("without mirror: %v", p.Blocks[0].Visits[0].Order)
	}
}

// Each contender comes first equally often, in visits and in creation, and
// all orders of three cells occur: 600 blocks, chi-squared with 3 degrees of
// freedom stays under 16.3 in 999 of 1,000 seeds (this one is fixed).
func TestOrderIsRandom(t *testing.T) {
	p := expand(t, "{looks: [600]}", 3)
	visit, create, cells := map[string]float64{}, map[string]float64{}, map[string]bool{}
	n := float64(len(p.Blocks))
	for _, b := range p.Blocks {
		visit[b.Visits[0].Order[0]]++
		create[b.Create[0]]++
		cells[b.Visits[0].Cell+b.Visits[1].Cell] = true
	}
	for what, count := range map[string]map[string]float64{"visited": visit, "created": create} {
		chi := 0.0
		for _, c := range p.Contenders {
			chi += math.Pow(count[c.Name]-n/4, 2) / (n / 4)
		}
		if chi > 16.3 {
			t.Errorf("%s first: %v", what, count)
		}
	}
	if len(cells) != 6 {
		t.Errorf("orders of cells seen: %v", cells)
	}
}

// The schedule of a seed never changes: old plans can be drawn again to prove
// that nothing was picked.
func TestScheduleIsStable(t *testing.T) {
	p := expand(t, "{}", 42)
	blocks, err := json.Marshal(p.Blocks)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Hash(blocks), "10e1817ddd9150d3b2e636e3d13c0c36b753131a6b380a666ffe0bcd2e35d3f9"; got != want {
		t.Errorf("the blocks of seed 42 have sha256 %s, they had %s", got, want)
	}
	longer := expand(t, "{looks: [8, 40]}", 42)
	if !reflect.DeepEqual(longer.Blocks[:26], p.Blocks[:26]) {
		t.Error("a longer plan begins otherwise")
	}
	if reflect.DeepEqual(expand(t, "{}", 43).Blocks, p.Blocks) {
		t.Error("another seed gives the same schedule")
	}
}

func TestPickedSchedulesAreFound(t *testing.T) {
	p := expand(t, "{}", 4)
	if err := p.Drawn(); err != nil {
		t.Error(err)
	}
	p.Blocks[3], p.Blocks[4] = p.Blocks[4], p.Blocks[3]
	p.Blocks[3].Index, p.Blocks[4].Index = 3, 4
	if err := p.Drawn(); err == nil || !strings.Contains(err.Error(), "block 3") {
		t.Errorf("two blocks changed places: %v", err)
	}
}

func TestFewBlocksDecideNothing(t *testing.T) {
	p := expand(t, "{blocks: 2}", 1)
	if p.Planned() != 2 || len(p.Blocks) != 4 || len(p.Design.Looks) != 0 || len(p.Design.Alphas) != 0 {
		t.Errorf("%d of %d blocks, looks %v, alphas %v", p.Planned(), len(p.Blocks), p.Design.Looks, p.Design.Alphas)
	}
	p = expand(t, "{blocks: 12}", 1)
	if !slices.Equal(p.Design.Looks, []int{8, 12}) || !slices.Equal(p.Design.Alphas, []float64{.01, .01}) {
		t.Errorf("looks %v, alphas %v", p.Design.Looks, p.Design.Alphas)
	}
}

func TestContendersLeaveWithoutMovingTheOthers(t *testing.T) {
	b := expand(t, "{}", 5).Blocks[3]
	short := b.Without(map[string]bool{"crun": true}, nil)
	var want []Slot
	for _, s := range b.Slots() {
		if s.Contender != "crun" {
			want = append(want, s)
		}
	}
	if got := short.Slots(); !slices.Equal(got, want) || len(got) != 18 {
		t.Errorf("slots are %v, want %v", got, want)
	}
	if len(short.Create) != 3 || slices.Contains(short.Create, "crun") || len(b.Create) != 4 {
		t.Errorf("creates %v", short.Create)
	}
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	p := expand(t, "{budget: 30m}", 11)
	data := encode(t, p)
	again, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, again), data) {
		t.Error("decoded and encoded it is another plan")
	}
}

func TestDecodeRefusesWhatIsNoPlan(t *testing.T) {
	whole := expand(t, "{}", 1)
	for name, change := range map[string]func(*Plan){
		"another schema":         func(p *Plan) { p.Schema = "bakeoff/plan/v2" },
		"a name that escapes":    func(p *Plan) { p.Contenders[1].Name = "../x" },
		"an unmirrored order":    func(p *Plan) { o := p.Blocks[2].Visits[0].Order; o[0], o[1] = o[1], o[0] },
		"a contender twice":      func(p *Plan) { o := p.Blocks[2].Visits[0].Order; o[0], o[7] = o[1], o[1] },
		"a contender left out":   func(p *Plan) { p.Blocks[0].Create = p.Blocks[0].Create[1:] },
		"a cell left out":        func(p *Plan) { p.Blocks[0].Visits = p.Blocks[0].Visits[1:] },
		"a comparison left out":  func(p *Plan) { p.Family = p.Family[1:] },
		"alphas that add up":     func(p *Plan) { p.Design.Alphas[0] = .04 },
		"looks out of order":     func(p *Plan) { p.Design.Looks[0] = 13 },
		"a look beyond the plan": func(p *Plan) { p.Design.Looks[3] = 27 },
		"blocks out of order":    func(p *Plan) { p.Blocks[0], p.Blocks[1] = p.Blocks[1], p.Blocks[0] },
		"a spare block first":    func(p *Plan) { p.Blocks[0].Spare = true },
		"no twin":                func(p *Plan) { p.Contenders[3].TwinOf = "" },
		"a metric twice":         func(p *Plan) { p.Cells[1].Metrics[1].Name = "throughput" },
	} {
		p, err := Decode(encode(t, whole))
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		if _, err := Decode(encode(t, p)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	data := encode(t, whole)
	for name, text := range map[string]string{
		"an unknown field": strings.Replace(string(data), `"seed"`, `"sead"`, 1),
		"more behind it":   string(data) + "{}",
		"half of it":       string(data[:len(data)/2]),
	} {
		if _, err := Decode([]byte(text)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEstimateCountsTimeAndBudget(t *testing.T) {
	p := expand(t, "{budget: 10m}", 1)
	costs := Costs{
		Trial:  map[string]time.Duration{"sha": 2 * time.Second, "web": 3 * time.Second, "more": time.Second},
		Create: map[string]time.Duration{"oci": time.Second}, Noise: AssumedNoise,
	}
	e := p.Estimate(costs)
	// 4 contenders × 2 visits × 6 s, and two oci environments.
	if e.Block != 50*time.Second || e.Total != 26*50*time.Second || e.Trials != 26*24 || e.Blocks != 12 {
		t.Errorf("%+v", e)
	}
	// A trial of sha makes its environment: 2 visits of two of oci.
	fresh := costs
	fresh.Fresh = map[string]bool{"sha": true}
	if e := p.Estimate(fresh); e.Block != 54*time.Second {
		t.Errorf("with fresh environments: %v", e.Block)
	}
	if l := e.Looks; !l[1].Reached || l[2].Reached || l[0].At != 400*time.Second {
		t.Errorf("looks: %+v", l)
	}
	// Four open comparisons: .01/4 < 2^-7, so eight blocks decide nothing yet.
	if l := e.Looks[0]; l.Possible || !math.IsInf(l.Smallest, 1) {
		t.Errorf("the look at 8 blocks: %+v", l)
	}
	once := expand(t, "{instances: run}", 1).Estimate(costs)
	if once.Block != 48*time.Second || once.Total != 26*48*time.Second+2*time.Second || once.Blocks != 26 {
		t.Errorf("instances made once: %+v", once)
	}
}

// The formula's smallest difference is found by the exact test in about 80 of
// 100 simulated runs, and its margin holds equals in about 80 of 100.
func TestEstimateAgreesWithSimulation(t *testing.T) {
	e := expand(t, "{looks: [26], alphas: [.05]}", 1).Estimate(Costs{Noise: AssumedNoise})
	const n, runs = 26, 2000
	alpha := .05 / 4
	crit := critical(n, alpha)
	r := rand.New(rand.NewPCG(1, 2))
	found, equal := 0, 0
	for range runs {
		d, same := make([]float64, n), make([]float64, n)
		for i := range d {
			noise := e.Noise.SD * r.NormFloat64() // two visits a side: SD·√(2/2)
			d[i], same[i] = noise+math.Log1p(e.Looks[0].Smallest), noise
		}
		lo, hi := interval(d, crit)
		if lo > 0 || hi < 0 {
			found++
		}
		lo, hi = interval(same, crit)
		if m := math.Log1p(e.Looks[0].Equivalence); lo > -m && hi < m {
			equal++
		}
	}
	if p := float64(found) / runs; p < .76 || p > .86 {
		t.Errorf("a difference of %.4f is found in %.3f of the runs", e.Looks[0].Smallest, p)
	}
	if p := float64(equal) / runs; p < .76 || p > .86 {
		t.Errorf("equals are inside %.4f in %.3f of the runs", e.Looks[0].Equivalence, p)
	}
}

func TestNeeds(t *testing.T) {
	p := expand(t, "{looks: [8, 12, 18, 26], alphas: [.01, .01, .015, .015], budget: 10m}", 1)
	e := p.Estimate(Costs{Noise: AssumedNoise, Settle: time.Second})
	if e.Blocks != 25 { // of 24 trials
		t.Fatalf("%d blocks in the budget", e.Blocks)
	}
	big := e.Needs(0.5)
	if big.Blocks != 12 || !big.Planned || !big.Reached || big.Power < 0.99 || big.Mean != 12 ||
		big.At != 12*24*time.Second {
		t.Errorf("half as much again: %+v", big)
	}
	small := e.Needs(0.005)
	if small.Planned || small.Blocks < 100 || small.Blocks > 1000 || small.Power > 0.1 ||
		small.Mean < 24 || small.Mean > 25 {
		t.Errorf("half a percent: %+v", small)
	}
	// What a look finds with 80 % probability needs that look.
	for i, l := range e.Looks[1:] {
		if n := e.Needs(l.Smallest * 1.001); n.Blocks != l.Blocks || n.Reached != l.Reached {
			t.Errorf("what look %d finds needs %+v", i+1, n)
		}
	}
	if n := e.Needs(math.NaN()); n.Blocks != 0 {
		t.Errorf("nothing needs %+v", n)
	}
	if n := expand(t, "{blocks: 2}", 1).Estimate(Costs{Noise: AssumedNoise}).Needs(0.1); n.Blocks != 0 {
		t.Errorf("without looks %+v", n)
	}
}

// critical returns the largest k for which the k-th smallest and largest
// Walsh average bound an interval of level 1−alpha: counted exactly.
func critical(n int, alpha float64) int {
	ways := make([]float64, n*(n+1)/2+1)
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for w := len(ways) - 1; w >= rank; w-- {
			ways[w] += ways[w-rank]
		}
	}
	k, tail := 0, 0.0
	for ; 2*(tail+ways[k])/math.Exp2(float64(n)) <= alpha; k++ {
		tail += ways[k]
	}
	return k
}

func interval(d []float64, k int) (lo, hi float64) {
	var walsh []float64
	for i := range d {
		for j := i; j < len(d); j++ {
			walsh = append(walsh, (d[i]+d[j])/2)
		}
	}
	slices.Sort(walsh)
	return walsh[k-1], walsh[len(walsh)-k]
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, expand(f, "{blocks: 1}", 1)))
	f.Add([]byte(`{"schema":"bakeoff/plan/v1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Decode(data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("another class: %v", err)
			}
			return
		}
		again, err := Decode(encode(t, p))
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("it does not read back: %v", err)
		}
		for _, b := range p.Blocks {
			b.Slots()
		}
	})
}

// What is compared by CPU time is found by the noise of CPU time, where that is
// known.
func TestEstimateOfCPUTime(t *testing.T) {
	of := func(clock, cpu bool, noise Noise) Estimate {
		p := expand(t, "{looks: [12, 26], alphas: [.02, .03]}", 1)
		p.Cells = p.Cells[:1]
		p.Cells[0].Metrics = []sample.Metric{{Name: "throughput", Primary: clock},
			{Name: "cpu-per-op", Primary: cpu, CPUTime: true}}
		return p.Estimate(Costs{Noise: noise, Settle: time.Second})
	}
	both := of(true, true, Noise{SD: .2, CPU: .02})
	if both.ByCPU == nil || both.Noise.SD != .2 || both.ByCPU.Noise.SD != .02 {
		t.Fatalf("clock and CPU time: %+v", both)
	}
	for i, l := range both.Looks {
		by := both.ByCPU.Looks[i]
		if r := math.Log1p(l.Smallest) / math.Log1p(by.Smallest); math.Abs(r-10) > 1e-9 || by.At != l.At ||
			by.Possible != l.Possible {
			t.Errorf("look %d: %+v, by CPU time %+v", i, l, by)
		}
	}
	if a, b := both.Needs(.02), both.ByCPU.Needs(.02); a.Planned || !b.Planned || b.Blocks != 26 && b.Blocks != 12 {
		t.Errorf("2 %% need %+v, by CPU time %+v", a, b)
	}
	if only := of(false, true, Noise{SD: .2, CPU: .02}); only.ByCPU != nil || only.Noise.SD != .02 ||
		only.Looks[0] != both.ByCPU.Looks[0] {
		t.Errorf("CPU time alone: %+v", only)
	}
	for _, e := range []Estimate{of(true, false, Noise{SD: .2, CPU: .02}), of(false, false, Noise{SD: .2, CPU: .02}),
		of(true, true, Noise{SD: .2}), of(false, true, Noise{SD: .2})} {
		if e.ByCPU != nil || e.Noise.SD != .2 || e.Looks[0] != both.Looks[0] {
			t.Errorf("by the clock, or of unknown noise: %+v", e)
		}
	}
}

// A cell is run with the parameters of the contender, and an estimate counts
// them.
func TestParametersOfContenders(t *testing.T) {
	l, err := manifest.Parse("bakeoff.yaml", []byte(`schema: bakeoff/lab/v1
name: web
contenders: [{name: short, driver: host}, {name: long, driver: host, params: {sha: {time: 10s}}}]
baseline: long
cells: [{name: sha, workload: crypto, primary: true}, {name: other, workload: crypto}]
design: {looks: [8]}
`), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Expand(l, catalogue(), 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	for contender, want := range map[string]string{"short": "2s", "long": "10s", "long~twin": "10s"} {
		c, ok := p.CellOf(contender, "sha")
		if other, _ := p.CellOf(contender, "other"); !ok || c.Params["time"] != want || other.Params["time"] != "2s" {
			t.Errorf("%s: %v", contender, c.Params)
		}
	}
	if _, ok := p.CellOf("short", "none"); ok {
		t.Error("there is a cell none")
	}
	if _, ok := p.CellOf("none", "sha"); ok {
		t.Error("there is a contender none")
	}
	again, err := Decode(encode(t, p))
	if err != nil || !reflect.DeepEqual(again.Contenders[1].Params, p.Contenders[1].Params) {
		t.Errorf("read back: %v, %v", again, err)
	}
	costs := Costs{Trial: map[string]time.Duration{"sha": 2 * time.Second, "other": time.Second},
		Own: map[string]map[string]time.Duration{"long": {"sha": 10 * time.Second}, "long~twin": {"sha": 10 * time.Second}}}
	// Twice each: short 2 s, long and its twin 10 s, and the other cell 1 s.
	if e := p.Estimate(costs); e.Block != 2*(2+10+10+3)*time.Second {
		t.Errorf("a block takes %v", e.Block)
	}
	p.Contenders[0].Params = map[string]param.Values{"none": {"time": "1s"}}
	if _, err := Decode(encode(t, p)); err == nil || !strings.Contains(err.Error(), `"none", which is not a cell`) {
		t.Errorf("parameters of no cell: %v", err)
	}
}

// The plan of a lab file without parameters of contenders has the bytes that it
// had before there were any: old run folders begin with their hash.
func TestPlansKeepTheirBytes(t *testing.T) {
	const want = "a6ce01f37d3185b86fdfa7d722be163da07dc53bae5e3557f510fdccdb05f9d8"
	if got := Hash(encode(t, expand(t, "{}", 42))); got != want {
		t.Errorf("sha256 %s", got)
	}
}

// A condition with a tolerance is registered, together with the time limit that the looks
// follow from; without them a plan keeps its bytes.
func TestConditionsAreRegistered(t *testing.T) {
	_, plain := decoded(t, lab(t, "{}"))
	other := lab(t, "{}")
	other.FailOn = []string{"worse", "failed"} // nothing of it says when the run ends
	if _, text := decoded(t, other); !bytes.Equal(text, plain) {
		t.Errorf("conditions without a tolerance changed the plan")
	}
	asked := lab(t, "{}")
	asked.FailOn = []string{"worse-than-margin", "failed"}
	asked.FollowBudget(time.Minute)
	p, text := decoded(t, asked)
	if !slices.Equal(p.FailOn, asked.FailOn) || p.LooksFor != time.Minute || p.Design.Looks[0] < 8 ||
		p.Planned() != p.Design.Looks[len(p.Design.Looks)-1] || p.Planned() < 60 {
		t.Errorf("fail_on %v, looks %v for %v", p.FailOn, p.Design.Looks, p.LooksFor)
	}
	again := lab(t, "{}")
	p.Record(again)
	if _, other := decoded(t, again); !bytes.Equal(other, text) {
		t.Errorf("the plan does not follow from what it records")
	}
	written := lab(t, "{looks: [8, 12]}")
	written.FollowBudget(time.Minute)
	if q, _ := decoded(t, written); !slices.Equal(q.Design.Looks, []int{8, 12}) || q.LooksFor != 0 {
		t.Errorf("looks of the lab file: %v", q.Design.Looks)
	}
	wrong := lab(t, "{}")
	wrong.FailOn = []string{"nothing>+5%"}
	if _, err := Expand(wrong, catalogue(), 7, "v"); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), `cell or workload "nothing"; there are`) {
		t.Errorf("a metric that does not exist: %v", err)
	}
}
