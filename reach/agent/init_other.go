//go:build !linux && !netbsd && !freebsd

package agent

import (
	"runtime"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
)

func runInit(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported, "init: not supported in a %s guest", runtime.GOOS))
}
