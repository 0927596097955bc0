// Package lists makes lists of other lists, where package slices of the standard
// library has no function for it.
package lists

import (
	"slices"
	"time"
)

// Map returns what f makes of each item; nil of an empty list.
func Map[E, T any](items []E, f func(E) T) (out []T) {
	for _, x := range items {
		out = append(out, f(x))
	}
	return out
}

// Filter returns the items that f is true of, in a list of their own; nil if
// there are none.
func Filter[E any](items []E, f func(E) bool) (out []E) {
	for _, x := range items {
		if f(x) {
			out = append(out, x)
		}
	}
	return out
}

// Find returns the first item that f is true of.
func Find[E any](items []E, f func(E) bool) (item E, found bool) {
	for _, x := range items {
		if f(x) {
			return x, true
		}
	}
	return item, false
}

// Count returns of how many items f is true.
func Count[E any](items []E, f func(E) bool) (n int) {
	for _, x := range items {
		if f(x) {
			n++
		}
	}
	return n
}

// Sum returns the sum of what f makes of each item, added in their order.
func Sum[E any, N int | int64 | uint64 | uintptr | float64 | time.Duration](items []E, f func(E) N) (sum N) {
	for _, x := range items {
		sum += f(x)
	}
	return sum
}

// Index returns the items by their keys; the last of those with one key. It never
// returns nil.
func Index[E any, K comparable](items []E, key func(E) K) map[K]E {
	out := make(map[K]E, len(items))
	for _, x := range items {
		out[key(x)] = x
	}
	return out
}

// Set returns the keys of the items as a set. It never returns nil.
func Set[E any, K comparable](items []E, key func(E) K) map[K]bool {
	out := make(map[K]bool, len(items))
	for _, x := range items {
		out[key(x)] = true
	}
	return out
}

// AddNew returns items with those of more that it does not have yet, each once.
func AddNew[E comparable](items []E, more ...E) []E {
	for _, x := range more {
		if !slices.Contains(items, x) {
			items = append(items, x)
		}
	}
	return items
}

// Inner returns the map at a key of a map of maps, which it creates if there is none.
func Inner[M ~map[A]map[B]V, A, B comparable, V any](outer M, key A) map[B]V {
	if outer[key] == nil {
		outer[key] = map[B]V{}
	}
	return outer[key]
}
