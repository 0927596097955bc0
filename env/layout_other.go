//go:build !linux

package env

import "runtime"

func layoutOf() (Layout, error) {
	var l Layout
	for c := range runtime.NumCPU() {
		l.CPUs = append(l.CPUs, c)
	}
	if len(l.CPUs) == 0 {
		return l, errNoCPU
	}
	return l, nil
}

// Settle does nothing here: the controller's CPUs are not chosen on this
// system.
func Settle([]int) error { return nil }
