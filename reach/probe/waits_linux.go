package probe

import (
	"os"
	"strconv"
)

// mostThreads bounds the threads that ReadWaits reads: a thread costs some microseconds.
const mostThreads = 64

// Waits are how long the threads of a process were ready to run and had no CPU, by thread:
// those that ended too, as they were last read.
type Waits map[string]uint64

// Read reads the threads of a process. It reports false if the kernel does not count, or if
// they are too many; then Seconds is not known.
func (w Waits) Read(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	f, err := os.Open(dir)
	if err != nil {
		return true // it has ended
	}
	defer f.Close()
	threads, _ := f.Readdirnames(mostThreads + 1)
	if len(threads) > mostThreads {
		return false
	}
	for _, thread := range threads {
		b := readText(dir + "/" + thread + "/schedstat")
		if b == "" {
			if _, err := os.Stat(dir + "/" + thread); err == nil {
				return false
			}
			continue // it has ended
		}
		n, ok := parseWait(b)
		if !ok {
			return false
		}
		w[thread] = n
	}
	return true
}

// Seconds is the sum over all threads.
func (w Waits) Seconds() float64 {
	sum := uint64(0)
	for _, n := range w {
		sum += n
	}
	return float64(sum) / 1e9
}
