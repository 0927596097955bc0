//go:build !linux

package qemu

import "bakeoff/base/fault"

// PID is the process of QEMU on this machine.
func (g *Guest) PID() (int, error) {
	return 0, fault.New(fault.Unsupported, "bakeoff finds the process of QEMU on Linux only")
}
