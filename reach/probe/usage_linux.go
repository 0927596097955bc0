package probe

import "golang.org/x/sys/unix"

const maxRSSUnit = 1024 // getrusage(2): kilobytes

// threadSeconds returns the CPU time of the calling thread. getrusage(2)
// reports the value of the last tick, up to 10 ms ago, if the kernel does not
// account for every entry into itself.
//
// Source: kernel/sched/cputime.c of Linux, task_cputime_adjusted.
func threadSeconds() (float64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, err
	}
	return float64(ts.Nano()) / 1e9, nil
}
