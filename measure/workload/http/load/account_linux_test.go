package load

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
)

func TestReadsItsSchedstat(t *testing.T) {
	for text, want := range map[string]int64{
		"74829 1203 77\n": 1203, "0 0 0\n": 0, "1 999999999999999999 2": 999999999999999999,
		"": -1, "12": -1, "12 ": -1, "12 x 3": -1, "12  5": -1,
	} {
		if got := secondNumber([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// Delays of a request by others are distinguished from those by the generator.
func TestOutside(t *testing.T) {
	const ms = int64(time.Millisecond)
	at := func(when, delay, spent int64) reading { return reading{at: when, delay: delay, spent: spent} }
	begin := at(100*ms, 7*ms, 40*ms)
	for _, c := range []struct {
		what         string
		before, last reading // after the last two sleeps
		now          reading
		from, want   int64
	}{
		{"it ran all the time", begin, begin, at(104*ms, 7*ms, 44*ms), 100 * ms, 0},
		{"it waited for a CPU for 3 of 4 ms", begin, begin, at(104*ms, 10*ms, 41*ms), 100 * ms, 3 * ms},
		{"no more than it was late", begin, begin, at(104*ms, 10*ms, 41*ms), 102 * ms, 2 * ms},
		{"it ran for 1 of 5 ms without waiting: the rest was stolen", begin, begin, at(105*ms, 7*ms, 41*ms), 100 * ms,
			4 * ms},
		{"it woke up 2 ms too late, and waited for 1.5 of them",
			at(90*ms, 7*ms-3*ms/2, 40*ms), begin, begin, 98 * ms, 3*ms/2 - wakeLimit},
		{"it waited for longer before it woke up than it was late",
			at(90*ms, 2*ms, 40*ms), begin, begin, 99 * ms, ms},
		{"waking up costs this much on an idle CPU", at(90*ms, 7*ms-wakeLimit, 40*ms), begin, begin, 98 * ms, 0},
	} {
		a := account{open: true, before: c.before, last: c.last}
		if got := a.timeOutside(c.now, c.from, c.now.at); got != c.want {
			t.Errorf("%s: %d ns, want %d", c.what, got, c.want)
		}
	}
}

// After a sleep its end is read, once: what passed in the sleep is nobody's
// delay.
func TestAwake(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := account{thread: openThread()}
	defer a.close()
	if a.delay() < 0 {
		t.Skip("needs a kernel with schedstats")
	}
	a.start(true)
	began := a.last
	a.slept = true
	a.readSleepCost()
	if woke := a.last; a.before != began || woke.at <= began.at || woke.delay < began.delay ||
		woke.spent < began.spent || a.slept {
		t.Errorf("began %+v, awake %+v", began, a)
	}
	woke := a.last
	a.readSleepCost()
	if a.last != woke || a.before != began {
		t.Errorf("it has not slept again: %+v, was %+v", a.last, woke)
	}
	if got := a.outside(woke.at, woke.at); got != 0 {
		t.Errorf("outside 0 ns: %d", got)
	}
	if a.starved() < 0 {
		t.Errorf("starved for %d ns", a.starved())
	}
}

func TestWhatNeighboursCanHaveHad(t *testing.T) {
	at := func(seconds, idle, steal, own float64) neighbourhood {
		return neighbourhood{cpus: []int{0}, cpu: &facts.CPU{Idle: idle, Steal: steal}, own: own, at: int64(seconds * 1e9)}
	}
	// Of two seconds the CPU was idle for half a one, 0.3 were stolen, and
	// the generator ran for one: others had 0.2, within a tick.
	others, stolen := at(12, 5.5, 1.3, 3).since(at(10, 5, 1, 2))
	if others < 0.2 || others > 0.2101 || stolen < 0.1499 || stolen > 0.1501 {
		t.Errorf("others %g s, stolen %g", others, stolen)
	}
	// What runs in four threads on one CPU that nobody else wants has waited
	// for nobody.
	if others, _ := at(12, 5, 0, 4).since(at(10, 5, 0, 2)); others > 0.0101 {
		t.Errorf("of a CPU that is all its own: %g s", others)
	}
	for _, n := range []neighbourhood{{}, at(10, 5, 1, 2)} {
		if others, stolen := n.since(at(10, 5, 1, 2)); others != -1 || stolen != -1 {
			t.Errorf("of %+v: %g, %g", n, others, stolen)
		}
	}
}

// Where the system permits it a generator comes before everything ordinary,
// and gives that back; where it does not, it says why.
func TestPriority(t *testing.T) {
	addr, _ := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
	many := "normal: asked for" // more threads than CPUs
	if runtime.NumCPU() >= 64 {
		many = "real-time"
	}
	for _, c := range []struct{ args, want string }{{"priority=auto", "real-time"},
		{"priority=normal", "normal: asked for"}, {"threads=64", many}} {
		r := generate(t, addr, "time=50ms", "connections=64", c.args)
		if r.Generator == nil || !strings.HasPrefix(r.Generator.Priority, c.want) &&
			!strings.Contains(r.Generator.Priority, "needs root") {
			t.Errorf("%s: %+v", c.args, r.Generator)
		}
	}
	if o := (outcome{priority: "normal: asked for"}); o.runnableShare() != 1 {
		t.Errorf("an ordinary thread may run %g of the time", o.runnableShare())
	}
	if s := (outcome{priority: "real-time (SCHED_RR 1)"}).runnableShare(); s <= 0 || s > 1 {
		t.Errorf("a real-time thread may run %g of the time", s)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var words [2]string
	for i := range words {
		s := standingOf(true)
		s.raisePriority()
		words[i] = s.words
		if err := s.giveUp(); err != nil {
			t.Fatal(err)
		}
	}
	if words[0] != words[1] {
		t.Errorf("priority %q, and after it was given back %q", words[0], words[1])
	}
}
