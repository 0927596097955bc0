package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// sweepOf is a run in which gzip was swept over its levels: one level is missing.
// With own, the baseline is a contender of its own.
func sweepOf(own bool) (analysis.Data, plan.Plan) {
	rng := rand.New(rand.NewPCG(3, 4))
	wall := sample.LowerRatio("wall", "s", "time of the command")
	wall.Primary = true
	d := analysis.Data{Run: "20261123T120000Z-levels", Baseline: "gzip-level-1", Twin: "gzip-level-1~twin", Margin: .02,
		Looks: []int{12}, Alphas: []float64{.05}, Trials: 1, Ended: "decided", Scope: analysis.ScopeMachine,
		Cells: []analysis.Cell{
			{Name: "try", Workload: "command", Params: param.Values{"timeout": "10m0s"}, Metrics: []sample.Metric{wall}},
			{Name: "hash", Workload: "crypto", Params: param.Values{}, Metrics: []sample.Metric{wall}}},
		Factors: map[string]map[string][]analysis.Factor{}, Missing: []analysis.Missing{}}
	p := plan.Plan{Schema: plan.Schema, Lab: "levels", Baseline: d.Baseline, Twin: d.Twin,
		Design: manifest.Design{Margin: .02, Looks: []int{12}, Alphas: []float64{.05}, Instances: "block", Mirror: false}}
	level := func(name string, l int, twinOf string) analysis.Contender {
		return analysis.Contender{Name: name, Driver: "host", Host: "local", TwinOf: twinOf,
			Params: map[string]param.Values{"try": {"argv": fmt.Sprintf("gzip\n-%d\nbig", l)}},
			Sweep:  &analysis.Sweep{Of: "gzip", Name: "level", Value: fmt.Sprint(l)}}
	}
	for _, l := range []int{1, 5, 7, 9} {
		d.Contenders = append(d.Contenders, level(fmt.Sprintf("gzip-level-%d", l), l, ""))
	}
	if own {
		d.Baseline, d.Twin = "zstd", "zstd~twin"
		zstd := analysis.Contender{Name: "zstd", Driver: "host", Host: "local"}
		twin := zstd
		twin.Name, twin.TwinOf = d.Twin, "zstd"
		d.Contenders = append(d.Contenders, zstd, twin)
	} else {
		d.Contenders = append(d.Contenders, level(d.Twin, 1, d.Baseline))
	}
	for _, c := range d.Contenders {
		if c.Name != d.Baseline && c.TwinOf == "" {
			d.Factors[c.Name] = map[string][]analysis.Factor{"try": {{Name: "params.argv", Baseline: "gzip -1 big",
				Contender: strings.ReplaceAll(c.Params["try"]["argv"], "\n", " ")}}}
		}
	}
	truth := map[string]float64{"gzip-level-1": .1, "gzip-level-5": .2, "gzip-level-9": .4, "zstd": .15, "zstd~twin": .15,
		"gzip-level-1~twin": .1}
	for block := range 12 {
		order := rng.Perm(len(d.Contenders))
		for i, c := range order {
			name := d.Contenders[c].Name
			for k, cell := range d.Cells {
				o := analysis.Observation{Block: block, Position: k*len(order) + i, Contender: name, Cell: cell.Name,
					Instance: fmt.Sprint(name, block)}
				if truth[name] == 0 && cell.Name == "try" {
					o.Failed, o.Reason = true, "gzip: invalid option"
				} else {
					v := max(truth[name], .1) * math.Exp(.003*rng.NormFloat64())
					o.Values = []sample.Value{{Metric: "wall", Unit: "s", Value: v}}
				}
				d.Observations = append(d.Observations, o)
			}
		}
	}
	return d, p
}

// A sweep has a curve on the page, at the cells where its values differ, with the
// verdict of every value in its table, and the factor is stated.
func TestCurves(t *testing.T) {
	d, p := sweepOf(false)
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	if !strings.Contains(page, `id="curves"`) || !strings.Contains(page, `href="#curves"`) {
		t.Fatal("the page has no curves")
	}
	section := page[strings.Index(page, `aria-labelledby="curves"`):]
	section = section[:strings.Index(section, "</section>")]
	if n := strings.Count(section, "<svg"); n != 2 { // one figure, wide and narrow
		t.Errorf("%d drawings, want that of the cell try at two widths", n)
	}
	for _, want := range []string{"try, wall over level", "the baseline", "worse", "missing", "×", "lower is better"} {
		if !strings.Contains(section, want) {
			t.Errorf("the curve does not say %q", want)
		}
	}
	factors := textOf(doc.ofClass("differs")[0])
	for _, want := range []string{"params.argv at try", "gzip -1 big gzip-level-1", "gzip -9 big gzip-level-9"} {
		if !strings.Contains(strings.ReplaceAll(factors, " ,", ","), want) {
			t.Errorf("the factors do not say %q: %s", want, factors)
		}
	}
	if head := textOf(doc.ofClass("facts")[0]); !strings.Contains(head,
		"Differs on purpose level of gzip: 1, 5, 7, 9") {
		t.Errorf("the head does not state the factor: %s", head)
	}
}

