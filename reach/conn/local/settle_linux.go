package local

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Settle moves this process, all its threads, to cpus, so that the
// controller does not disturb what it measures. Threads that start later
// inherit it.
func Settle(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	// Threads may start while the list is read: go on until none is new.
	done := map[int]bool{}
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && err != unix.ESRCH {
				return err
			}
			done[tid], again = true, true
		}
	}
	return nil
}
