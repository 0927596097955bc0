package probe

import (
	"strconv"
	"strings"
)

// parseWait reads the schedstat of a thread (Linux, Documentation/scheduler/sched-stats.rst):
// nanoseconds on a CPU, nanoseconds ready to run without one, and the number of time slices.
func parseWait(text string) (nanoseconds uint64, ok bool) {
	f := strings.Fields(text)
	if len(f) != 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(f[1], 10, 64)
	return n, err == nil
}
