//go:build !linux

package agent

import (
	"context"
	"io"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// ContainerInit exists on Linux only.
func ContainerInit([]string, io.Writer) error {
	return fault.New(fault.Unsupported, "container-init exists on Linux only")
}

// Via is the client of ContainerInit.
func Via([]string) error { return fault.New(fault.Unsupported, "via exists on Linux only") }

// ViaHere is Via without a process of its own.
func ViaHere(context.Context, conn.Cmd) (conn.Exit, error) { return conn.Exit{}, Via(nil) }
