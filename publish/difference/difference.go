// Package difference writes how far a contender is from its baseline. An estimate and
// its interval always have one notation: percent if all of them are within a factor of
// Limit of no difference, otherwise factors. A metric that is compared by difference has
// its unit.
package difference

import (
	"math"
	"strconv"
	"strings"

	"bakeoff/base/sample"
	"bakeoff/base/unit"
)

// Limit is the ratio up to which differences are written in percent: −33 % to +50 %.
// Beyond it percentages mislead, because −95 % and −97.5 % are a factor of two apart.
const Limit = 1.5

// Rule says so on pages.
const Rule = "Differences are in percent if the estimate and its whole interval are between −33 % and +50 %, and " +
	"factors otherwise (0.5× is half as much)."

// Notation is how an estimate and its interval are written.
type Notation struct {
	Factors bool // "1.66×" instead of "+1.2 %"
	Plain   bool // a difference, not a ratio
	Unit    string
}

// Of returns the notation for values on a scale: an estimate and the bounds of its
// interval. Values that are nil or cannot be shown do not count.
func Of(scale sample.Scale, unitName string, values ...*float64) Notation {
	if scale == sample.Difference {
		return Notation{Unit: unitName, Plain: true}
	}
	n := Notation{}
	for _, v := range values {
		if v != nil && *v > 0 && !math.IsInf(*v, 0) && max(*v, 1 / *v) > Limit {
			n.Factors = true
		}
	}
	return n
}

// Ratios returns the notation of ratios.
func Ratios(values ...*float64) Notation { return Of(sample.Ratio, "", values...) }

// Text writes a value with its sign or as a factor: "+1.2 %", "1.66×", "−3.00 ms".
func (n Notation) Text(v float64) string {
	number, mark := n.numberAndMark(v)
	return number + mark
}

// Unavailable stands where a value is not known.
const Unavailable = "unavailable"

// Bounds writes the bounds of an interval, one by one. If only one is nil, the interval
// has no limit on that side. If both are nil, there is no interval.
func (n Notation) Bounds(lo, hi *float64) (from, to string) {
	from, to = "unbounded", "unbounded"
	if lo == nil && hi == nil {
		return Unavailable, Unavailable
	}
	if lo != nil {
		from = n.Text(*lo)
	}
	if hi != nil {
		to = n.Text(*hi)
	}
	return from, to
}

// Between writes an interval: "−0.6 to +0.9 %", "1.05–1.93×", "+2.00 ms to +4.00 ms".
// If only one bound is nil, the interval has no limit there: "at least 1.05×". If both
// are nil, there is no interval.
func (n Notation) Between(lo, hi *float64) string {
	switch {
	case lo == nil && hi == nil:
		return Unavailable
	case hi == nil:
		return "at least " + n.Text(*lo)
	case lo == nil:
		return "at most " + n.Text(*hi)
	case n.Factors:
		a, _ := n.numberAndMark(*lo)
		return a + "–" + n.Text(*hi)
	case n.Plain:
		return n.Text(*lo) + " to " + n.Text(*hi)
	}
	a, _ := n.numberAndMark(*lo)
	return a + " to " + n.Text(*hi)
}

// Change writes an estimate with its interval: "+1.2 % [+0.5 to +1.9 %]". Too few blocks
// give no interval.
func Change(scale sample.Scale, unitName string, estimate, lo, hi *float64) string {
	if estimate == nil {
		return "–"
	}
	n := Of(scale, unitName, estimate, lo, hi)
	if lo == nil && hi == nil {
		return n.Text(*estimate)
	}
	return n.Text(*estimate) + " [" + n.Between(lo, hi) + "]"
}

// numberAndMark returns the number and what stands behind it.
func (n Notation) numberAndMark(v float64) (number, mark string) {
	switch {
	case n.Plain:
		return Amount(v, n.Unit), ""
	case math.IsNaN(v) || math.IsInf(v, 0) || v <= 0:
		return "–", ""
	case n.Factors:
		return Factor(v), "×"
	}
	p := 100 * (v - 1)
	number = Percentage(p)
	if strings.Trim(number, "0.") == "" {
		return "0", " %"
	}
	return signText(p) + number, " %"
}

// Amount writes a difference in its unit, with its sign: "+1,234 instructions".
func Amount(v float64, unitName string) string {
	return signText(v) + unit.Format(math.Abs(v), unitName)
}

func signText(v float64) string {
	switch {
	case v < 0:
		return "−"
	case v > 0:
		return "+"
	}
	return ""
}

// Percentage writes the size of a percentage with one decimal, two where it is small.
func Percentage(p float64) string {
	p = math.Abs(p)
	if p < 0.095 {
		return strconv.FormatFloat(math.Round(100*p)/100, 'f', -1, 64)
	}
	return strconv.FormatFloat(p, 'f', 1, 64)
}

// Factor writes a positive factor with three digits, or with more where three would
// say that there is no difference: 1.66, 0.0519, 1.004.
func Factor(v float64) string {
	if v >= 1e6 || v < 1e-6 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	decimals := max(2-int(math.Floor(math.Log10(v))), 0)
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	for f, _ := strconv.ParseFloat(s, 64); f == 1 && v != 1 && decimals < 4; f, _ = strconv.ParseFloat(s, 64) {
		decimals++
		s = strconv.FormatFloat(v, 'f', decimals, 64)
	}
	return s
}

// Tick labels a value on an axis: "+2 %", "0.5×".
func (n Notation) Tick(v float64) string {
	switch {
	case n.Plain:
		return n.Text(v)
	case n.Factors:
		return trimNumber(v) + "×"
	}
	p := math.Round(1e7*(v-1)) / 1e5
	return signText(p) + trimNumber(math.Abs(p)) + " %"
}

// trimNumber writes v with four digits at most and without exponent below a million.
func trimNumber(v float64) string {
	if v >= 1e6 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return strconv.FormatFloat(f, 'f', -1, 64)
}
