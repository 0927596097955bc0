package runner

import (
	"time"

	"bakeoff/reach/probe"
)

// What a generator is kept from doing is not its own doing, nor the server's.
// An account tells it apart: waiting for a CPU, and time that was stolen.

const (
	// wakeLimit is what a wake-up takes at most where nobody else wants the
	// CPU, in nanoseconds: so much is the generator's own, which chose to sleep.
	wakeLimit = int64(10 * time.Microsecond)
	// ownLimit is the lateness, in nanoseconds, below which nobody is asked.
	ownLimit = int64(20 * time.Microsecond)
)

// reading is what a thread had waited and spent at some time, in nanoseconds.
type reading struct{ at, delay, spent int64 }

// account is what the scheduler did with one worker's thread in the timed part.
type account struct {
	thread
	open         bool
	began        int64   // what delay was
	before, last reading // of an open loop: after the last two sleeps
}

// start begins the timed part.
func (a *account) start(open bool) {
	a.open, a.last = open, a.read()
	a.began, a.before = a.last.delay, a.last
}

func (a *account) read() reading { return reading{at: now(), delay: a.delay(), spent: threadCPU()} }

// awake is called after each sleep. A closed loop is late for nothing.
func (a *account) awake() {
	if a.open && a.stat >= 0 {
		a.before, a.last = a.last, a.read()
	}
}

// starved returns how long the thread has waited for a CPU, -1 where the system
// does not tell.
func (a *account) starved() int64 {
	d := a.delay()
	if a.began < 0 || d < a.began {
		return -1
	}
	return d - a.began
}

// outside returns how much of the time between from and to, in which a request
// of an open loop was late, the thread was kept from sending it: because it was
// ready and had no CPU beyond the cost of waking up, or ran and its CPU was
// stolen. The rest is the generator's own.
func (a *account) outside(from, to int64) int64 {
	if a.stat < 0 {
		return 0
	}
	r := a.read()
	waited := r.delay - a.last.delay
	// What ran neither waited nor was anywhere else, unless it was stolen.
	out := max(waited, (r.at-a.last.at)-(r.spent-a.last.spent))
	if from < a.last.at { // it woke up too late
		out += min(a.last.at-from, max(0, a.last.delay-a.before.delay-wakeLimit))
	}
	return max(0, min(out, to-from))
}

// neighbourhood is the CPUs that this process may use.
type neighbourhood struct {
	cpus []int
	cpu  *probe.CPU
	own  float64 // seconds that this process has spent
	at   int64
}

func readNeighbourhood() neighbourhood {
	cpus, err := probe.CPUs()
	if err != nil || len(cpus) == 0 {
		return neighbourhood{}
	}
	return neighbourhood{cpus: cpus, cpu: probe.ReadHost(cpus).CPU, own: processCPU(), at: now()}
}

// since returns for how many seconds others can have had one of the CPUs, at
// most, and the share of all CPU time that was stolen; -1 for what is unknown.
func (n neighbourhood) since(b neighbourhood) (others, stolen float64) {
	if n.cpu == nil || b.cpu == nil || len(n.cpus) != len(b.cpus) || n.at <= b.at {
		return -1, -1
	}
	const grain = 0.01 // seconds, in which the kernel counts
	all := float64(n.at-b.at) / 1e9 * float64(len(n.cpus))
	steal := n.cpu.Steal - b.cpu.Steal
	free := n.cpu.Idle - b.cpu.Idle + n.cpu.IOWait - b.cpu.IOWait + steal
	others = max(0, all-free-(n.own-b.own)) + grain*float64(len(n.cpus))
	return others, min(1, max(0, steal/all))
}
