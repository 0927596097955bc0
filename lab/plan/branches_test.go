package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/sample"
	"bakeoff/judge/stats"
	"bakeoff/lab/manifest"
)

// The numbers of a block come from ChaCha8, keyed with the seed and the block; what does not fit
// a whole number of times into 64 bits is drawn again.
func TestDrawBelow(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 10, 1 << 32, 1<<63 + 1, 1<<63 + 1<<62, math.MaxUint64} {
		key := [32]byte{}
		copy(key[:], "bakeoff/plan/v1")
		binary.BigEndian.PutUint64(key[16:], n)
		binary.BigEndian.PutUint64(key[24:], 7)
		want, got := rand.NewChaCha8(key), newDraw(n, 7)
		for range 100 {
			v := want.Uint64()
			for v < -n%n {
				v = want.Uint64()
			}
			if x := got.below(n); x != v%n {
				t.Fatalf("below %d: %d, want %d", n, x, v%n)
			}
		}
	}
	in := []string{"a", "b", "c", "d"}
	if newDraw(1, 1).shuffled(in); !slices.Equal(in, []string{"a", "b", "c", "d"}) {
		t.Errorf("the names were reordered: %q", in)
	}
}

// The looks that a shorter plan reaches, and the number of its planned and spare blocks.
func TestRegisteredDesign(t *testing.T) {
	for _, x := range []struct {
		design         string
		planned, spare int
		looks          []int
	}{
		{"{looks: [1], alphas: [.05]}", 1, 2, []int{1}}, {"{looks: [2, 5], alphas: [.02, .03]}", 5, 5, []int{2, 5}},
		{"{looks: [9], alphas: [.05]}", 9, 8, []int{9}}, {"{looks: [5, 9], alphas: [.02, .03], blocks: 9}", 9, 8, []int{5,
			9}},
		{"{looks: [5, 9], alphas: [.02, .03], blocks: 8}", 8, 8, []int{5}},
		{"{looks: [5, 9], alphas: [.02, .03], blocks: 5}", 5, 5, []int{5}},
		{"{looks: [5, 9], alphas: [.02, .03], blocks: 4}", 4, 4, []int{}},
		{"{looks: [5, 9], alphas: [.02, .03], blocks: 1}", 1, 2, []int{}},
	} {
		p := expand(t, x.design, 1)
		if p.Planned() != x.planned || len(p.Blocks) != x.planned+x.spare || !slices.Equal(p.Design.Looks, x.looks) ||
			len(p.Design.Alphas) != len(x.looks) {
			t.Errorf("%s: %d blocks and %d spare, looks %v", x.design, p.Planned(), len(p.Blocks)-p.Planned(), p.Design.Looks)
		}
		for i, b := range p.Blocks {
			if b.Index != i || b.Spare != (i >= x.planned) {
				t.Errorf("%s: block %d is %d, spare %v", x.design, i, b.Index, b.Spare)
			}
		}
	}
	if d, planned := registered(manifest.Design{Looks: []int{5, 9}, Alphas: []float64{.02, .03},
		Blocks: 30}); planned != 9 ||
		len(d.Looks) != 2 {
		t.Errorf("more blocks than the last look has: %d", planned)
	}
	if d, planned := registered(manifest.Design{}); planned != 0 || len(d.Looks) != 0 {
		t.Errorf("no looks: %d blocks", planned)
	}
}

func TestExpandTakesFromTheLab(t *testing.T) {
	l := boxLab(t, "{}")
	l.Only, l.Profile, l.Generator = []string{"sha"}, "quick", "box"
	p, err := Expand(l, catalogue(), 9, "v7")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(l.Source)
	if p.Schema != "bakeoff/plan/v1" || p.Lab != "box" || p.LabSHA256 != hex.EncodeToString(sum[:]) ||
		p.Profile != "quick" || p.Version != "v7" ||
		p.Seed != 9 || p.Baseline != "linux" || p.Twin != "linux~twin" || p.Generator != "box" || !slices.Equal(p.Only,
		l.Only) {
		t.Errorf("%+v", p)
	}
	if len(p.Hosts) != 1 || !reflect.DeepEqual(p.Hosts["box"], l.Hosts["box"]) {
		t.Errorf("hosts %+v", p.Hosts)
	}
	if c := p.Contenders[4]; c.Name != "linux~twin" || c.TwinOf != "linux" || c.System != "debian" || c.Host != "box" {
		t.Errorf("the twin is %+v", c)
	}
	l.Baseline = "nobody"
	if _, err := Expand(l, catalogue(), 1, ""); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
		`"nobody" is not a contender`) {
		t.Errorf("%v", err)
	}
	l = boxLab(t, "{}")
	l.Cells[1].Workload = "dance"
	if _, err := Expand(l, catalogue(), 1, ""); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(),
		`cell web: there is no workload "dance"`) {
		t.Errorf("%v", err)
	}
	local := expand(t, "{}", 1)
	if local.Hosts != nil {
		t.Errorf("a lab without hosts has %v", local.Hosts)
	}
}

