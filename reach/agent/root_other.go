//go:build !linux

package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

func makeRoot(wire.Root) error {
	return fault.New(fault.Unsupported, "overlay mounts exist on Linux only")
}
