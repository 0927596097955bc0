package trial

import "bakeoff/judge/analysis"

type (
	analysisMissing = analysis.Missing
	analysisSummary = analysis.Summary
)
