package report

import (
	"bakeoff/judge/analysis"
	"bakeoff/publish/chart/quantile"
)

// latencies draws the distribution of the latencies at a cell; nil where nobody recorded
// them.
func (b *builder) latencies(k analysis.Cell) *figure {
	f := quantile.Figure{Of: k.Name}
	for _, name := range b.rankedNames() {
		s := b.contents.strips[cellOf{name, k.Name}]
		if s == nil || s.latencies == nil {
			continue
		}
		l := quantile.Line{Label: name, Baseline: name == b.results.Baseline, Trials: s.latencies.Trials,
			Count: s.latencies.Count()}
		for _, p := range quantile.Percents(l.Count) {
			l.Points = append(l.Points, quantile.Point{Percent: p, Seconds: s.latencies.Seconds(p)})
		}
		f.Floor = max(f.Floor, s.latencies.Floor)
		f.Lines = append(f.Lines, l)
	}
	if len(f.Lines) == 0 {
		return nil
	}
	return new(b.drawFigure(f, b.describeCell(k), "latency", k.Name))
}
