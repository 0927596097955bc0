package cli

import (
	"fmt"
	"strings"
	"testing"
)

// Control sequences in results do not reach a terminal.
func TestInertKeepsLinesAndNothingElseOfControl(t *testing.T) {
	var out strings.Builder
	const text = "a,b\nsys\x1b[2Jcall,1\n\nlast"
	if n, err := fmt.Fprint(inert{&out}, text); n != len(text) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if want := "a,b\nsys\uFFFD[2Jcall,1\n\nlast"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
