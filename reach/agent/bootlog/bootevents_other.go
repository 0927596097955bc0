//go:build !linux

package bootlog

import (
	"io"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

func startBootEvents() error { return command.LinuxOnly("boot-events records processes") }

func writeBootEvents(io.Writer) error {
	return fault.New(fault.Unsupported, "boot-events reads the records of Linux only")
}
