package fault

import (
	"strings"
	"testing"
)

func TestListKeepsTheFirstAndCountsTheRest(t *testing.T) {
	var l List
	if err := l.Err(); err != nil || !l.Empty() {
		t.Errorf("an empty list: %v", err)
	}
	for n := range listed + 3 {
		l.Add("f:1: ", "message %d", n)
	}
	err := l.Err()
	if !Is(err, Invalid) || l.Empty() {
		t.Fatalf("error %v", err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != listed+1 || lines[0] != "f:1: message 0" || lines[listed] != "and 3 more" {
		t.Errorf("%d lines: %q … %q", len(lines), lines[0], lines[len(lines)-1])
	}
}
