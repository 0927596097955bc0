package guest

import (
	"fmt"
	"strings"
	"testing"
)

// A long trace after the reason does not hide it.
func TestExcerptHasTheReason(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "early %d\n", i)
	}
	b.WriteString("[   1.0] panic: a message of this test\n")
	short := b.String() + "trace\n"
	for i := range 40 {
		fmt.Fprintf(&b, "frame %d\n", i)
	}
	got := Excerpt([]byte(b.String()))
	lines := strings.Split(got, "\n")
	if len(lines) > excerptLines+1 || lines[0] != "[   1.0] panic: a message of this test" ||
		lines[len(lines)-1] != "frame 39" ||
		!strings.Contains(got, "\n…\n") {
		t.Errorf("got %d lines:\n%s", len(lines), got)
	}
	if got := Excerpt([]byte(short)); strings.Count(got, "panic") != 1 || strings.Contains(got, "…") ||
		len(strings.Split(got, "\n")) != excerptLines {
		t.Errorf("got\n%s", got)
	}
	if got := Excerpt(nil); got != "" {
		t.Errorf("got %q", got)
	}
}
