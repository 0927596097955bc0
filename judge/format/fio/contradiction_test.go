package fio

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// A job whose rates or latencies contradict each other gets a warning.
func TestContradictions(t *testing.T) {
	formattest.Contradictions(t, New(), []formattest.Contradiction{
		{Archive: "files.txtar", File: "psync-1.json", Old: `"bw" : 183603,`,
			New:  `"bw" : 83603,`,
			Want: `is 1.8801e+08 in the file, which contradicts its bw in KiB/s`},
		{Archive: "files.txtar", File: "psync-1.json", Old: `"max" : 6557180,`,
			New:  `"max" : 6557,`,
			Want: `of clat_ns of job`},
		{Archive: "files.txtar", File: "psync-1.json", Old: `"iops" : 45900.793651,`,
			New:  `"iops" : 25900.793651,`,
			Want: `iops of job`},
	})
}
