package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

// runTerminal is `terminal -- CMD…`, which Windows lacks.
func runTerminal(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported, "terminal: bakeoff opens no terminals on Windows"))
}
