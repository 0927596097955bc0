package report

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/judge/analysis"
	checks "bakeoff/lab/evidence"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// describeInProse describes the method in paragraphs that could stand in a paper. Every number is
// from the plan, the journal or the results of this run.
func (b *builder) describeInProse() []string {
	if !b.hasPlan {
		return nil
	}
	return lists.Filter([]string{
		strings.Join(b.proseSubjects(), " "),
		strings.Join(b.proseDesign(), " "),
		strings.Join(b.proseTrials(), " "),
		strings.Join(b.proseAnalysis(), " "),
	}, func(p string) bool { return p != "" })
}

// proseSubjects says what was compared on which machine, and by which work.
func (b *builder) proseSubjects() []string {
	p := b.plan
	var others, cells []string
	for _, c := range p.Contenders {
		if b.compares(c.Name) {
			others = append(others, fmt.Sprintf("%s (%s)", c.Name, c.Driver))
		}
	}
	for _, k := range b.results.Cells {
		cells = append(cells, fmt.Sprintf("%s (%s)", k.Name, b.describeCell(k)))
	}
	first := fmt.Sprintf("bakeoff %s measured %s (%s)", p.Version, p.Baseline, b.driverOf(p.Baseline))
	if len(others) > 0 {
		first = fmt.Sprintf("bakeoff %s compared %s with the baseline %s (%s)", p.Version, joinWords(others), p.Baseline,
			b.driverOf(p.Baseline))
	}
	out := []string{first + " on " + b.machine() + ".", "The run lasted from " + b.timeRange() + "."}
	if len(cells) > 0 {
		out = append(out, fmt.Sprintf("The work was %s: %s.", unit.Count(len(cells), "cell"), joinWords(cells)))
	}
	return append(out, resources(p)...)
}

func (b *builder) driverOf(name string) string {
	for _, c := range b.plan.Contenders {
		if c.Name == name {
			return c.Driver
		}
	}
	return unavailable
}

// resources says what each environment had, if all had the same.
func resources(p plan.Plan) (out []string) {
	same := func(of func(plan.Contender) string) string {
		text := ""
		for i, c := range p.Contenders {
			if t := of(c); i == 0 {
				text = t
			} else if t != text {
				return ""
			}
		}
		return text
	}
	cpus := same(func(c plan.Contender) string { return unit.Count(c.CPUs, "CPU") })
	memory := same(func(c plan.Contender) string {
		if c.Memory == 0 {
			return ""
		}
		return c.Memory.String() + " of memory"
	})
	has := lists.Filter([]string{cpus, memory}, func(s string) bool { return s != "" && s != "0 CPUs" })
	if len(has) > 0 {
		out = append(out, "Each environment had "+joinWords(has)+".")
	}
	return out
}

// proseDesign says in which order the trials ran.
func (b *builder) proseDesign() []string {
	p := b.plan
	out := []string{fmt.Sprintf("The design is a randomized complete block design, drawn from the seed %d before the "+
		"first trial. The plan was fixed first: its SHA-256 is %s.", p.Seed, knownText(b.results.PlanSHA256))}
	order := "In every block, all contenders visited one cell in random order"
	if p.Design.Mirror {
		order += ", then in the mirrored order, so that a linear drift of the machine cancels out"
	}
	out = append(out, order+", before the next cell began.")
	switch {
	case p.Design.Instances == "run" && b.scopes() == [2]bool{true, false}:
		out = append(out, "Every trial created a new environment.")
	case p.Design.Instances == "run":
		out = append(out, "The same environments served all blocks.")
	default:
		out = append(out, "Every block had new environments.")
	}
	if p.Twin != "" {
		out = append(out, fmt.Sprintf("The baseline also ran under a second name (%s): a difference between the two would "+
			"be an error of the procedure.", p.Twin))
	}
	return out
}

// proseTrials counts what ran.
func (b *builder) proseTrials() []string {
	r := &b.results
	trials, failed, void := 0, 0, voidBlocks(b.lines)
	counting := 0
	for _, l := range b.lines {
		if l.Trial == nil || l.Type != store.LineTrial {
			continue
		}
		trials++
		if void[l.Block] || l.Status == store.Void {
			continue
		}
		counting++
		if l.Status == store.Subject {
			failed++
		}
	}
	out := []string{fmt.Sprintf("The journal has %s in %s that count and %s.", unit.Count(trials, "trial"),
		unit.Count(r.Blocks, "block"), unit.Count(r.Void, "void block"))}
	if failed > 0 {
		out = append(out, fmt.Sprintf("In %d of the %s of blocks that count, the contender itself failed; such a trial "+
			"counts as the worst possible value.", failed, unit.Count(counting, "trial")))
	} else {
		out = append(out, "No contender failed in a trial that counts.")
	}
	return append(out, "The run ended because of this: "+analysis.EndedText(r.Ended)+".")
}

// proseAnalysis says how verdicts were made.
func (b *builder) proseAnalysis() []string {
	r := &b.results
	out := []string{"Values were compared within blocks, as logarithms where the metric is compared by ratio. The " +
		"interval of a comparison contains the differences that the exact signed-rank test of the blocks does not reject."}
	if len(r.Looks) > 0 {
		out = append(out, fmt.Sprintf("Verdicts were possible at the looks after %s blocks, which spend alphas of %s; the "+
			"%s share them (Holm 1979; Lan and DeMets 1983).", listValues(r.Looks), listValues(r.Alphas),
			unit.Count(len(b.plan.Family), "primary comparison")))
	}
	out = append(out, fmt.Sprintf("The margin of equivalence, fixed in advance, is ±%s %%.", significant(100*r.Margin, 3)))
	withheld := lists.Count(r.Comparisons, func(c analysis.Comparison) bool { return c.Primary && len(c.Gates) > 0 })
	out = append(out, fmt.Sprintf("%d checks examined every trial (rules %d); failed checks withheld the verdicts on %s.",
		len(checks.Gates()), r.Rules, unit.Count(withheld, "comparison")))
	if t := r.Twin; t != nil && len(b.page.TwinSays) > 0 {
		out = append(out, fmt.Sprintf("Of the comparisons of the twin, %s.", tallied(b.page.TwinSays)))
	}
	if b.contents.machine != nil {
		out = append(out, "The machine had been calibrated.")
	} else {
		out = append(out, "The machine had not been calibrated.")
	}
	return out
}

// joinWords joins words: "a, b and c".
func joinWords(words []string) string {
	const most = 30
	if len(words) > most {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("%d more", len(words)-most))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
