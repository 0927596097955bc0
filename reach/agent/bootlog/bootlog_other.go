//go:build !linux && !netbsd && !freebsd

package bootlog

import "bakeoff/reach/wire"

// bootLogs are the messages of the kernel.
func bootLogs() []wire.SystemLog { return []wire.SystemLog{printed("dmesg", "dmesg")} }
