package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// comparison is a claim with the cells that it is about.
type comparison struct {
	*Claim
	column *Column
	rows   []*Row // a first, then those it is compared with
	// outcome is what the printed figures say, without asking whether they
	// can be believed.
	outcome outcome
}

// outcome is what the figures say about a claim.
type outcome struct {
	holds  bool    // the figures agree, as far as they are printed
	opens  bool    // the printed digits do not decide it
	gap    float64 // what decides: the ratio of better to worse, from 1; 0 where there is none
	rival  *Row    // the row that decides
	detail string
}

func compare(t *Table, c *Claim) *comparison {
	cmp := &comparison{Claim: c, column: t.columnNamed(c.Column), rows: []*Row{t.rowNamed(c.A)}}
	switch c.Relation {
	case "best", "worst":
		for i := range t.Rows {
			r := &t.Rows[i]
			if r.Name != c.A && (len(c.Among) == 0 || slices.Contains(c.Among, r.Name)) {
				cmp.rows = append(cmp.rows, r)
			}
		}
	case "above", "below":
	default:
		cmp.rows = append(cmp.rows, t.rowNamed(c.B))
	}
	cmp.outcome = cmp.figures()
	return cmp
}

func (c *comparison) cellOf(r *Row) Cell { return r.Values[c.column.Name] }

// showCell writes a cell as it is printed in reasons.
func (c *comparison) showCell(r *Row) string {
	return r.titleOrName() + " " + valueText(c.cellOf(r), c.column.Unit)
}

func valueText(v Cell, unit string) string {
	switch {
	case !v.Known():
		return "–"
	case v.Hi-v.Lo > 0.02*math.Abs(v.Value):
		return strings.TrimSpace(fmt.Sprintf("%s to %s %s", numberText(v.Lo), numberText(v.Hi), unit))
	}
	return strings.TrimSpace(numberText(v.Value) + " " + unit)
}

