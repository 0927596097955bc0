package audit

import (
	"fmt"
	"strings"
)

// inState lists the cells of a table in one state, one finding a column.
func inState(t *Table, s State, format string) (out []Finding) {
	for _, col := range t.Columns {
		var rows, whys []string
		for i := range t.Rows {
			r := &t.Rows[i]
			v := r.Values[col.Name]
			if v.State != s {
				continue
			}
			name := r.title()
			if v.Known() {
				name += " (" + value(v, col.Unit) + ")"
			}
			rows = append(rows, name)
			if len(whys) == 0 || whys[len(whys)-1] != v.Why {
				whys = append(whys, v.Why)
			}
		}
		if len(rows) > 0 {
			out = append(out, Finding{Text: fmt.Sprintf(format, col.title(), shortened(rows)) + ": " + shortened(whys)})
		}
	}
	return out
}

// shortened joins names, and counts those beyond the fifth.
func shortened(names []string) string {
	if len(names) > 6 {
		return strings.Join(names[:5], "; ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, "; ")
}

var missingCheck = Check{
	Name: "missing",
	Doc: "A cell that the claim needs is not printed: a chart without figures, a failed test, an operation \"too " +
		"fast to measure\". The claim cannot be checked without it. If a claim covers all rows, the check uses the " +
		"printed ones only.",
	claim: func(t *Table, c *comparison) []Reason {
		var gone []string
		needed := false
		for i, r := range c.rows {
			if v := c.cell(r); !v.Known() {
				gone = append(gone, r.title()+" ("+v.Why+")")
				needed = needed || i == 0 || c.Relation != "best" && c.Relation != "worst"
			}
		}
		switch {
		case len(gone) == 0:
			return nil
		case needed || c.outcome.rival == nil:
			return []Reason{{Weight: Blinds, Text: "no figure is printed for " + shortened(gone)}}
		}
		return []Reason{{Weight: Blinds, Text: "no figure is printed for " + shortened(gone) +
			", which the claim ranges over"}}
	},
	table: func(t *Table) []Finding {
		return inState(t, Missing, "%s: nothing is printed for %s")
	},
}

var croppedCheck = Check{
	Name: "cropped",
	Doc: "A bar that leaves its chart shows no length. The figure counts only if it is also printed as a number, and " +
		"the bars still mislead readers who compare their lengths.",
	claim: func(t *Table, c *comparison) []Reason {
		for _, r := range c.rows {
			if v := c.cell(r); v.State == Cropped && v.Known() {
				return []Reason{{Weight: Qualifies, Text: "the bar of " + r.title() +
					" is cropped: its figure is taken from the text"}}
			}
		}
		return nil
	},
	table: func(t *Table) []Finding {
		return inState(t, Cropped, "%s: the bar is cropped for %s")
	},
}

var estimatedCheck = Check{
	Name: "estimated",
	Doc: "A printed figure that was extrapolated or computed by hand was not measured. A claim about it rests on an " +
		"assumption.",
	claim: func(t *Table, c *comparison) []Reason {
		for _, r := range c.decisive() {
			if v := c.cell(r); v.State == Estimated {
				return []Reason{{Weight: Undoes, Text: "the figure of " + r.title() + " was not measured: " + v.Why}}
			}
		}
		return nil
	},
	table: func(t *Table) []Finding {
		return inState(t, Estimated, "%s: printed, but not measured, for %s")
	},
}
