package evidence

import (
	"os"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
)

// docs/reference/gates.md has every gate with what it means, and no other.
func TestGatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/gates.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{analysis.OrderGate, analysis.ChangeGate, analysis.DriftGate}
	for _, g := range Gates() {
		names = append(names, g.Name)
	}
	for _, name := range names {
		if doc := Explain(name); doc == "" || !strings.Contains(string(text), "| `"+name+"` | "+doc+" |") {
			t.Errorf("docs/reference/gates.md lacks the row | `%s` | %s |", name, doc)
		}
	}
	if rows := strings.Count(string(text), "\n| `"); rows != len(names) {
		t.Errorf("docs/reference/gates.md has %d rows for %d gates", rows, len(names))
	}
	if Explain("nothing") != "" {
		t.Error("there is no such gate")
	}
}
