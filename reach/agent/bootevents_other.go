//go:build !linux

package agent

import (
	"io"

	"bakeoff/base/fault"
)

func startBootEvents() error {
	return fault.New(fault.Unsupported, "boot-events records processes on Linux only")
}

func writeBootEvents(io.Writer) error {
	return fault.New(fault.Unsupported, "boot-events reads the records of Linux only")
}
