//go:build !linux

package agent

import "bakeoff/base/fault"

func makeRoot(Root) error {
	return fault.New(fault.Unsupported, "overlay mounts exist on Linux only")
}