// numberText writes a figure with at most six significant digits, and no exponent.
func numberText(v float64) string {
	if math.Abs(v) >= 1e6 {
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.6g", v)
	if strings.Contains(s, "e") {
		s = fmt.Sprintf("%.7f", v)
	}
	return s
}

// timesText writes a ratio with three digits.
func timesText(v float64) string {
	if math.Abs(v) >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	if v < 2 {
		return fmt.Sprintf("%.4g", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// oriented returns the cells of a and b so that more is better.
func (c *comparison) oriented(a, b *Row) (x, y interval) {
	x, y = c.cellOf(a).interval(), c.cellOf(b).interval()
	if c.column.Better == "lower" {
		return interval{-x.hi, -x.lo}, interval{-y.hi, -y.lo}
	}
	return x, y
}

// isAhead reports whether a is better than b for all possible lost digits, and
// whether the printed digits do not decide it.
func (c *comparison) isAhead(a, b *Row) (holds, opens bool) {
	x, y := c.oriented(a, b)
	return x.lo > y.hi, x.lo <= y.hi && x.hi > y.lo
}

// ratioOf returns how many times better a is than b, as the digits allow, and
// for the figures as printed. Both are NaN where a figure is negative: such
// figures have no ratio.
func (c *comparison) ratioOf(a, b *Row) (iv interval, printed float64) {
	x, y := c.cellOf(a), c.cellOf(b)
	if c.column.Better == "lower" {
		x, y = y, x
	}
	if x.Lo < 0 || y.Lo < 0 || y.Hi == 0 {
		return interval{math.NaN(), math.NaN()}, math.NaN()
	}
	if y.Value == 0 {
		return interval{x.Lo / y.Hi, math.Inf(1)}, x.Value / y.Hi // a rounded 0
	}
	return interval{x.Lo / y.Hi, x.Hi / y.Lo}, x.Value / y.Value
}

// gapOf is a ratio from 1 up; 0 where there is none.
func gapOf(ratio float64) float64 {
	switch {
	case math.IsNaN(ratio) || ratio <= 0:
		return 0
	case ratio < 1:
		return 1 / ratio
	}
	return ratio
}

func (c *comparison) figures() outcome {
	for _, r := range c.rows {
		if !c.cellOf(r).Known() && (c.Relation != "best" && c.Relation != "worst" || r == c.rows[0]) {
			return outcome{opens: true}
		}
	}
	a := c.rows[0]
	switch c.Relation {
	case "above", "below":
		return c.against()
	case "best":
		return c.extreme(1)
	case "worst":
		return c.extreme(-1)
	}
	b := c.rows[1]
	iv, mid := c.ratioOf(a, b)
	o := outcome{gap: gapOf(mid), rival: b, detail: c.showCell(a) + ", " + c.showCell(b)}
	switch c.Relation {
	case "faster":
		o.holds, o.opens = c.isAhead(a, b)
	case "slower":
		o.holds, o.opens = c.isAhead(b, a)
	case "equal":
		o.holds = o.gap > 0 && o.gap-1 <= c.equalWithin()
		o.opens = o.gap == 0 || !o.holds && iv.lo <= 1+c.equalWithin() && iv.hi >= 1/(1+c.equalWithin())
	case "ratio":
		o = c.multiple(o, iv, mid)
	}
	return o
}

// equalWithin is the largest share by which equal rows may differ.
func (c *comparison) equalWithin() float64 {
	if c.Within > 0 {
		return c.Within
	}
	return plausible
}

func (c *comparison) against() outcome {
	v := c.cellOf(c.rows[0])
	o := outcome{detail: c.showCell(c.rows[0])}
	if c.Relation == "above" {
		o.holds, o.opens = v.Lo > c.Than, v.Lo <= c.Than && v.Hi > c.Than
		o.gap = gapOf(v.Lo / c.Than)
	} else {
		o.holds, o.opens = v.Hi < c.Than, v.Hi >= c.Than && v.Lo < c.Than
		o.gap = gapOf(c.Than / v.Hi)
	}
	if math.IsInf(o.gap, 1) {
		o.gap = 0 // from nothing, everything is infinitely far
	}
	return o
}

// extreme compares a with the row that comes nearest to it, or surpasses it
// most: sign is 1 for best and -1 for worst.
func (c *comparison) extreme(sign float64) outcome {
	a := c.rows[0]
	o := outcome{holds: true, gap: math.Inf(1), detail: c.showCell(a)}
	nearest := math.Inf(1)
	for _, r := range c.rows[1:] {
		if !c.cellOf(r).Known() {
			continue
		}
		x, y := c.oriented(a, r)
		if lead := sign * (x.lo + x.hi - y.lo - y.hi); lead < nearest {
			nearest, o.rival = lead, r
		}
	}
	if o.rival == nil {
		return outcome{opens: true, detail: o.detail}
	}
	_, mid := c.ratioOf(a, o.rival)
	o.gap = gapOf(mid)
	if sign > 0 {
		o.holds, o.opens = c.isAhead(a, o.rival)
	} else {
		o.holds, o.opens = c.isAhead(o.rival, a)
	}
	o.detail += ", next " + c.showCell(o.rival)
	if !o.holds && !o.opens {
		o.detail = c.showCell(a) + ", but " + c.showCell(o.rival)
	}
	return o
}

// multiple compares with a claimed ratio. "About" allows 5 % of it.
func (c *comparison) multiple(o outcome, iv interval, mid float64) outcome {
	lo, hi, said := c.Ratio*(1-plausible), c.Ratio*(1+plausible), "about "
	switch c.Bound {
	case "least":
		lo, hi, said = c.Ratio, math.Inf(1), "at least "
	case "most":
		lo, hi, said = 0, c.Ratio, "at most "
	}
	o.holds = iv.lo >= lo && iv.hi <= hi
	o.opens = o.gap == 0 || !o.holds && iv.hi >= lo && iv.lo <= hi
	o.detail += fmt.Sprintf(": a ratio of %s, where %s is claimed", timesText(mid), said+numberText(c.Ratio))
	return o
}

var figuresCheck = Check{
	Name: "figures",
	Doc: "Do the printed figures agree with the claim? The check allows for rounding: 46.2 k stands for 46,150 to " +
		"46,250. Figures that show the opposite contradict the claim. A difference that noise can explain " +
		"contradicts no claim.",
	claim: func(t *Table, c *comparison) []Reason {
		o := c.outcome
		switch {
		case o.detail == "":
			return nil // the check missing reports it
		case o.holds:
			return because(Agrees, "printed: %s", o.detail)
		case o.opens:
			return because(Undoes, "the printed figures have too few digits to decide: %s", o.detail)
		case c.Relation != "ratio" && c.Relation != "equal" && o.gap > 0 && o.gap-1 <= plausible:
			return because(Undoes, "the printed figures say the opposite: %s. The difference of %s may be noise", o.detail,
				percent(o.gap-1))
		}
		return because(Refutes, "printed: %s", o.detail)
	},
}

// inScope reports whether a remark about rows and columns concerns the cells
// that decide c.
func (c *comparison) inScope(rows, columns []string) bool {
	if len(columns) > 0 && !slices.Contains(columns, c.column.Name) {
		return false
	}
	return len(rows) == 0 || slices.ContainsFunc(c.decisive(), func(r *Row) bool { return slices.Contains(rows, r.Name) })
}

// decisive are the rows that the verdict on the figures rests on: a, and the
// nearest rival.
func (c *comparison) decisive() []*Row {
	if c.outcome.rival != nil {
		return []*Row{c.rows[0], c.outcome.rival}
	}
	return c.rows[:1]
}
