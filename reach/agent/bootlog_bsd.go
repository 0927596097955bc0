//go:build netbsd || freebsd

package agent

import (
	"bakeoff/reach/wire"
)

// bootLogs are what the kernel recorded.
func bootLogs() []wire.SystemLog { return kernelRecords(kernel{}.Setting) }
