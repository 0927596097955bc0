package chart

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"bakeoff/base/unit"
)

// Ticks returns round values inside [lo, hi], about n of them and at least
// one, in ascending order, with their step.
func Ticks(lo, hi float64, n int) (values []float64, step float64) {
	span := hi - lo
	if !(span > 0) || math.IsInf(span, 0) {
		return []float64{lo}, 1
	}
	step = roundStep(span / float64(max(n, 1)))
	first := math.Ceil(lo/step - 1e-9)
	for i := 0.0; i < 50; i++ {
		v := (first + i) * step
		if v > hi+step*1e-9 {
			break
		}
		values = append(values, v)
	}
	if len(values) == 0 {
		values = []float64{lo}
	}
	return values, step
}

// roundStep returns the number of the form 1, 2 or 5 times a power of ten
// that is nearest above s.
func roundStep(s float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(s)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*p >= s*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// Labels writes tick values of a unit with one prefix and as many decimals
// as their step needs. The unit is returned apart: it is written once.
func Labels(values []float64, step float64, u string) (labels []string, name string) {
	largest := 0.0
	for _, v := range values {
		largest = max(largest, math.Abs(v))
	}
	scale, name := unit.Prefix(largest, u)
	decimals := 0
	if s := step / scale; s > 0 {
		decimals = min(max(int(math.Ceil(-math.Log10(s)-1e-9)), 0), 9)
	}
	for _, v := range values {
		labels = append(labels, strconv.FormatFloat(v/scale, 'f', decimals, 64))
	}
	return labels, name
}

// TickLabels is Labels for axes that repeat the unit at every tick. Instructions have their
// prefix alone there, because the word is longer than the space between two ticks.
func TickLabels(values []float64, step float64, u string) []string {
	labels, name := Labels(values, step, u)
	name = strings.TrimSuffix(name, unit.Instruction)
	for i := range labels {
		labels[i] = strings.TrimSpace(labels[i] + " " + name)
	}
	return labels
}

// NoUnit is what an axis says whose numbers have no unit.
const NoUnit = "no unit"

// Unitless reports whether a unit is that of plain numbers.
func Unitless(u string) bool { return u == "" || u == "1" }

// AxisText names the unit of an axis and what else there is to say of it: "ms, lower is
// better".
func AxisText(unitName, better string) string {
	return cmp.Or(unitName, NoUnit) + ", " + better
}

// InUnit is what a title adds if the ticks of its figure bear only the prefix of the unit: see
// TickLabels.
func InUnit(u string) string {
	if u == unit.Instruction {
		return ", in " + u + "s"
	}
	return ""
}
