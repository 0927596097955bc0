package lists

import "iter"

// Groups has lists of items by their keys. Its zero value is empty.
type Groups[K comparable, E any] struct {
	keys  []K // in the order in which they were added
	items map[K][]E
}

// Add adds an item to the list of a key.
func (g *Groups[K, E]) Add(key K, item E) {
	if g.items == nil {
		g.items = map[K][]E{}
	}
	if g.items[key] == nil {
		g.keys = append(g.keys, key)
	}
	g.items[key] = append(g.items[key], item)
}

// Keys returns the keys in the order in which they were added.
func (g Groups[K, E]) Keys() []K { return g.keys }

// Of returns the items of a key; nil if there are none.
func (g Groups[K, E]) Of(key K) []E { return g.items[key] }

// All yields the keys in the order in which they were added, each with its items.
func (g Groups[K, E]) All() iter.Seq2[K, []E] {
	return func(yield func(K, []E) bool) {
		for _, key := range g.keys {
			if !yield(key, g.items[key]) {
				return
			}
		}
	}
}
