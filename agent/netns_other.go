//go:build !linux

package agent

import "bakeoff/fault"

func makeNetns(Netns) error {
	return fault.New(fault.Unsupported, "network namespaces exist on Linux only")
}
