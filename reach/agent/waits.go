package agent

import (
	"time"

	"bakeoff/reach/probe"
)

// waitPause is the pause between readings: what a thread waits after its last one is lost.
const waitPause = 50 * time.Millisecond

// waitCounter adds up how long the threads of commands wait for CPUs.
type waitCounter struct {
	sum  float64
	lost bool // unknown in some execution
}

// watch counts for a process until stop is called. A nil counter does nothing.
func (c *waitCounter) watch(pid int) (stop func()) {
	if c == nil {
		return func() {}
	}
	waits, end, ended := probe.Waits{}, make(chan struct{}), make(chan bool)
	go func() {
		ok := true
		for tick := time.NewTicker(waitPause); ok; {
			select {
			case <-end:
				tick.Stop()
				ended <- ok
				return
			case <-tick.C:
				ok = waits.Read(pid)
			}
		}
		<-end
		ended <- false
	}()
	return func() {
		close(end)
		c.lost = !<-ended || len(waits) == 0 || c.lost
		c.sum += waits.Seconds()
	}
}

// seconds is the sum; nil if unknown.
func (c *waitCounter) seconds() *float64 {
	if c == nil || c.lost {
		return nil
	}
	return &c.sum
}
