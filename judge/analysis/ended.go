package analysis

import "cmp"

// The reasons why a run ended, as in Results.Ended. A run that has not ended
// has "".
const (
	EndedDecided     = "decided"     // every primary comparison has a verdict
	EndedLimits      = "limits"      // every tolerance of --fail-on is decided
	EndedStuck       = "stuck"       // no comparison can get a verdict any more, and some have none
	EndedFailed      = "failed"      // the trials of one side of every comparison only failed
	EndedBlocks      = "blocks"      // every planned block was run
	EndedBudget      = "budget"      // another block did not fit into the time
	EndedInterrupted = "interrupted" // a person or a signal stopped it
	EndedVoid        = "void"        // too many blocks failed: for one cause, until no spare block was left, or at boot
)

// EndedText says for people why a run ended: "the run ended because …".
// A reason of another version of bakeoff is shown as it is.
func EndedText(ended string) string {
	return cmp.Or(endedTexts[ended], ended)
}

var endedTexts = map[string]string{
	"":               "it has not ended; this is its state so far",
	EndedDecided:     "every primary comparison has a verdict",
	EndedLimits:      "every tolerance of --fail-on is decided",
	EndedStuck:       "more blocks cannot change a verdict: each comparison has one, or can no longer get one",
	EndedFailed:      "the trials failed every time, so there is nothing to compare",
	EndedBlocks:      "all planned blocks are done",
	EndedBudget:      "the time limit is reached: the budget has no room for another block",
	EndedInterrupted: "it was interrupted",
	EndedVoid: "too many blocks were void: each had the same cause, no extra block was left to replace one, or a " +
		"machine does not boot",
}
