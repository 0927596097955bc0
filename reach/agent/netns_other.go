//go:build !linux

package agent

import "bakeoff/base/fault"

func makeNetns(Netns) error {
	return fault.New(fault.Unsupported, "network namespaces exist on Linux only")
}

// Run works on Linux only.
func (Teardown) Run() error {
	return fault.New(fault.Unsupported, "what an environment stands on is removed so on Linux only")
}
