package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

// runStart refuses to start a program that outlives the call.
func runStart(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported,
		"start: programs that continue to run after the command are not supported on Windows"))
}
