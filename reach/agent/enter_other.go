//go:build !linux

package agent

import "bakeoff/base/fault"

// Enter fails: cgroups and namespaces exist on Linux only.
func Enter([]string) error {
	return fault.New(fault.Unsupported, "enter: cgroups and namespaces exist on Linux only")
}
