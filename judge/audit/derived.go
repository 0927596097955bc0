package audit

import (
	"fmt"
	"math"
	"slices"
)

// derivation is a derived column computed again, row by row.
type derivation struct {
	formula *formula // nil if the column has none
	cells   int      // rows with a printed result and all operands
	off     []string
	// excess holds printed/recomputed − 1 of the rows that are off.
	excess  []float64
	implied []string // rows that have a result without all operands
}

// rederive computes col again from the printed figures. A row is off where no
// operands that round to the printed ones give a result that rounds to the
// printed one.
func (t *Table) rederive(col *Column) derivation {
	return computedOnce(&t.derivations, col, t.deriveColumn)
}

func (t *Table) deriveColumn(col *Column) (d derivation) {
	if col.Formula == "" {
		return d
	}
	f, err := parseFormula(col.Formula, t)
	if err != nil {
		return d // Parse has refused it
	}
	d.formula = f
	for i := range t.Rows {
		r := &t.Rows[i]
		got := r.Values[col.Name]
		if !got.Known() {
			continue
		}
		want := f.evaluate(t.cellGetter(r, "", 0))
		if math.IsNaN(want.lo) {
			if text := t.implies(f, r, got); text != "" {
				d.implied = append(d.implied, text)
			}
			continue
		}
		d.cells++
		// A difference in the last bit of floating point does not count.
		slack := 1e-9 * math.Abs(got.Value)
		if got.Hi+slack < want.lo || got.Lo-slack > want.hi {
			d.off = append(d.off, fmt.Sprintf("%s prints %s, but the columns give %s", r.titleOrName(), numberText(got.Value),
				numberText((want.lo+want.hi)/2)))
			d.excess = append(d.excess, 2*got.Value/(want.lo+want.hi)-1)
		}
	}
	return d
}

// cellGetter reads cells for a formula in row r; the column named hole has the
// value fill instead.
func (t *Table) cellGetter(r *Row, hole string, fill float64) func(column, row string) interval {
	return func(column, row string) interval {
		if row == "" && column == hole && hole != "" {
			return interval{fill, fill}
		}
		from := r
		if row != "" {
			from = t.rowNamed(row)
		}
		return from.Values[column].interval()
	}
}

// implies solves for the one missing operand of a printed result. The formula
// must be linear in that operand.
func (t *Table) implies(f *formula, r *Row, got Cell) string {
	var gone []string
	for _, name := range f.ownColumns() {
		if !r.Values[name].Known() && !slices.Contains(gone, name) {
			gone = append(gone, name)
		}
	}
	if len(gone) != 1 {
		return ""
	}
	var at [3]float64
	for i := range at {
		iv := f.evaluate(t.cellGetter(r, gone[0], float64(i)))
		at[i] = (iv.lo + iv.hi) / 2
	}
	slope := at[1] - at[0]
	if slope == 0 || math.IsNaN(slope) || math.Abs(at[2]-at[1]-slope) > 1e-6*math.Abs(slope) {
		return ""
	}
	v := (got.Value - at[0]) / slope
	text := fmt.Sprintf("%s has no %s, yet %s counts it as %s", r.titleOrName(), t.columnNamed(gone[0]).titleOrName(),
		numberText(got.Value),
		numberText(v))
	for _, other := range t.Rows {
		if o := other.Values[gone[0]]; o.Known() && o.Lo <= v && v <= o.Hi {
			text += ", the figure of " + other.titleOrName()
			break
		}
	}
	return text
}

// meanOfRatios reports whether all results that are off are above the
// recomputed ones, as means of ratios are above ratios of means, and the
// spread of the divisor that the largest of them implies.
//
// For independent runs E[1/T]·E[T] ≈ 1 + CV² (Taylor, second order; that it is
// at least 1 is Jensen's inequality).
func (d derivation) meanOfRatios() (cv float64, ok bool) {
	if d.formula.op != '/' || len(d.off) == 0 || len(d.off) < (d.cells+1)/2 {
		return 0, false
	}
	most := slices.Max(d.excess)
	return math.Sqrt(max(most, 0)), slices.Min(d.excess) > 0
}

var formulaCheck = Check{
	Name: "derived",
	Doc: "The check computes a derived column again from the printed columns, and allows for their rounding. If a " +
		"computed and a printed figure disagree, the column does not follow its formula. If a quotient is too high " +
		"in every row, the author averaged ratios instead of dividing averages. For a constant c and a time t that " +
		"differs between runs, the mean of c/t is higher than c divided by the mean of t (Jensen's inequality). " +
		"The excess shows how much the runs differed. If a figure is derived from a value that was not measured, " +
		"the figure was invented.",
	claim: func(t *Table, c *comparison) []Reason {
		d := t.rederive(c.column)
		if len(d.off) == 0 {
			return nil
		}
		text := fmt.Sprintf("%s is not %s of the printed columns in %d of %d rows", c.column.titleOrName(), c.column.Formula,
			len(d.off), d.cells)
		if again := t.recomputed(d.formula, c); again != "" {
			text += "; " + again
		}
		w := Undoes
		if t.sameOrder(d.formula, c) {
			w = Qualifies
		}
		return []Reason{{Weight: w, Text: text}}
	},
	column: func(t *Table, col *Column) (out []string) {
		d := t.rederive(col)
		if len(d.off) > 0 {
			text := fmt.Sprintf("%s does not match its formula (%s) in %d of %d rows: %s", col.titleOrName(), col.Formula,
				len(d.off), d.cells, d.off[0])
			if cv, ok := d.meanOfRatios(); ok {
				text += fmt.Sprintf("; all are too high, which suggests means of the ratios of single runs instead of ratios "+
					"of the printed means; the runs of a row then differed by up to %s (coefficient of variation)", percent(cv))
			}
			out = append(out, text)
		}
		return append(out, d.implied...)
	},
}

// recomputed returns how the rows of a claim compare when their values are
// computed from the printed columns.
func (t *Table) recomputed(f *formula, c *comparison) string {
	rows := c.decisive()
	if len(rows) != 2 {
		return ""
	}
	var v [2]float64
	for i, r := range rows {
		iv := f.evaluate(t.cellGetter(r, "", 0))
		v[i] = (iv.lo + iv.hi) / 2
	}
	if math.IsNaN(v[0]) || math.IsNaN(v[1]) {
		return ""
	}
	return fmt.Sprintf("they give %s %s, %s %s", rows[0].titleOrName(), numberText(v[0]), rows[1].titleOrName(),
		numberText(v[1]))
}

// sameOrder reports whether the recomputed column says of a claim about order
// what the printed one says.
func (t *Table) sameOrder(f *formula, c *comparison) bool {
	sign := map[string]float64{"faster": 1, "best": 1, "slower": -1, "worst": -1}[c.Relation]
	if c.column.Better == "lower" {
		sign = -sign
	}
	if sign == 0 || !c.outcome.holds {
		return false
	}
	a := f.evaluate(t.cellGetter(c.rows[0], "", 0))
	for _, r := range c.rows[1:] {
		b := f.evaluate(t.cellGetter(r, "", 0))
		if !(sign*(a.lo+a.hi-b.lo-b.hi) > 0) {
			return false
		}
	}
	return true
}