// Two metrics of a sweep are drawn against each other: two primary ones, or the primary one
// and what else the workload knows. A run with one metric has no such figure.
func TestTradeoffs(t *testing.T) {
	for name, cost := range map[string]sample.Metric{
		"primary": {Name: "bytes", Unit: "B", Better: sample.Lower, Primary: true, Scale: sample.Ratio},
		"known":   sample.LowerRatio("cost", "1", "size of the output"),
		"unknown": sample.LowerRatio("faults", "1", "page faults"),
	} {
		d, p := sweepOf(false)
		d.Cells[0].Metrics = append(d.Cells[0].Metrics, cost)
		for i, o := range d.Observations {
			if len(o.Values) > 0 && o.Cell == "try" {
				v := sample.Value{Metric: cost.Name, Unit: cost.Unit, Value: 1e5 / o.Values[0].Value}
				d.Observations[i].Values = append(o.Values, v)
			}
		}
		dir, page := written(t, d, p, analysis.Analyse(d))
		sound(t, dir, page)
		id := `id="figure-tradeoff-try-wall-` + cost.Name + `-level"`
		if got, want := strings.Contains(page, id), name != "unknown"; got != want {
			t.Errorf("%s: the page has a trade-off: %v, want %v", name, got, want)
			continue
		} else if !want {
			continue
		}
		section := page[strings.Index(page, id):]
		for _, want := range []string{"try, wall against " + cost.Name + " over level", "1 (baseline)",
			cost.Name + ",", "wall, ms, lower is better →", "on the front", "not shown", "1 without values"} {
			if !strings.Contains(section, want) {
				t.Errorf("%s: the trade-off does not say %q", name, want)
			}
		}
		parts, err := Parts(dir, Option{})
		if err != nil || !slices.ContainsFunc(parts, func(x Part) bool {
			return x.Name == "tradeoff-try-wall-"+cost.Name+"-level"
		}) {
			t.Errorf("%s: a page cannot embed the trade-off: %v", name, err)
		}
	}
}

// Without a sweep the head states a single factor with its values.
func TestFactorInTheHead(t *testing.T) {
	d, _ := sweepOf(false)
	for i := range d.Contenders {
		d.Contenders[i].Sweep = nil
	}
	b := newBuilder(&contents{results: analysis.Analyse(d)})
	b.purposes()
	want := "params.argv at try: gzip -1 big (gzip-level-1), gzip -5 big (gzip-level-5), gzip -9 big (gzip-level-9)"
	if head := b.page.Head; len(head) != 1 || head[0].Value != want {
		t.Errorf("%v", head)
	}
}

// The terminal draws the same curve, within its width and in plain characters where
// it must.
func TestCurveInATerminal(t *testing.T) {
	for _, own := range []bool{false, true} {
		d, _ := sweepOf(own)
		r := analysis.Analyse(d)
		out := text(t, r, Terminal{Width: 72})
		t.Log("\n" + out)
		mark := "■ baseline"
		if own {
			mark = "· zstd"
		}
		for _, want := range []string{"try, wall (ms) over level: ● median, │ interval, " + mark, "└──", "1 ", " 5", "9"} {
			if !strings.Contains(out, want) {
				t.Errorf("own %v: the text does not say %q", own, want)
			}
		}
		if strings.Contains(out, "hash, wall (ms) over level") {
			t.Error("a curve at a cell where nothing was swept")
		}
		for _, opt := range []Terminal{{Width: 72, ASCII: true}, {Width: 50}, {Width: 200}} {
			for _, line := range strings.Split(text(t, r, opt), "\n") {
				for _, c := range line {
					if opt.ASCII && c > 126 {
						t.Fatalf("%q is not ASCII", c)
					}
				}
				if n := len([]rune(line)); n > opt.Width {
					t.Errorf("%d columns of %d: %s", n, opt.Width, line)
				}
			}
		}
		if r.Contenders[0].Sweep.Of != "gzip" || len(r.Comparisons[0].Factors) == 0 {
			t.Error("Text changed the results that it was given")
		}
	}
}

// Two contenders over the same name are two lines of one figure, those over
// another name have their own, and names that are no numbers stand in their order.
func TestCurvesOfSeveralContenders(t *testing.T) {
	d, _ := sweepOf(false)
	for i := range d.Contenders[:4] {
		s := d.Contenders[i].Sweep
		if i >= 2 {
			s.Of = "pigz"
		}
	}
	b := newBuilder(&contents{results: analysis.Analyse(d)})
	figures := b.curvesOf(b.results.Cells[0], b.results.Cells[0].Metrics[0])
	if len(figures) != 1 || len(figures[0].Lines) != 2 || figures[0].Lines[1].Label != "pigz" {
		t.Fatalf("%+v", figures)
	}
	d.Contenders[2].Sweep.Name, d.Contenders[3].Sweep.Name = "format", "format"
	b = newBuilder(&contents{results: analysis.Analyse(d)})
	figures = b.curvesOf(b.results.Cells[0], b.results.Cells[0].Metrics[0])
	if len(figures) != 2 || figures[1].Name != "format" {
		t.Fatalf("%+v", figures)
	}
	// The baseline has no point in the second figure. It is drawn as a level.
	if figures[0].Level != nil || figures[1].Level == nil {
		t.Errorf("levels %v and %v", figures[0].Level, figures[1].Level)
	}
}