func TestLookups(t *testing.T) {
	p := expand(t, "{}", 1)
	if c, ok := p.Cell("web"); !ok || c.Name != "web" {
		t.Errorf("%+v, %v", c, ok)
	}
	if c, ok := p.Cell("dance"); ok || c.Name != "" {
		t.Errorf("%+v, %v", c, ok)
	}
	if c, ok := p.Contender("host~twin"); !ok || c.TwinOf != "host" {
		t.Errorf("%+v, %v", c, ok)
	}
	if c, ok := p.Contender("nobody"); ok || c.Name != "" {
		t.Errorf("%+v, %v", c, ok)
	}
	if s := p.Family[1].String(); s != "crun on web, throughput" {
		t.Errorf("%q", s)
	}
}

// A block without a contender keeps everything else, boots included.
func TestWithout(t *testing.T) {
	b := Block{Index: 4, Spare: true, Create: []string{"a", "b"},
		Boots:  []Boot{{Host: "h", System: "s", Contenders: []string{"a"}}, {Contenders: []string{"b"}}},
		Visits: []Visit{{Cell: "k", Order: []string{"a", "a"}}, {Cell: "k", Boot: 1, Order: []string{"b", "b"}}}}
	want := Block{Index: 4, Spare: true, Create: []string{"b"},
		Boots:  []Boot{{Host: "h", System: "s", Contenders: []string{}}, {Contenders: []string{"b"}}},
		Visits: []Visit{{Cell: "k", Order: []string{"", ""}}, {Cell: "k", Boot: 1, Order: []string{"b", "b"}}}}
	if got := b.Without(map[string]bool{"a": true}, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(b.Create, []string{"a", "b"}) || b.Visits[0].Order[0] != "a" {
		t.Errorf("the block itself changed: %+v", b)
	}
	if got := want.Slots(); !slices.Equal(got, []Slot{{4, 2, "b", "k"}, {4, 3, "b", "k"}}) {
		t.Errorf("slots %+v", got)
	}
	parts := want.Parts()
	if len(parts) != 2 || len(parts[0].Slots) != 0 || len(parts[1].Slots) != 2 || parts[0].System != "s" {
		t.Errorf("parts %+v", parts)
	}
	b.Boots = nil
	if parts := b.Parts(); len(parts) != 1 || len(parts[0].Slots) != 4 || !slices.Equal(parts[0].Contenders, b.Create) {
		t.Errorf("parts %+v", parts)
	}
}

// A cell that a contender cannot run leaves its places empty, and the contender stays.
func TestWithoutACell(t *testing.T) {
	b := Block{Create: []string{"b", "a"}, Visits: []Visit{{Cell: "k", Order: []string{"a", "b", "b", "a"}},
		{Cell: "l", Order: []string{"b", "a", "a", "b"}}}}
	got := b.Without(nil, map[Place]bool{At("a", "l"): true})
	want := []Slot{{0, 0, "a", "k"}, {0, 1, "b", "k"}, {0, 2, "b", "k"}, {0, 3, "a", "k"},
		{0, 4, "b", "l"}, {0, 7, "b", "l"}}
	if !slices.Equal(got.Slots(), want) || !slices.Equal(got.Create, b.Create) {
		t.Errorf("%+v", got)
	}
}

// What is refused in a plan that is read, with what the message says, and what is just allowed.
func TestCheck(t *testing.T) {
	valid := strings.Repeat("n", name.MaxTwin)
	for what, x := range map[string]struct {
		change func(p *Plan)
		want   string // "" where it is accepted
	}{
		"as drawn":           {func(p *Plan) {}, ""},
		"no lab":             {func(p *Plan) { p.Lab = "" }, "the name of the lab"},
		"a long lab":         {func(p *Plan) { p.Lab = valid }, ""},
		"too long a lab":     {func(p *Plan) { p.Lab = valid + "n" }, "the name of the lab"},
		"a margin of a half": {func(p *Plan) { p.Design.Margin = 0.5 }, ""},
		"a larger margin":    {func(p *Plan) { p.Design.Margin = 0.51 }, "margin is 0.51"},
		"no margin":          {func(p *Plan) { p.Design.Margin = 0 }, "margin is 0"},
		"negative margin":    {func(p *Plan) { p.Design.Margin = -1 }, "margin is -1"},
		"an alpha missing": {func(p *Plan) { p.Design.Alphas = p.Design.Alphas[1:] }, "the plan has 4 looks " +
			"(interim analyses) but 3 alphas"},
		"per run":         {func(p *Plan) { p.Design.Instances = "run" }, ""},
		"per week":        {func(p *Plan) { p.Design.Instances = "week" }, `instances is "week"`},
		"negative budget": {func(p *Plan) { p.Design.Budget = -1 }, "one of budget, blocks and exact_trials is negative"},
		"negative blocks": {func(p *Plan) { p.Design.Blocks = -1 }, "one of budget, blocks and exact_trials is negative"},
		"some of both":    {func(p *Plan) { p.Design.Budget, p.Design.Blocks = 1, 1 }, ""},
		"an alpha of 0": {func(p *Plan) { p.Design.Alphas[1] = 0 }, "the alpha of look 2 (interim analysis) " +
			"is 0; it must"},
		"an alpha of 1": {func(p *Plan) { p.Design.Alphas = []float64{1, .01, .01, .01} },
			"the alpha of look 1 (interim analysis) is 1; it must"},
		"a look at 0":       {func(p *Plan) { p.Design.Looks[0] = 0 }, "look 1 (interim analysis) is after 0 blocks"},
		"a look at 1":       {func(p *Plan) { p.Design.Looks[0] = 1 }, ""},
		"two looks at once": {func(p *Plan) { p.Design.Looks[1] = 8 }, "look 2 (interim analysis) is after 8 blocks"},
		"alphas of 0.05":    {func(p *Plan) { p.Design.Alphas = []float64{.02, .01, .01, .01} }, ""},
		"alphas of 0.0501": {func(p *Plan) { p.Design.Alphas = []float64{.0201, .01, .01, .01} },
			"the alphas add up to 0.05"},
		"a look at the end": {func(p *Plan) { p.Design.Looks[3] = 26 }, ""},
		"a look after it": {func(p *Plan) { p.Design.Looks[3] = 27 }, "the last look (interim analysis) is " +
			"after 27 blocks, but the plan has 26 blocks"},
		"no blocks": {func(p *Plan) { p.Blocks = nil }, "the plan has 0 blocks; it must have 1 to 1008"},
		"one contender": {func(p *Plan) { p.Contenders = p.Contenders[:1] },
			"the plan has 1 contenders and 3 cells; it must have 2 to 65 contenders and 1 to 256 cells"},
		"no cell": {func(p *Plan) { p.Cells = nil }, "the plan has 4 contenders and 0 cells"},
		"the twin of " +
			"another": {func(p *Plan) { p.Contenders[3].TwinOf = "crun" }, `"host~twin" cannot be the twin of "crun"`},
		"two twins": {func(p *Plan) { p.Contenders[1].TwinOf = "host" }, `"crun" cannot be the twin of "host"`},
		"another baseline": {func(p *Plan) { p.Baseline, p.Contenders[3].TwinOf = "nobody", "nobody" },
			`"nobody" is not a contender`},
		"a contender twice": {func(p *Plan) { p.Contenders[2].Name = "crun" }, `contender "crun" is there twice`},
		"a cell twice":      {func(p *Plan) { p.Cells[1].Name = "sha" }, `cell "sha" is there twice`},
		"a cell that escapes": {func(p *Plan) { p.Cells[1].Name = "../sha" },
			`cell "../sha": a name must match [a-z0-9][a-z0-9._~-]* and have at most`},
		"a long metric": {func(p *Plan) { p.Cells[1].Metrics[1].Name = strings.Repeat("m", 80) }, ""},
		"too long a metric": {func(p *Plan) { p.Cells[1].Metrics[1].Name = strings.Repeat("m", 81) },
			"at most 80 characters"},
		"an upper case metric": {func(p *Plan) { p.Cells[1].Metrics[1].Name = "M" }, `cell "web": metric "M"`},
		"the twin's family": {func(p *Plan) { p.TwinFamily = p.TwinFamily[1:] }, "the families of comparisons " +
			"do not match"},
		"a family of another": {func(p *Plan) { p.Family[0].Metric = "x" }, "the families of comparisons do not match"},
		"a spare first":       {func(p *Plan) { p.Blocks[0].Spare = true }, "block 1 is out of order"},
		"a spare in between": {func(p *Plan) { p.Blocks[25].Spare, p.Blocks[26].Spare = true, false },
			"block 26 is out of order"},
		"a block of another": {func(p *Plan) { p.Blocks[3].Index = 4 }, "block 3 is out of order"},
		"creation": {func(p *Plan) { p.Blocks[3].Create[0] = p.Blocks[3].Create[1] },
			"block 3: the block does not create every contender exactly once"},
		"a cell twice over": {func(p *Plan) { p.Blocks[3].Visits[0].Cell = p.Blocks[3].Visits[1].Cell },
			"the block does not visit every cell exactly once"},
		"a short visit": {func(p *Plan) { p.Blocks[3].Visits[0].Order = p.Blocks[3].Visits[0].Order[1:] },
			"is visited 7 times"},
		"no mirror": {func(p *Plan) {
			o := p.Blocks[3].Visits[0].Order
			o[3], o[4] = o[2], o[5]
		}, "block 3: "},
		"a boot": {func(p *Plan) { p.Blocks[3].Visits[0].Boot = 1 }, "the plan has boots, but no host has the key switch"},
	} {
		p := expand(t, "{}", 1)
		x.change(p)
		err := p.check()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", what, err, x.want)
		}
	}
	unmirrored := expand(t, "{mirror: false}", 1)
	if err := unmirrored.check(); err != nil {
		t.Error(err)
	}
	unmirrored.Blocks[2].Visits[1].Order[0] = unmirrored.Blocks[2].Visits[1].Order[1]
	if err := unmirrored.check(); err == nil || !strings.Contains(err.Error(), "not every contender visits cell") {
		t.Errorf("%v", err)
	}
}

