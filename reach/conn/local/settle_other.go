//go:build !linux

package local

// Settle does nothing: the controller's CPUs cannot be set on this system.
func Settle([]int) error { return nil }
