package all

import (
	"slices"
	"testing"
)

func TestListIsSorted(t *testing.T) {
	var names []string
	for _, x := range Tools() {
		names = append(names, x.Doc().Name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("%v is not in order, or has a name twice", names)
	}
}
