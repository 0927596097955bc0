//go:build !linux

package container

import (
	"context"
	"io"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Init exists on Linux only.
func Init([]string, io.Writer) error {
	return fault.New(fault.Unsupported, "container-init exists on Linux only")
}

// Via is the client of Init.
func Via([]string) error { return fault.New(fault.Unsupported, "via exists on Linux only") }

// ViaHere is Via without a process of its own.
func ViaHere(context.Context, conn.Cmd) (conn.Exit, error) { return conn.Exit{}, Via(nil) }

// Enter fails: cgroups and namespaces exist on Linux only.
func Enter([]string) error {
	return fault.New(fault.Unsupported, "enter: cgroups and namespaces exist on Linux only")
}
