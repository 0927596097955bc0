// Package lists makes lists of other lists, where package slices of the standard
// library has no function for it.
package lists

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
