// Package all lists the kinds of figures.
package all

import (
	"bakeoff/chart"
	"bakeoff/chart/bar"
	"bakeoff/chart/drift"
	"bakeoff/chart/percent"
	"bakeoff/chart/points"
	"bakeoff/chart/strip"
	"bakeoff/chart/summary"
)

// Docs describes every kind of figure, sorted by name.
func Docs() []chart.Doc {
	return []chart.Doc{
		bar.Figure{}.Doc(),
		drift.Figure{}.Doc(),
		percent.Figure{}.Doc(),
		points.Figure{}.Doc(),
		strip.Figure{}.Doc(),
		summary.Figure{}.Doc(),
	}
}
