//go:build netbsd || freebsd

package bootlog

import (
	"bakeoff/reach/agent/sysctl"
	"bakeoff/reach/wire"
)

// bootLogs are what the kernel recorded.
func bootLogs() []wire.SystemLog { return kernelRecords(sysctl.Read) }
