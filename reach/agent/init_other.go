//go:build !linux && !netbsd && !freebsd

package agent

import (
	"runtime"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/wire"
)

func runInit(c command.Call) int {
	return c.Fail(fault.New(fault.Unsupported, "init: not supported in a %s guest", runtime.GOOS))
}

// bootLogs are the messages of the kernel.
func bootLogs() []wire.SystemLog { return []wire.SystemLog{printed("dmesg", "dmesg")} }

// monotonic is not read on this system.
func monotonic() int64 { return 0 }

// systemFunctions are what a host can call of `serve` in addition: nothing,
// because its environments are set up from outside.
func systemFunctions() map[string]Function { return nil }
