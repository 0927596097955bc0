package main

import (
	"strings"
	"testing"
)

// The tables have their rows, and show what the gates promise: large problems are
// detected, and steady runs pass.
func TestTables(t *testing.T) {
	var out strings.Builder
	s := study{replays: 20, seed: 1, out: &out}
	s.steady()
	s.unsteady()
	s.trends()
	for _, line := range []string{"reference", "20 % in the first trial of a block", "noise of a slice"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
	steps := 0
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "3 % ") && strings.HasSuffix(strings.TrimSpace(line), "100.0 (83.2–100.0)") &&
			strings.Contains(line, "  0.0 (0.0–16.8)") {
			steps++
		}
	}
	if steps != 1 {
		t.Errorf("a step of 50 %% in noise of 3 %% is not always detected, or noise alone is:\n%s", out.String())
	}
}
