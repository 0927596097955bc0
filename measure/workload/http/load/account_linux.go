package load

import (
	"time"

	"bakeoff/base/facts"
	"bakeoff/reach/probe"
)

// Time in which a generator is kept from running is neither its own fault nor
// the server's. An account separates it: waiting for a CPU, and stolen time.

const (
	// wakeLimit is the maximum duration of a wake-up on an idle CPU, in
	// nanoseconds. This much is the generator's own lateness, because it
	// chose to sleep.
	wakeLimit = int64(10 * time.Microsecond)
	// ownLimit is the lateness, in nanoseconds, below which its cause is
	// not examined.
	ownLimit = int64(20 * time.Microsecond)
)

// reading is a thread's waiting time and CPU time at some moment, in
// nanoseconds.
type reading struct{ at, delay, spent int64 }

// account records how the scheduler treated one worker's thread in the timed
// part.
type account struct {
	thread
	open         bool
	began        int64   // what delay was
	before, last reading // of an open loop: after the last two sleeps
	slept        bool    // since last was read
}

// start begins the timed part.
func (a *account) start(open bool) {
	a.open, a.last = open, a.read()
	a.began, a.before = a.last.delay, a.last
}

func (a *account) read() reading {
	return reading{at: nowNanos(), delay: a.delay(), spent: threadCPU()}
}

// readSleepCost reads what a sleep cost. What is due is sent first, because reading
// takes longer than sending may be late. A closed loop cannot be late.
func (a *account) readSleepCost() {
	if a.slept && a.open && a.stat >= 0 {
		a.before, a.last = a.last, a.read()
	}
	a.slept = false
}

// starved returns how long the thread has waited for a CPU; -1 if unknown.
func (a *account) starved() int64 {
	d := a.delay()
	if a.began < 0 || d < a.began {
		return -1
	}
	return d - a.began
}

// outside returns how much of the time from from to to, in which a request of
// an open loop was late, the thread was kept from sending it: it was ready
// without a CPU, beyond the cost of waking up, or it ran and its CPU was
// stolen. The rest is the generator's own lateness.
func (a *account) outside(from, to int64) int64 {
	if a.stat < 0 {
		return 0
	}
	a.readSleepCost()
	return a.timeOutside(a.read(), from, to)
}

// timeOutside is outside for a thread whose reading is r now.
func (a *account) timeOutside(r reading, from, to int64) int64 {
	waited := r.delay - a.last.delay
	// Time that is neither waiting nor CPU time was stolen.
	out := max(waited, (r.at-a.last.at)-(r.spent-a.last.spent))
	if from < a.last.at { // it woke up too late
		out += min(a.last.at-from, max(0, a.last.delay-a.before.delay-wakeLimit))
	}
	return max(0, min(out, to-from))
}

// neighbourhood is the CPUs that this process may use.
type neighbourhood struct {
	cpus []int
	cpu  *facts.CPU
	own  float64 // seconds that this process has spent
	at   int64
}

func readNeighbourhood() neighbourhood {
	cpus, err := probe.CPUs()
	if err != nil || len(cpus) == 0 {
		return neighbourhood{}
	}
	return neighbourhood{cpus: cpus, cpu: probe.ReadHost(cpus).CPU, own: processCPU(), at: nowNanos()}
}

// since returns the maximum number of seconds for which others used one of the
// CPUs, and the share of CPU time that was stolen; -1 for unknown values.
func (n neighbourhood) since(b neighbourhood) (others, stolen float64) {
	if n.cpu == nil || b.cpu == nil || len(n.cpus) != len(b.cpus) || n.at <= b.at {
		return -1, -1
	}
	const grain = 0.01 // seconds: the kernel's resolution
	all := float64(n.at-b.at) / 1e9 * float64(len(n.cpus))
	steal := n.cpu.Steal - b.cpu.Steal
	free := n.cpu.Idle - b.cpu.Idle + n.cpu.IOWait - b.cpu.IOWait + steal
	others = max(0, all-free-(n.own-b.own)) + grain*float64(len(n.cpus))
	return others, min(1, max(0, steal/all))
}
