package main

import "testing"

func TestPowerIsExplainedInShortSentences(t *testing.T) {
	for n, want := range map[int]string{
		1: "A look detects a difference of the size in DETECTS with power 80 %.",
		6: "A look detects a difference of the size in DETECTS with power 80 % if none of the 6 primary comparisons was " +
			"decided before. Each decision raises the power for the others.",
	} {
		if got := powerText(n); got != want {
			t.Errorf("for %d comparisons: %q, want %q", n, got, want)
		}
	}
}
