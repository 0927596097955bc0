// Package all lists the kinds of figures.
package all

import (
	"bakeoff/publish/chart"
	"bakeoff/publish/chart/bar"
	"bakeoff/publish/chart/change"
	"bakeoff/publish/chart/curve"
	"bakeoff/publish/chart/drift"
	"bakeoff/publish/chart/flame"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/chart/points"
	"bakeoff/publish/chart/quantile"
	"bakeoff/publish/chart/strip"
	"bakeoff/publish/chart/summary"
	"bakeoff/publish/chart/timeline"
	"bakeoff/publish/chart/tradeoff"
	"bakeoff/publish/chart/trend"
)

// Docs describes every kind of figure, sorted by name.
func Docs() []chart.Doc {
	return []chart.Doc{
		bar.Figure{}.Doc(),
		change.Figure{}.Doc(),
		curve.Figure{}.Doc(),
		drift.Figure{}.Doc(),
		flame.Figure{}.Doc(),
		percent.Figure{}.Doc(),
		points.Figure{}.Doc(),
		quantile.Figure{}.Doc(),
		strip.Figure{}.Doc(),
		summary.Figure{}.Doc(),
		timeline.Figure{}.Doc(),
		tradeoff.Figure{}.Doc(),
		trend.Figure{}.Doc(),
	}
}
