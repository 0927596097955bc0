package all

import (
	"slices"
	"testing"

	"bakeoff/workload/loops"
)

func TestListsAreSorted(t *testing.T) {
	var names, parts []string
	for _, w := range Workloads() {
		names = append(names, w.Doc().Name)
	}
	for _, l := range loops.All() {
		parts = append(parts, l.Name)
	}
	for _, list := range [][]string{names, parts} {
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%v is not in order, or has a name twice", list)
		}
	}
	for _, l := range parts {
		if !slices.Contains(names, l) {
			t.Errorf("the loop %s has no workload", l)
		}
	}
}
