package lists

import (
	"fmt"
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
