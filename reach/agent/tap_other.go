//go:build !linux

package agent

import (
	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

func runTap(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported, "tap devices exist on Linux only"))
}
