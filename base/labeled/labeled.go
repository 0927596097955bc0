// Package labeled reads what programs print for people: one labeled line at a time.
package labeled

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Text is the output of a program for people.
type Text []byte

// Line returns the rest of the one line that begins with label, without
// surrounding blanks. Two such lines are an error.
func (t Text) Line(label string) (string, error) {
	found, rest := false, ""
	for line := range bytes.Lines(t) {
		after, ok := strings.CutPrefix(strings.TrimSpace(string(line)), label)
		switch {
		case !ok:
		case found:
			return "", fmt.Errorf("two lines begin with %q", label)
		default:
			found, rest = true, strings.TrimSpace(after)
		}
	}
	if !found {
		return "", fmt.Errorf("no line begins with %q", label)
	}
	return rest, nil
}

// Has reports whether a line begins with label, which may follow blanks.
func (t Text) Has(label string) bool {
	for line := range bytes.Lines(t) {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte(label)) {
			return true
		}
	}
	return false
}

// Number returns the number right after label, as Line finds it. The number
// must end in suffix, which is removed.
func (t Text) Number(label, suffix string) (float64, error) {
	rest, err := t.Line(label)
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(rest, " ")
	word, ok := strings.CutSuffix(word, suffix)
	v, err := Decimal(word)
	switch {
	case err == nil && ok:
		return v, nil
	case suffix == "":
		return 0, fmt.Errorf("%s %.40q: not a number", label, rest)
	}
	return 0, fmt.Errorf("%s %.40q: not a number followed by %q", label, rest, suffix)
}

// Decimal parses a number as programs print it: no hexadecimal, no grouping, no
// infinity.
func Decimal(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "_xXpPnN") || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%.40q is not a number", s)
	}
	return v, nil
}

// Quantity parses a number that is followed at once by one of units, such as "1.5ms". It
// returns the number times the factor of the unit.
func Quantity(word string, units map[string]float64) (float64, error) {
	i := strings.LastIndexAny(word, "0123456789.") + 1
	factor, ok := units[word[i:]]
	v, err := Decimal(word[:i])
	if err != nil || !ok {
		return 0, fmt.Errorf("%.40q is not a number with a unit", word)
	}
	return v * factor, nil
}

// HalfDigit is half a unit of the last digit of a number that is written with decimals and perhaps followed by a
// unit: 0.05 for "4.7s". Rounding changed the number by no more.
func HalfDigit(word string) float64 {
	_, decimals, _ := strings.Cut(word[:strings.LastIndexAny(word, "0123456789.")+1], ".")
	return 0.5 * math.Pow10(-len(decimals))
}

// Rounding is HalfDigit as a share of the number: 0.011 for "4.7s". It is infinite for 0 and for what is no number.
func Rounding(word string) float64 {
	v, err := Decimal(word[:strings.LastIndexAny(word, "0123456789.")+1])
	if err != nil {
		return math.Inf(1)
	}
	return HalfDigit(word) / math.Abs(v)
}
