package all

import (
	"slices"
	"testing"
)

func TestListsAreSorted(t *testing.T) {
	var names, loops []string
	for _, w := range Workloads() {
		names = append(names, w.Doc().Name)
	}
	for _, l := range Loops() {
		loops = append(loops, l.Name)
	}
	for _, list := range [][]string{names, loops} {
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%v is not in order, or has a name twice", list)
		}
	}
	for _, l := range loops {
		if !slices.Contains(names, l) {
			t.Errorf("the loop %s has no workload", l)
		}
	}
}
