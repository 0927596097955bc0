//go:build !linux

package agent

import (
	"bakeoff/reach/wire"
)

// bootLogs are the records of a kernel with tslog(4), and the messages of any other.
func bootLogs() []wire.SystemLog {
	log := printed("tslog", "sysctl", "-n", "debug.tslog")
	if log.Error == "" {
		// Without these the processes or the frequency of the counter are unknown.
		for _, more := range []string{"debug.tslog_user", "machdep.tsc_freq"} {
			log.Text += printed(log.Source, "sysctl", "-n", more).Text
		}
	}
	return []wire.SystemLog{log, printed("dmesg", "dmesg")}
}
