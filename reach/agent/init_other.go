//go:build !linux && !netbsd && !freebsd

package agent

import (
	"runtime"

	"bakeoff/base/fault"
)

func runInit(c call) int {
	return c.fail(fault.New(fault.Unsupported, "init: not supported in a %s guest", runtime.GOOS))
}
