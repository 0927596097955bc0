//go:build !amd64

package kvm

// tscKHz is 0: the processor has no time stamp counter that a guest would be
// told of.
func tscKHz() int64 { return 0 }
