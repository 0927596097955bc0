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
			"order, so that no single number describes the difference"
	case analysis.DriftGate:
		return "the clock of an environment runs slower or faster than the host's clock in almost all trials, so " +
			"that times measured inside the environment are biased"
	case analysis.ChangeGate:
		return "the difference between the contenders changed during the run, so that no single number describes " +
			"the difference"
	}
	g, _ := lists.Find(Gates(), func(g Gate) bool { return g.Name == name })
	return g.Doc
}
