package evidence

import (
	"maps"
	"slices"
	"strings"

	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
)

// factors returns what the lab file makes different on purpose: contender → cell
// → factors. The baseline and its twin have none.
func factors(p *plan.Plan) map[string]map[string][]analysis.Factor {
	out := map[string]map[string][]analysis.Factor{}
	for _, c := range p.Contenders {
		if c.Name == p.Baseline || c.TwinOf != "" {
			continue
		}
		out[c.Name] = map[string][]analysis.Factor{}
		for _, cell := range p.Cells {
			out[c.Name][cell.Name] = p.Factors(c.Name, cell.Name)
		}
	}
	return out
}

// followers returns, by contender, the facts that follow from its own parameters,
// variables, packages or files. These are program.WORKLOAD.NAME, if those of a cell
// with this workload differ from the baseline's. If anything else differs on purpose
// too, it is not known from what they follow, and they stay confounders. The digest
// of an image follows from packages and files if the images have the same name. Which
// executable a command starts follows from the image, too.
func followers(p *plan.Plan, facts map[string]map[string]string) map[string][]string {
	out := map[string][]string{}
	for _, c := range p.Contenders {
		if c.Name == p.Baseline || c.TwinOf != "" {
			continue
		}
		base, _ := p.Contender(p.Baseline)
		if c.Image == base.Image && !slices.Equal(c.Packages, base.Packages) {
			out[c.Name] = append(out[c.Name], "image.digest")
		}
		varied, other, image := map[string]bool{}, false, false
		for _, cell := range p.Cells {
			for _, f := range p.Factors(c.Name, cell.Name) {
				switch kind, _, _ := strings.Cut(f.Name, "."); kind {
				case "files":
					varied["image.digest"] = true
					fallthrough
				case "params", "env", "packages":
					varied["program."+cell.Workload+"."] = true
				case "image":
					image = true
				default:
					other = true
				}
			}
		}
		if image && !other {
			varied = map[string]bool{commandFacts: true}
		}
		if len(varied) == 0 || other {
			continue
		}
		for _, fact := range analysis.Names(facts[c.Name], facts[p.Baseline]) {
			if slices.ContainsFunc(slices.Collect(maps.Keys(varied)), func(prefix string) bool {
				return strings.HasPrefix(fact, prefix)
			}) {
				out[c.Name] = append(out[c.Name], fact)
			}
		}
	}
	return out
}

// commandFacts is the prefix of the facts of the files that commands start.
const commandFacts = "program.command."

// withoutFactors removes the factors from results that were computed again if the
// stored results have none: an earlier program, which did not know them, wrote
// them.
func (v *verifier) withoutFactors(stored, now any) {
	has := func(m map[string]any) bool { return m["factors"] != nil }
	if slices.ContainsFunc(entriesOf(stored, "comparisons"), has) {
		return
	}
	removed := false
	for _, m := range entriesOf(now, "comparisons") {
		removed = removed || has(m)
		delete(m, "factors")
	}
	if removed {
		v.note("%s names no factors: an earlier version of bakeoff wrote it", store.ResultsFile)
	}
}
