package audit

import (
	"fmt"
	"strings"
)

// inState returns a function that finds the cells of a column in one state, and
// reports their rows with the text says.
func inState(s State, says string) func(*Table, *Column) []string {
	return func(t *Table, col *Column) []string {
		var rows, whys []string
		for i := range t.Rows {
			r := &t.Rows[i]
			v := r.Values[col.Name]
			if v.State != s {
				continue
			}
			name := r.titleOrName()
			if v.Known() {
				name += " (" + valueText(v, col.Unit) + ")"
			}
			rows = append(rows, name)
			if len(whys) == 0 || whys[len(whys)-1] != v.Why {
				whys = append(whys, v.Why)
			}
		}
		if len(rows) == 0 {
			return nil
		}
		return oneFinding("%s: %s %s: %s", col.titleOrName(), says, shortened(rows), shortened(whys))
	}
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
	Doc: "The article does not print a number that the claim needs, for example because its chart has no numbers, " +
		"or because a test failed. A claim without its figures cannot be checked. However, if the claim says that " +
		"a row is the best or the worst, the printed rows can still contradict the claim.",
	claim: func(t *Table, c *comparison) []Reason {
		var gone []string
		needed := false
		for i, r := range c.rows {
			if v := c.cellOf(r); !v.Known() {
				gone = append(gone, r.titleOrName()+" ("+v.Why+")")
				needed = needed || i == 0 || c.Relation != "best" && c.Relation != "worst"
			}
		}
		switch {
		case len(gone) == 0:
			return nil
		case needed || c.outcome.rival == nil:
			return because(Blinds, "no figure is printed for %s", shortened(gone))
		}
		return because(Blinds, "the claim includes %s, for which no figure is printed", shortened(gone))
	},
	column: inState(Missing, "nothing is printed for"),
}

var croppedCheck = Check{
	Name: "cropped",
	Doc: "A bar in a chart is cut off, so its length cannot be read. The check uses the figure of such a bar only if " +
		"the article prints the number. The chart still misleads readers who compare the lengths of the bars.",
	claim: func(t *Table, c *comparison) []Reason {
		for _, r := range c.rows {
			if v := c.cellOf(r); v.State == Cropped && v.Known() {
				return because(Qualifies, "the bar of %s is cropped: its figure is taken from the text", r.titleOrName())
			}
		}
		return nil
	},
	column: inState(Cropped, "the bar is cropped for"),
}

var estimatedCheck = Check{
	Name: "estimated",
	Doc: "A printed figure was extrapolated or computed by hand instead of measured. A claim about such a figure " +
		"rests on an assumption.",
	claim: func(t *Table, c *comparison) []Reason {
		for _, r := range c.decisive() {
			if v := c.cellOf(r); v.State == Estimated {
				return because(Undoes, "the figure of %s was not measured: %s", r.titleOrName(), v.Why)
			}
		}
		return nil
	},
	column: inState(Estimated, "printed, but not measured, for"),
}
