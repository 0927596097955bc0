package main

import "bakeoff/analysis"

// endText says why a run ended.
func endText(ended string) string {
	switch ended {
	case "decided":
		return "every primary comparison is decided"
	case "blocks":
		return "all planned blocks are done"
	case "budget":
		return "the time budget is used up"
	case "interrupted":
		return "interrupted; this is what there is so far"
	}
	return ended
}

func isDecided(c analysis.Comparison) bool {
	return c.Verdict == analysis.Better || c.Verdict == analysis.Worse || c.Verdict == analysis.Equivalent
}
