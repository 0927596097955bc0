package report

import (
	"slices"
	"strings"

	"bakeoff/base/safetext"
	"bakeoff/judge/analysis"
)

// describeCell describes a cell: its workload with the parameters that matter.
func (b *builder) describeCell(c analysis.Cell) string {
	return strings.Join(append([]string{c.Workload}, b.settings(c, true)...), " ")
}

// defaults are the parameters of a cell that have their defaults.
func (b *builder) defaults(c analysis.Cell) string { return strings.Join(b.settings(c, false), " ") }

// settings are the parameters of a cell as NAME=VALUE, those that matter or the
// others.
func (b *builder) settings(c analysis.Cell, telling bool) []string {
	var out []string
	for _, a := range c.Params.Args() {
		name, _, _ := strings.Cut(a, "=")
		if b.parameterMatters(c, name) == telling {
			out = append(out, safetext.Clip(strings.ReplaceAll(a, "\n", " "), 80))
		}
	}
	return out
}

// parameterMatters reports whether a parameter of a cell matters: it does not have its
// default, or another cell with this workload has another value.
func (b *builder) parameterMatters(c analysis.Cell, name string) bool {
	usual, known := b.usual[c.Workload][name]
	return !known || usual != c.Params[name] || slices.ContainsFunc(b.results.Cells, func(o analysis.Cell) bool {
		return o.Workload == c.Workload && o.Params[name] != c.Params[name]
	})
}
