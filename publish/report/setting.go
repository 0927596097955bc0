package report

import (
	"slices"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
)

// about says what a cell does: its workload, with the parameters that make it
// what it is.
func (b *builder) about(c analysis.Cell) string {
	return strings.Join(append([]string{c.Workload}, b.settings(c, true)...), " ")
}

// defaults are the parameters of a cell that nobody chose.
func (b *builder) defaults(c analysis.Cell) string { return strings.Join(b.settings(c, false), " ") }

// settings are the parameters of a cell, those that tell something of it or the
// others, as NAME=VALUE.
func (b *builder) settings(c analysis.Cell, telling bool) []string {
	var out []string
	for _, a := range c.Params.Args() {
		name, _, _ := strings.Cut(a, "=")
		if b.tells(c, name) == telling {
			out = append(out, safetext.Clip(strings.ReplaceAll(a, "\n", " "), 80))
		}
	}
	return out
}

// tells reports whether a parameter tells something of a cell: it is not what
// the workload has by default, or another cell with this workload has it
// otherwise.
func (b *builder) tells(c analysis.Cell, name string) bool {
	usual, known := b.usual[c.Workload][name]
	return !known || usual != c.Params[name] || slices.ContainsFunc(b.results.Cells, func(o analysis.Cell) bool {
		return o.Workload == c.Workload && o.Params[name] != c.Params[name]
	})
}
