//go:build !linux

package agent

import (
	"runtime"

	"bakeoff/base/fault"
)

func runInit(c call) int {
	return c.fail(fault.New(fault.Unsupported, "init: the agent is not the init of a %s guest", runtime.GOOS))
}
