//go:build !linux

package agent

import "bakeoff/fault"

func makeRoot(Root) error {
	return fault.New(fault.Unsupported, "overlay mounts exist on Linux only")
}
