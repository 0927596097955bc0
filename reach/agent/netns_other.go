//go:build !linux

package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

func makeNetns(wire.Netns) error {
	return fault.New(fault.Unsupported, "network namespaces exist on Linux only")
}

// Run works on Linux only.
func (Teardown) Run() error {
	return fault.New(fault.Unsupported, "what an environment stands on is removed so on Linux only")
}
