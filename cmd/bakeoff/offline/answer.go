package offline

import (
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/publish/report"
)

// PrintAnswer writes the answer of r in a form for the terminal; page is the path of its
// page, "" for none; sort is the order of the contenders.
func PrintAnswer(s *cli.Streams, form report.Renderer, r analysis.Results, page, sort string) error {
	to := terminal(s)
	to.Page = page
	return form.Results(s.Out, r, nil, report.Option{Terminal: to, Sort: report.Order(sort)})
}

// terminal is what standard output can show.
func terminal(s *cli.Streams) report.Terminal {
	return report.Terminal{Width: s.TextWidth(), Color: s.Style(s.Out).Colored, ASCII: s.ASCII()}
}
