package tool

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Text is the output of a program that prints for people.
type Text []byte

// Line returns what follows label in the one line that begins with it, both
// without the blanks around them. A label that comes twice is an error: which
// of them is meant, nobody knows.
func (t Text) Line(label string) (string, error) {
	found, rest := false, ""
	for line := range bytes.Lines(t) {
		after, ok := strings.CutPrefix(strings.TrimSpace(string(line)), label)
		switch {
		case !ok:
		case found:
			return "", fmt.Errorf("%q comes twice", label)
		default:
			found, rest = true, strings.TrimSpace(after)
		}
	}
	if !found {
		return "", fmt.Errorf("there is no line %q", label)
	}
	return rest, nil
}

// Number returns the number right after label, as Line finds it; suffix is
// what must follow it directly.
func (t Text) Number(label, suffix string) (float64, error) {
	rest, err := t.Line(label)
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(rest, " ")
	word, ok := strings.CutSuffix(word, suffix)
	v, err := Decimal(word)
	if err != nil || !ok {
		return 0, fmt.Errorf("%s %.40q is no number%s", label, rest, suffix)
	}
	return v, nil
}

// Decimal reads a number as programs print it: no hexadecimal, no grouping, no
// infinity.
func Decimal(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "_xXpPnN") || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%.40q is no number", s)
	}
	return v, nil
}
