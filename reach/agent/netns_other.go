//go:build !linux

package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

func makeNetns(wire.Netns) error {
	return fault.New(fault.Unsupported, "network namespaces exist on Linux only")
}

// Run fails: it exists on Linux only.
func (Teardown) Run() error {
	return fault.New(fault.Unsupported, "teardown exists on Linux only")
}
