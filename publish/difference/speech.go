package difference

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/sample"
)

// Speech is how differences of a metric are put into words.
type Speech struct {
	Less, More string // words for a ratio below and above 1: "slower", "faster"
	verb       string // before a percentage or a factor: "costs ", or ""
	above      string // after a factor above 1, "as long"
	below      string // after a factor below 1
	inverse    bool   // a ratio below 1 is expressed the other way round: "6 times as fast"
	takes      string // before a factor above 1
}

// Speak chooses words by what a metric counts: rates and times are fast or slow, costs of a
// unit of work are high or low.
func Speak(name, unitName string, better sample.Better) Speech {
	switch {
	case IsCost(name):
		return Speech{Less: "less", More: "more", verb: "costs ", takes: "costs ", above: "as much", below: "as much"}
	case strings.HasSuffix(unitName, "/s") && better == sample.Higher:
		noun := "rate"
		if slices.Contains([]string{"throughput", "bandwidth", "speed"}, name) {
			noun = name
		}
		return Speech{Less: "slower", More: "faster", above: "the " + noun, below: "of the " + noun}
	case (unitName == "s" || strings.HasPrefix(unitName, "s/")) && better == sample.Lower:
		return Speech{Less: "faster", More: "slower", takes: "takes ", above: "as long", below: "as fast", inverse: true}
	}
	return Speech{Less: "less", More: "more", above: "as much", below: "as much"}
}

// IsCost reports whether a metric is spent on a unit of work: CPU time, context switches,
// joules.
func IsCost(name string) bool {
	return strings.Contains(name, "-per-") || strings.HasPrefix(name, "cpu-") || strings.Contains(name, "joule")
}

// Direction is the word for a ratio.
func (w Speech) Direction(ratio float64) string {
	if ratio > 1 {
		return w.More
	}
	return w.Less
}

// Say puts a value into words: "3.1 % slower", "takes 1.66 times as long", "6.00 times as
// fast".
func (w Speech) Say(n Notation, v float64) string { return w.sayDifference(n, v, "") }

// Bound puts the only bound of an interval into words. below means that it is the lower one.
func (w Speech) Bound(n Notation, v float64, below bool) string {
	return w.sayDifference(n, v, w.limitWords(n, v, below))
}

func (w Speech) sayDifference(n Notation, v float64, limit string) string {
	switch {
	case n.Plain:
		return "a difference of " + limit + n.Text(v)
	case n.Factors && v > 1:
		return w.takes + limit + w.Short(n, v)
	}
	return w.verb + limit + w.Short(n, v)
}

// Short is a value in a column of a table: "+3.1 %", "1.66 times as long", "6.00 times as
// fast", "24.3 % of the throughput"; in words where a sign would be ambiguous.
func (w Speech) Short(n Notation, v float64) string {
	switch {
	case n.Plain || !isUsable(v):
		return n.Text(v)
	case !n.Factors:
		return w.Percent(v)
	}
	number, after := w.factorWords(v, v)
	if v > 1 {
		return number + after + " " + w.above
	}
	return number + after + " " + w.below
}

// Column is Short with a sign instead of a word where a value is in percent.
func (w Speech) Column(n Notation, v float64) string {
	if n.Factors && isUsable(v) {
		return w.Short(n, v)
	}
	return n.Text(v)
}

func isUsable(v float64) bool { return v > 0 && !math.IsInf(v, 0) && !math.IsNaN(v) }

// factorWords writes a factor in words, with the notation of the estimate v.
func (w Speech) factorWords(x, v float64) (number, after string) {
	switch {
	case v > 1:
		return Factor(x), " times"
	case w.inverse:
		return Factor(1 / x), " times"
	}
	return strings.TrimSuffix(significant(100*x), "."), " %"
}

func significant(v float64) string { return strconv.FormatFloat(round3(v), 'f', -1, 64) }

// round3 rounds to three digits.
func round3(v float64) float64 {
	f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return f
}

// Percent is "3.1 % slower".
func (w Speech) Percent(ratio float64) string {
	return Percentage(100*(ratio-1)) + " % " + w.Direction(ratio)
}

// limitWords is "at least " or "at most ": of the size of a percentage, which has a direction, and
// of a factor or a difference itself.
func (w Speech) limitWords(n Notation, v float64, below bool) string {
	if !n.Plain && v < 1 && (!n.Factors || w.inverse) {
		below = !below
	}
	if below {
		return "at least "
	}
	return "at most "
}

// Between writes an interval after its estimate v: "1.05–1.93 times", "0.5–5.3 %" where the
// direction is that of the estimate, "0.5 % slower to 1.2 % faster" where it is not.
func (w Speech) Between(n Notation, lo, hi *float64, v float64) string {
	switch {
	case lo == nil && hi == nil || n.Plain:
		return n.Between(lo, hi)
	case n.Factors:
		return w.factors(lo, hi, v)
	case lo == nil:
		return w.limitWords(n, *hi, false) + w.Percent(*hi)
	case hi == nil:
		return w.limitWords(n, *lo, true) + w.Percent(*lo)
	case w.Direction(*lo) != w.Direction(*hi):
		return w.Percent(*lo) + " to " + w.Percent(*hi)
	}
	a, b := *lo, *hi
	if b <= 1 { // the smaller ratio is the larger difference
		a, b = b, a
	}
	unit := " %"
	if w.Direction(a) != w.Direction(v) {
		unit += " " + w.Direction(a)
	}
	return Percentage(100*(a-1)) + "–" + Percentage(100*(b-1)) + unit
}

// Change is a difference with its interval as the function Change writes it, with factors in words:
// "6.00 times as fast [5.95–6.10 times]".
func (w Speech) Change(scale sample.Scale, unitName string, estimate, lo, hi *float64) string {
	n := Of(scale, unitName, estimate, lo, hi)
	switch {
	case estimate == nil || !n.Factors || !isUsable(*estimate):
		return Change(scale, unitName, estimate, lo, hi)
	case lo == nil && hi == nil:
		return w.Column(n, *estimate)
	}
	return w.Column(n, *estimate) + " [" + w.Between(n, lo, hi, *estimate) + "]"
}

// factors writes an interval of factors in the same way as its estimate v.
func (w Speech) factors(lo, hi *float64, v float64) string {
	if v <= 1 && w.inverse {
		lo, hi = hi, lo
	}
	var from, to, after string
	if lo != nil {
		from, after = w.factorWords(*lo, v)
	}
	if hi != nil {
		to, after = w.factorWords(*hi, v)
	}
	switch {
	case hi == nil:
		return "at least " + from + after
	case lo == nil:
		return "at most " + to + after
	}
	return from + "–" + to + after
}

// Level is the coverage of intervals with an error rate, "95 %": in whole percent, rounded
// down, so that it is never more than the intervals have. JSON has the exact rate.
func Level(alpha float64) string {
	level := math.Floor(100*(1-alpha) + 1e-9)
	if level >= 99 {
		level = math.Floor(1000*(1-alpha)+1e-9) / 10
	}
	return strconv.FormatFloat(level, 'f', -1, 64) + " %"
}