// The largest plans that are read.
func TestLimitsOfPlans(t *testing.T) {
	for _, x := range []struct {
		contenders, cells, blocks int
		want                      string
	}{
		{65, 1, 1, ""}, {66, 1, 1, "the plan has 66 contenders"}, {2, 256, 1, ""}, {2, 257, 1, "257 cells"}, {2, 1, 1008, ""},
		{2, 1, 1009, "the plan has 1009 blocks"},
	} {
		p := &Plan{Schema: Schema, Lab: "l", Baseline: "c0", Twin: "c0~twin", Family: []Comparison{},
			TwinFamily: []Comparison{},
			Design:     manifest.Design{Margin: .02, Instances: "block", Mirror: true}}
		for i := range x.contenders - 1 {
			p.Contenders = append(p.Contenders, Contender{Contender: manifest.Contender{Name: fmt.Sprint("c", i)}})
		}
		p.Contenders = append(p.Contenders, Contender{Contender: manifest.Contender{Name: "c0~twin"}, TwinOf: "c0"})
		for i := range x.cells {
			p.Cells = append(p.Cells, Cell{Cell: manifest.Cell{Name: fmt.Sprint("k", i)}})
		}
		for i := range x.blocks {
			p.Blocks = append(p.Blocks, p.draw(i, false))
		}
		if err := p.check(); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := Decode(make([]byte, 64<<20+1)); err == nil || !strings.Contains(err.Error(),
		"the plan has 67108865 bytes; the limit is 67108864") {
		t.Errorf("%v", err)
	}
	if _, err := Decode([]byte(`{"schema": "bakeoff/plan/v0"}`)); err == nil || !strings.Contains(err.Error(),
		`schema is "bakeoff/plan/v0"`) {
		t.Errorf("%v", err)
	}
}

// The time of a plan: trials, environments, boots, and what the budget lasts for.
func TestEstimateOfTime(t *testing.T) {
	costs := Costs{
		Trial:  map[string]time.Duration{"sha": 2 * time.Second, "web": 3 * time.Second, "more": time.Second},
		Create: map[string]time.Duration{"oci": 5 * time.Second, "host": time.Second}, Settle: 100 * time.Millisecond,
		Boot: 40 * time.Second, Noise: AssumedNoise,
	}
	for design, want := range map[string]struct {
		block, total time.Duration
		blocks       int
	}{
		// 4 contenders × 2 × (6 s + 3 × 0.1 s) + 2 × 5 s + 2 × 1 s = 62.4 s.
		"{looks: [10], alphas: [.05]}":                              {62400 * time.Millisecond, 624 * time.Second, 10},
		"{looks: [10], alphas: [.05], budget: 62s}":                 {62400 * time.Millisecond, 624 * time.Second, 0},
		"{looks: [10], alphas: [.05], budget: 126s}":                {62400 * time.Millisecond, 624 * time.Second, 2},
		"{looks: [10], alphas: [.05], budget: 10h}":                 {62400 * time.Millisecond, 624 * time.Second, 10},
		"{looks: [10], alphas: [.05], mirror: false}":               {37200 * time.Millisecond, 372 * time.Second, 10},
		"{looks: [10], alphas: [.05], instances: run}":              {50400 * time.Millisecond, 516 * time.Second, 10},
		"{looks: [10], alphas: [.05], instances: run, budget: 62s}": {50400 * time.Millisecond, 516 * time.Second, 0},
		"{looks: [10], alphas: [.05], instances: run, budget: 63s}": {50400 * time.Millisecond, 516 * time.Second, 1},
		"{looks: [10], alphas: [.05], instances: run, budget: 1s}":  {50400 * time.Millisecond, 516 * time.Second, 0},
		"{looks: [5, 10], alphas: [.02, .03], blocks: 3}": {62400 * time.Millisecond, 187200 * time.Millisecond,
			3},
		"{looks: [5, 10], alphas: [.02, .03], blocks: 6, budget: 5m}": {62400 * time.Millisecond, 374400 * time.Millisecond,
			4},
	} {
		e := expand(t, design, 1).Estimate(costs)
		if e.Block != want.block || e.Total != want.total || e.Blocks != want.blocks {
			t.Errorf("%s: block %v, total %v, %d blocks in the budget; want %+v", design, e.Block, e.Total, e.Blocks, want)
		}
		for i, l := range e.Looks {
			at := time.Duration(l.Blocks)*e.Block + e.Total%e.Block
			if l.At != at || l.Reached != (l.Blocks <= e.Blocks) {
				t.Errorf("%s: look %d: %+v, want it at %v", design, i, l, at)
			}
		}
	}
	p := boxPlan(t, "{looks: [10], alphas: [.05]}")
	// 5 contenders × 2 × (5 s + 2 × 0.1 s) + 5 × 1 s + 3 boots of the machine × 40 s.
	if e := p.Estimate(costs); e.Block != 177*time.Second || e.Trials != 200 {
		t.Errorf("on a machine that is switched: %v, %d trials", e.Block, e.Trials)
	}
	if e := (&Plan{Design: manifest.Design{Budget: time.Second}}).Estimate(costs); e.Block != 0 || e.Blocks != 0 {
		t.Errorf("a plan without blocks: %+v", e)
	}
}

// What the looks find, and what a difference needs, from the replays of the test.
func TestEstimateOfLooks(t *testing.T) {
	looks, alphas := []int{8, 12, 18, 26}, []float64{.01, .01, .015, .015}
	for design, visits := range map[string]float64{"": 2, ", mirror: false": 1} {
		p := expand(t, "{looks: [8, 12, 18, 26], alphas: [.01, .01, .015, .015]"+design+", budget: 40m}", 1)
		e := p.Estimate(Costs{Noise: Noise{SD: 0.03, Source: "here"}, Settle: 5 * time.Second})
		spend := make([]float64, 4)
		for i := range spend {
			spend[i] = alphas[i] / 4 // of four primary comparisons
		}
		levels := stats.Boundaries(looks, spend)
		reach := stats.NewReach(looks, levels)
		sd := 0.03 * math.Sqrt(2/visits)
		for i, l := range e.Looks {
			want := LookEstimate{Blocks: looks[i], At: time.Duration(looks[i]) * e.Block, Reached: looks[i] <= e.Blocks,
				Possible:    math.Exp2(float64(1-looks[i])) <= levels[i],
				Smallest:    math.Expm1(reach.Smallest(i, 0.8) * sd),
				Equivalence: math.Expm1(reach.Equivalence(i, 0.8) * sd),
			}
			if math.Abs(l.Equivalence-want.Equivalence) < 1e-12 {
				l.Equivalence = want.Equivalence
			}
			if l != want {
				t.Errorf("look %d: %+v, want %+v", i, l, want)
			}
		}
		if e.Noise.Source != "here" || e.Noise.SD != 0.03 || e.Looks[0].Possible || !e.Looks[1].Possible {
			t.Errorf("%+v", e)
		}
		for _, difference := range []float64{0.01, 0.03, 0.06, 0.2} {
			got := e.Needs(difference)
			power := reach.Power(math.Log1p(difference) / sd)
			mean, before := 0.0, 0.0
			need := Need{Difference: difference}
			for i, l := range e.Looks {
				if l.Reached {
					mean += (power[i] - before) * float64(l.Blocks)
					before = power[i]
				}
				if power[i] >= 0.8 && !need.Planned {
					need.Blocks, need.Planned, need.Reached = l.Blocks, true, l.Reached
				}
			}
			need.Mean, need.Power = mean+(1-before)*float64(e.Blocks), before
			if !need.Planned {
				r := reach.Smallest(3, 0.8) * sd / math.Log1p(difference)
				need.Blocks = int(math.Ceil(26 * r * r))
			}
			need.At = time.Duration(need.Blocks) * e.Block
			if math.Abs(got.Mean-need.Mean) < 1e-9 {
				got.Mean = need.Mean
			}
			if got != need {
				t.Errorf("visits %v, %v: %+v, want %+v", visits, difference, got, need)
			}
		}
		for _, nothing := range []float64{0, -1, math.NaN()} {
			if n := e.Needs(nothing); n.Blocks != 0 || n.Mean != 0 || n.At != 0 {
				t.Errorf("a difference of %v needs %+v", nothing, n)
			}
		}
		if n := e.Needs(1e-12); n.Blocks != 0 || n.Planned { // more blocks than can be counted
			t.Errorf("next to nothing needs %+v", n)
		}
	}
	if n := expand(t, "{}", 1).Estimate(Costs{}).Needs(0.1); n.Blocks != 0 {
		t.Errorf("without noise: %+v", n)
	}
	if AssumedNoise.SD != 0.022 || AssumedNoise.CPU != 0 || !strings.Contains(AssumedNoise.Source, "2.2 %") {
		t.Errorf("%+v", AssumedNoise)
	}
	p := &Plan{Cells: []Cell{{Metrics: []sample.Metric{{}}}}}
	if clock, cpu := p.measures(); !clock || cpu {
		t.Error("without primary metrics the clock is meant")
	}
}

// Boots that differ from those of the plan are refused with the reason.
func TestReasonsAboutBoots(t *testing.T) {
	for want, change := range map[string]func(b *Block){
		"the block has 3 boots instead of 4":                        func(b *Block) { b.Boots = b.Boots[1:] },
		"boot 0 does not have exactly the contenders of one system": func(b *Block) { b.Boots[0].Host += "x" },
		"boot 1 does not have exactly the contenders of one system": func(b *Block) { b.Boots[1] = b.Boots[0] },
		"boot 3 does not visit every cell exactly once":             func(b *Block) { b.Visits = b.Visits[:7] },
		"boot 1: the block does not visit every cell exactly once":  func(b *Block) { b.Visits[3].Cell = b.Visits[2].Cell },
		"the block has visits or environments that belong to none of its boots": func(b *Block) {
			b.Visits = append(b.Visits, b.Visits[7])
		},
		"boot 2: cell": func(b *Block) { b.Visits[4].Order = b.Visits[4].Order[1:] },
		"boot 0 does not visit every cell exactly once": func(b *Block) { b.Visits[1].Boot = 1 },
		"boot 2 does not have exactly the contenders of one system": func(b *Block) {
			b.Boots[2].Contenders = append(b.Boots[2].Contenders,
				"x")
		},
	} {
		p := boxPlan(t, "{}")
		change(&p.Blocks[1])
		if err := p.check(); err == nil || !strings.HasPrefix(err.Error(), "block 1: "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
