//go:build unix

package probe

import (
	"syscall"

	"bakeoff/base/facts"
)

// UsageOf converts the resource usage of a finished child, a process or a
// thread. Sizes are in bytes, times in seconds.
//
// Source: getrusage(2) of each system; they agree on the fields and differ in
// the unit of ru_maxrss.
func UsageOf(ru *syscall.Rusage) facts.Usage {
	u := facts.Usage{
		UserSeconds:         seconds(ru.Utime),
		SystemSeconds:       seconds(ru.Stime),
		MinorFaults:         number(int64(ru.Minflt)),
		MajorFaults:         number(int64(ru.Majflt)),
		VoluntarySwitches:   number(int64(ru.Nvcsw)),
		InvoluntarySwitches: number(int64(ru.Nivcsw)),
		InBlocks:            number(int64(ru.Inblock)),
		OutBlocks:           number(int64(ru.Oublock)),
	}
	if maxRSSUnit > 0 {
		u.MaxRSSBytes = number(int64(ru.Maxrss) * maxRSSUnit)
	}
	return u
}

// Process returns what this process and its finished children have spent.
func Process() (facts.Usage, error) {
	var self, children syscall.Rusage
	if err := syscall.Getrusage(rusageSelf, &self); err != nil {
		return facts.Usage{}, err
	}
	if err := syscall.Getrusage(rusageChildren, &children); err != nil {
		return facts.Usage{}, err
	}
	return UsageOf(&self).Add(UsageOf(&children)), nil
}

// Thread returns the CPU seconds that the calling thread has used, and those of
// the finished children of the process. On a system that does not account for
// threads it is the whole process, which is the same as long as one thread does
// the work. The caller must have locked its goroutine to the thread.
func Thread() (float64, error) {
	own, err := threadSeconds()
	if err != nil {
		return 0, err
	}
	var children syscall.Rusage
	if err := syscall.Getrusage(rusageChildren, &children); err != nil {
		return 0, err
	}
	return own + seconds(children.Utime) + seconds(children.Stime), nil
}

const (
	rusageSelf     = 0
	rusageChildren = -1
)

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func number(n int64) *float64 {
	return new(float64(n))
}

// AccountChildren does nothing: getrusage(2) accounts for children.
func AccountChildren() {}
