//go:build !linux

package local

// Settle does nothing here: the controller's CPUs are not chosen on this
// system.
func Settle([]int) error { return nil }
