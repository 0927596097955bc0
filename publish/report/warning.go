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
	var names, lines []string
	var who [][]string
	at := map[string][]place{}
	for _, p := range places {
		if at[p.contender] == nil {
			names = append(names, p.contender)
		}
		at[p.contender] = append(at[p.contender], p)
	}
	for _, name := range names {
		line := cellsOf(at[name])
		i := slices.Index(lines, line)
		if i < 0 {
			i = len(lines)
			lines, who = append(lines, line), append(who, nil)
		}
		who[i] = append(who[i], name)
	}
	for i, line := range lines {
		out = append(out, strings.Join(who[i], ", ")+": "+line)
	}
	return out
}

// cellsOf lists cells with their metrics: "http (throughput, latency), cpu (throughput)".
func cellsOf(places []place) string {
	var cells []string
	metrics := map[string][]string{}
	for _, p := range places {
		if metrics[p.cell] == nil {
			cells = append(cells, p.cell)
		}
		metrics[p.cell] = append(metrics[p.cell], p.metric)
	}
	for i, c := range cells {
		cells[i] = fmt.Sprintf("%s (%s)", c, strings.Join(metrics[c], ", "))
	}
	return strings.Join(cells, ", ")
}
