//go:build !linux && !netbsd && !freebsd

package guestinit

import (
	"runtime"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/serve"
)

// Run is the subcommand `init`, which this system does not have.
func Run(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported, "init: not supported in a %s guest", runtime.GOOS))
}

// Functions are what a host can call of `serve` in addition: nothing,
// because its environments are set up from outside.
func Functions() map[string]serve.Function { return nil }
