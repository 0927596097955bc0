package manifest

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestKeepLeavesTheCellsThatAreNamed(t *testing.T) {
	names := func(l *Lab) (out []string) {
		for _, c := range l.Cells {
			out = append(out, c.Name)
		}
		return out
	}
	l := &Lab{Path: "lab.yaml", Cells: []Cell{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	if err := l.Keep(nil); err != nil || len(l.Cells) != 3 || l.Only != nil {
		t.Errorf("no names: %v, %v, only %v", err, names(l), l.Only)
	}
	if err := l.Keep([]string{"c", "a", "c"}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(names(l), want) || !slices.Equal(l.Only, want) {
		t.Errorf("cells %v, only %v, want %v in the lab file's order", names(l), l.Only, want)
	}
	err := l.Keep([]string{"b"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "a or c") {
		t.Errorf("a cell that is gone: %v", err)
	}
}
