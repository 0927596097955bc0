package main

import (
	"strings"
	"testing"
)

// A history in which a detector alarms before the step, or never, counts as not found. Two such
// histories are equal.
func TestComparePairs(t *testing.T) {
	a := []int{1, 3, 2, tooEarly, notFound, notFound, 4}
	b := []int{2, 2, 2, 5, 7, tooEarly, notFound}
	mine, others, earlier, later := comparePairs(a, b)
	if mine != 1 || others != 2 || earlier != 2 || later != 3 {
		t.Errorf("only the first %d, only the second %d, earlier %d, later %d", mine, others, earlier, later)
	}
}

// The text of delays counts alarms before the step apart from steps that are not found.
func TestDelayText(t *testing.T) {
	for text, delays := range map[string][]int{
		"2\t25.0\t75.0\t75.0\t75.0\t75.0\t0.0":      {1, 2, 2, notFound},
		"never\t25.0\t25.0\t25.0\t25.0\t25.0\t50.0": {1, tooEarly, tooEarly, notFound},
	} {
		if got := delayText(delays); !strings.HasSuffix(got, text) {
			t.Errorf("%q, want %q at the end", got, text)
		}
	}
}
