package lists

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestLists(t *testing.T) {
	numbers := []int{1, 2, 3, 4}
	even := func(n int) bool { return n%2 == 0 }
	square := func(n int) string { return fmt.Sprint(n * n) }
	if got := Map(numbers, square); !slices.Equal(got, []string{"1", "4", "9", "16"}) {
		t.Errorf("Map: %v", got)
	}
	if got := Filter(numbers, even); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("Filter: %v", got)
	}
	if got, ok := Find(numbers, even); got != 2 || !ok {
		t.Errorf("Find: %v, %v", got, ok)
	}
	if got, ok := Find(numbers[:1], even); got != 0 || ok {
		t.Errorf("Find in a list without it: %v, %v", got, ok)
	}
	if got := Count(numbers, even); got != 2 {
		t.Errorf("Count: %v", got)
	}
	if got := Sum(numbers, func(n int) float64 { return float64(n) / 2 }); got != 5 {
		t.Errorf("Sum: %v", got)
	}
	parity := func(n int) int { return n % 2 }
	if got := Index(numbers, parity); !maps.Equal(got, map[int]int{0: 4, 1: 3}) {
		t.Errorf("Index: %v", got)
	}
	if got := Set(numbers[:1], parity); !maps.Equal(got, map[int]bool{1: true}) {
		t.Errorf("Set: %v", got)
	}
	if Index([]int(nil), parity) == nil || Set([]int(nil), parity) == nil {
		t.Error("the maps of an empty list should not be nil")
	}
	if Map([]int(nil), even) != nil || Filter(numbers[:1], even) != nil {
		t.Error("an empty list should be nil")
	}
}

// The items of a filtered list are not those of the list itself.
func TestFilterCopies(t *testing.T) {
	numbers := []int{1, 2}
	Filter(numbers, func(int) bool { return true })[0] = 9
	if numbers[0] != 1 {
		t.Error("Filter returned the list itself")
	}
}

func TestAddNew(t *testing.T) {
	if got := AddNew([]int{1}, 2, 1, 2, 3); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
	if got := AddNew[int](nil); got != nil {
		t.Errorf("nothing added to nothing: %v", got)
	}
}

func TestInner(t *testing.T) {
	all := map[string]map[string]bool{}
	Inner(all, "a")["x"] = true
	Inner(all, "a")["y"] = true
	if len(all) != 1 || !maps.Equal(all["a"], map[string]bool{"x": true, "y": true}) {
		t.Errorf("%v", all)
	}
}

// The keys of groups stay in the order in which they came.
func TestGroups(t *testing.T) {
	var g Groups[string, int]
	if g.Keys() != nil || g.Of("a") != nil {
		t.Error("the zero value is not empty")
	}
	for i, key := range []string{"b", "a", "b", "c"} {
		g.Add(key, i)
	}
	var got []string
	for key, items := range g.All() {
		if key == "c" {
			break
		}
		got = append(got, fmt.Sprint(key, items))
	}
	if !slices.Equal(got, []string{"b[0 2]", "a[1]"}) || !slices.Equal(g.Keys(), []string{"b", "a", "c"}) ||
		!slices.Equal(g.Of("b"), []int{0, 2}) {
		t.Errorf("%v, keys %v", got, g.Keys())
	}
}
