package evidence

import "bakeoff/judge/analysis"

// Explain says what a failure of the gate called name means, "" where there is
// no such gate: those of single trials and those of comparisons.
func Explain(name string) string {
	switch name {
	case analysis.OrderGate:
		return "the difference depends on the order of execution: one number for it does not exist, or an effect of the order cannot be told from it"
	case analysis.ChangeGate:
		return "the difference was another one in earlier blocks than in later ones: one number for it does not exist"
	}
	for _, g := range Gates() {
		if g.Name == name {
			return g.Doc
		}
	}
	return ""
}
