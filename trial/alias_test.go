package trial

import "bakeoff/analysis"

type (
	analysisMissing = analysis.Missing
	analysisSummary = analysis.Summary
)
