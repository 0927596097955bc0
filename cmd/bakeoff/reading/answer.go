package reading

import (
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/publish/report"
)

// PrintAnswer writes the terminal report of r; page is the path of its page, ""
// for none; sort is the order of the contenders.
func PrintAnswer(s *cli.Streams, r analysis.Results, page, sort string) error {
	return report.Text(s.Out, r, report.TextOption{
		Width: s.TextWidth(), Color: s.Style(s.Out).Colored, ASCII: s.ASCII(), Page: page, Sort: report.Order(sort),
	})
}
