package evidence

import (
	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
)

// Explain returns what a failure of the gate called name means, "" if there is no
// such gate. It covers the gates of single trials and those of comparisons.
func Explain(name string) string {
	switch name {
	case analysis.OrderGate:
		return "the difference depends on the order of execution, or cannot be distinguished from an effect of the " +
			"order: no single number describes it"
	case analysis.DriftGate:
		return "the clock of an environment runs slower or faster than the host's in almost all trials: times that were " +
			"measured inside are biased"
	case analysis.ChangeGate:
		return "the difference changed during the run: no single number describes it"
	}
	g, _ := lists.Find(Gates(), func(g Gate) bool { return g.Name == name })
	return g.Doc
}
