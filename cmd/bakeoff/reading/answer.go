package reading

import (
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/publish/report"
)

// PrintAnswer writes the terminal report of r; page is the path of its page, ""
// for none.
func PrintAnswer(s *cli.Streams, r analysis.Results, page string) error {
	return report.Text(s.Out, r, report.TextOption{
		Width: s.TextWidth(), Color: s.Style(s.Out).Colored, ASCII: s.ASCII(), Page: page,
	})
}
