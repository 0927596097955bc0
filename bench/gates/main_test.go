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
	s.printSteady()
	s.unsteady()
	s.printTrends()
	s.printStalls()
	for _, line := range []string{"reference", "20 % in the first trial of a block", "noise of a slice"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		_, row, _ := strings.Cut(line, " ms")
		gated := strings.Count(row, "100.0 (15.8–100.0)")
		switch {
		case strings.HasPrefix(line, "2 % held back") && gated != 4:
			t.Errorf("a stall is not detected: %s", line)
		case strings.Contains(line, "pauses of 40 ms"): // in a closed loop nothing tells them from a stall
		case strings.Contains(line, ", 0.1 ms ") || strings.Contains(line, "pauses of ") || strings.Contains(line, "for 5 %"):
			if strings.Count(row, "0.0 (0.0–84.2)") != 4 {
				t.Errorf("a slow server is gated: %s", line)
			}
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
