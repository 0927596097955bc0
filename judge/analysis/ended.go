package analysis

// The reasons why a run ended, as in Results.Ended. A run that has not ended
// has "".
const (
	EndedDecided     = "decided"     // every primary comparison has a verdict
	EndedStuck       = "stuck"       // no comparison can get a verdict any more, and some have none
	EndedBlocks      = "blocks"      // every planned block was run
	EndedBudget      = "budget"      // another block did not fit into the time
	EndedInterrupted = "interrupted" // a person or a signal stopped it
	EndedVoid        = "void"        // too many blocks failed: no spare block is left, or a machine does not boot
)

// EndedText says for people why a run ended: "the run ended because …".
// A reason of another version of bakeoff is shown as it is.
func EndedText(ended string) string {
	switch ended {
	case EndedDecided:
		return "every primary comparison has a verdict"
	case EndedStuck:
		return "no further block can bring another verdict: every comparison has one or cannot get one any more"
	case EndedBlocks:
		return "all planned blocks are done"
	case EndedBudget:
		return "the time budget has no room for another block"
	case EndedInterrupted:
		return "it was interrupted"
	case EndedVoid:
		return "too many blocks were void: no spare block is left, or a machine does not boot"
	case "":
		return "it has not ended; this is its state so far"
	}
	return ended
}
