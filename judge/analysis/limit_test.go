package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/judge/noise"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]Limit{
		"boot>+0.1%":          {Name: "boot", More: true, Share: 0.001},
		"instructions>3%":     {Name: "instructions", More: true, Share: 0.03},
		"throughput<-5%":      {Name: "throughput", Share: 0.05},
		"cpu-per-request>+2%": {Name: "cpu-per-request", More: true, Share: 0.02},
		"sec/op>+5%":          {Name: "sec/op", More: true, Share: 0.05},
		"Sum/n=8 [s]<-5%":     {Name: "Sum/n=8 [s]", Share: 0.05},
		"a>b>+1%":             {Name: "a>b", More: true, Share: 0.01},
		WorseThanMargin:       {Share: 0.02},
	} {
		want.Condition = text
		got, ok := ParseLimit(text, 0.02)
		if got.Share = math.Round(1e9*got.Share) / 1e9; !ok || got != want {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"boot", "boot>0.1", ">1%", "boot>-1%", "boot<1%", "boot<-100%", "a,b>1%", " >1%", "worse",
	} {
		if got, ok := ParseLimit(text, 0.02); ok {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

// asked replays runs of contenders with true differences in the metric cpu, which is not
// primary, and reports the outcomes of a limit of 5 % in each.
func asked(f noise.Family, seed uint64, looks []int, alphas []float64, condition string, effects ...float64) Results {
	r := rand.New(rand.NewPCG(seed, 28))
	cpu := sample.Metric{Name: "cpu", Unit: "s", Better: sample.Lower, Scale: sample.Ratio}
	d := Data{Baseline: "old", Margin: .05, Looks: looks, Alphas: alphas, Trials: 2, FailOn: []string{condition},
		Contenders: []Contender{{Name: "old"}}, Cells: []Cell{{Name: "job", Workload: "command",
			Metrics: []sample.Metric{{Name: "wall", Unit: "s", Better: sample.Lower, Scale: sample.Ratio}, cpu}}}}
	for i := range effects {
		d.Contenders = append(d.Contenders, Contender{Name: fmt.Sprint("new", i)})
	}
	run := f.Start(r)
	for b := range looks[len(looks)-1] {
		order := r.Perm(len(d.Contenders))
		for i := len(order) - 1; i >= 0; i-- {
			order = append(order, order[i])
		}
		instance := make([]float64, len(d.Contenders))
		for i := range instance {
			instance[i] = run.Instance()
		}
		for i, c := range order {
			level := instance[c]
			if c > 0 {
				level += effects[c-1]
			}
			d.Observations = append(d.Observations, Observation{Block: b, Position: i, Contender: d.Contenders[c].Name,
				Cell: "job", Values: []sample.Value{{Metric: "cpu", Unit: "s", Value: math.Exp(run.Trial(level, i))}}})
		}
	}
	return Analyse(d)
}

// A limit that holds exactly is exceeded in at most the stated share of runs, over all
// looks and all contenders, in every kind of noise; one that is just exceeded passes in
// at most that share.
func TestErrorRatesOfLimits(t *testing.T) {
	looks, alphas := []int{8, 11, 16, 22, 31, 43, 60}, []float64{.016, .007, .006, .005, .005, .004, .004}
	runs, families := 400, noise.Families
	if testing.Short() {
		runs, families = 60, families[:2]
	}
	at, beyond := math.Log(1.05), math.Log(1.05)+1e-6
	for _, f := range families {
		for name, x := range map[string]struct {
			effects []float64
			errs    Outcome
		}{
			"one at the limit":                    {[]float64{at}, Exceeded},
			"three at the limit":                  {[]float64{at, at, at}, Exceeded},
			"one is beyond it, and two are equal": {[]float64{beyond, 0, 0}, Kept},
		} {
			wrong := 0
			for i := range runs {
				answers := asked(f, uint64(i), looks, alphas, "cpu>+5%", x.effects...).Limits
				if len(answers) != len(x.effects) {
					t.Fatalf("%d answers", len(answers))
				}
				switch x.errs {
				case Exceeded:
					if slices.ContainsFunc(answers, func(l Limited) bool { return l.Outcome == Exceeded }) {
						wrong++
					}
				case Kept: // such a run passes
					if !slices.ContainsFunc(answers, func(l Limited) bool { return l.Outcome != Kept }) {
						wrong++
					}
				}
			}
			// Four standard errors above the stated share.
			most := .05 + 4*math.Sqrt(.05*.95/float64(runs))
			if share := float64(wrong) / float64(runs); share > most {
				t.Errorf("%s, %s: wrong in %.3f of %d runs", f.Name, name, share, runs)
			} else {
				t.Logf("%s, %s: wrong in %.3f", f.Name, name, share)
			}
		}
	}
}

// A limit of a metric that is not primary keeps a run going until it is decided, and ends
// it whatever the verdicts lack. Before the first look nothing is decided.
func TestLimitsSayWhenARunEnds(t *testing.T) {
	looks, alphas := []int{8, 16}, []float64{.02, .02}
	few := asked(noise.Reference, 1, []int{3}, []float64{.04}, "cpu>+5%", math.Log(1.5))
	few.Looks = looks
	if l := few.Limits[0]; l.Outcome == Kept || few.AllDecided() && l.Pending() {
		t.Errorf("3 blocks: %+v", l)
	}
	for effect, want := range map[float64]Outcome{.5: Exceeded, 0: Kept, -.5: Kept} {
		r := asked(noise.Reference, 1, looks, alphas, "cpu>+5%", effect)
		l := r.Limits[0]
		if l.Outcome != want || l.Blocks != 8 || !r.AllDecided() || !r.Decided()["new0"] ||
			r.WhyDecided() != EndedLimits {
			t.Errorf("a difference of %v: %+v, ended %s", effect, l, r.WhyDecided())
		}
	}
	open := asked(noise.Reference, 1, []int{8}, []float64{1e-9}, "cpu>+5%", math.Log(1.05))
	if l := open.Limits[0]; l.Outcome != Undecided || l.Pending() || open.WhyDecided() != EndedStuck ||
		l.MoreBlocks == nil {
		t.Errorf("at the last look: %+v, ended %s", l, open.WhyDecided())
	}
	none := asked(noise.Reference, 1, looks, alphas, "wall>+5%", 0)
	if l := none.Limits[0]; l.Outcome != Undecided || l.Reason == "" {
		t.Errorf("without a value: %+v", l)
	}
}

// A difference that equals the limit keeps it: values of both sides that never vary, such as 0 errors or 3 allocations,
// and a difference that is the limit but for rounding. A larger one exceeds it.
func TestWhatEqualsTheLimitKeepsIt(t *testing.T) {
	for _, x := range []struct {
		condition string
		old, now  float64
		scale     sample.Scale
		want      Outcome
	}{
		{"n>+5%", 0, 0, sample.Difference, Kept},
		{"n<-5%", 0, 0, sample.Difference, Kept},
		{"n>+0%", 3, 3, sample.Ratio, Kept},
		{"n<-0%", 3, 3, sample.Ratio, Kept},
		{WorseThanMargin, 0, 0, sample.Difference, Kept},
		{"n>+5%", 7, 7 * 1.05, sample.Ratio, Kept},
		{"n>+5%", 20, 21, sample.Difference, Kept},
		{"n>+5%", 0, 1, sample.Difference, Exceeded},
		{"n>+0%", 1e6, 1e6 + 1, sample.Ratio, Exceeded},
		{"n<-0%", 3, 2, sample.Ratio, Exceeded},
	} {
		m := sample.Metric{Name: "n", Unit: "1", Better: sample.Lower, Scale: x.scale, Primary: true}
		d := Data{Baseline: "old", Margin: .02, Looks: []int{8}, Alphas: []float64{.05}, Trials: 1,
			FailOn: []string{x.condition}, Contenders: []Contender{{Name: "old"}, {Name: "new"}},
			Cells: []Cell{{Name: "job", Workload: "command", Metrics: []sample.Metric{m}}}}
		r := rand.New(rand.NewPCG(1, 1))
		for b := range 8 {
			first := r.IntN(2)
			for i := range 2 {
				who, v := "old", x.old
				if i == first {
					who, v = "new", x.now
				}
				if x.scale == sample.Ratio {
					v = math.Log(v)
				}
				d.Observations = append(d.Observations, Observation{Block: b, Position: i, Contender: who, Cell: "job",
					Values: []sample.Value{{Metric: "n", Unit: "1", Value: v}}})
			}
		}
		if l := Analyse(d).Limits; len(l) != 1 || l[0].Outcome != x.want {
			t.Errorf("%s of %v and %v: %+v", x.condition, x.old, x.now, l)
		}
	}
}
