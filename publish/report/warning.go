package report

import (
	"bakeoff/base/lists"
	"fmt"
	"slices"
	"strings"
)

// warning is a warning about one or more comparisons.
type warning struct {
	Text  string
	Count int      // comparisons
	Where []string // "a, b: cell (metric, metric), cell (metric)"
}

// One reports whether the warning is about a single comparison.
func (w warning) One() bool { return w.Count == 1 }

// gathered joins equal warnings: otherwise a run that ended early would repeat the
// same one for every metric.
func (b *builder) gathered() []warning {
	var order []string
	about := map[string][]place{}
	for _, c := range b.results.Comparisons {
		for _, w := range c.Warnings {
			if about[w] == nil {
				if len(order) == maxList {
					continue
				}
				order = append(order, w)
			}
			if p := (place{c.Contender, c.Cell, c.Metric}); !slices.Contains(about[w], p) {
				about[w] = append(about[w], p)
			}
		}
	}
	return lists.Map(order, func(text string) warning {
		return warning{Text: text, Count: len(about[text]), Where: listPlaces(about[text])}
	})
}

// place is where a comparison was made.
type place struct{ contender, cell, metric string }

// listPlaces lists places briefly: contenders with the same cells and metrics share a
// line.
func listPlaces(places []place) (out []string) {
	var at lists.Groups[string, place]
	var who lists.Groups[string, string] // by cells and metrics
	for _, p := range places {
		at.Add(p.contender, p)
	}
	for name, places := range at.All() {
		who.Add(cellsOf(places), name)
	}
	for line, names := range who.All() {
		out = append(out, strings.Join(names, ", ")+": "+line)
	}
	return out
}

// cellsOf lists cells with their metrics: "http (throughput, latency), cpu (throughput)".
func cellsOf(places []place) string {
	var metrics lists.Groups[string, string]
	for _, p := range places {
		metrics.Add(p.cell, p.metric)
	}
	var cells []string
	for cell, names := range metrics.All() {
		cells = append(cells, fmt.Sprintf("%s (%s)", cell, strings.Join(names, ", ")))
	}
	return strings.Join(cells, ", ")
}
