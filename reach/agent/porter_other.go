//go:build !linux

package agent

import (
	"context"
	"io"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Porter is what only Linux can do: environments there share its kernel.
func Porter([]string, io.Writer) error {
	return fault.New(fault.Unsupported, "porter: it is the first process of a Linux namespace")
}

// Via is the other end of Porter.
func Via([]string) error { return fault.New(fault.Unsupported, "via: there are porters on Linux only") }

// ViaHere is Via without a process of its own.
func ViaHere(context.Context, conn.Cmd) (conn.Exit, error) { return conn.Exit{}, Via(nil) }
