package probe

import (
	"math"
	"syscall"
)

// UsageOf converts the resource usage of a finished child, a process or a
// thread. Sizes are in bytes, times in seconds.
//
// Source: getrusage(2) of each system; they agree on the fields and differ in
// the unit of ru_maxrss.
func UsageOf(ru *syscall.Rusage) Usage {
	u := Usage{
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
func Process() (Usage, error) {
	var self, children syscall.Rusage
	if err := syscall.Getrusage(rusageSelf, &self); err != nil {
		return Usage{}, err
	}
	if err := syscall.Getrusage(rusageChildren, &children); err != nil {
		return Usage{}, err
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

// Add returns the sum of two usages. Of the two memory peaks it keeps the
// larger, because they need not have happened at the same time.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		UserSeconds:         u.UserSeconds + v.UserSeconds,
		SystemSeconds:       u.SystemSeconds + v.SystemSeconds,
		MaxRSSBytes:         both(u.MaxRSSBytes, v.MaxRSSBytes, math.Max),
		MinorFaults:         sum(u.MinorFaults, v.MinorFaults),
		MajorFaults:         sum(u.MajorFaults, v.MajorFaults),
		VoluntarySwitches:   sum(u.VoluntarySwitches, v.VoluntarySwitches),
		InvoluntarySwitches: sum(u.InvoluntarySwitches, v.InvoluntarySwitches),
		InBlocks:            sum(u.InBlocks, v.InBlocks),
		OutBlocks:           sum(u.OutBlocks, v.OutBlocks),
	}
}

// CPUSeconds is user and system time.
func (u Usage) CPUSeconds() float64 { return u.UserSeconds + u.SystemSeconds }

const (
	rusageSelf     = 0
	rusageChildren = -1
)

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func number(n int64) *float64 {
	f := float64(n)
	return &f
}

// both returns f of two values; nil if one is unknown.
func both(a, b *float64, f func(a, b float64) float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	v := f(*a, *b)
	return &v
}

// sum adds two values; it is nil if one is unknown.
func sum(a, b *float64) *float64 { return both(a, b, func(a, b float64) float64 { return a + b }) }
