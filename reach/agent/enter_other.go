//go:build !linux

package agent

import "bakeoff/base/fault"

// Enter is what only Linux can do: control groups and namespaces are its own.
func Enter([]string) error {
	return fault.New(fault.Unsupported, "enter: control groups and namespaces exist on Linux only")
}
