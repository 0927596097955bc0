package runner

import (
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/probe"
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := account{thread: openThread()}
	defer a.close()
	if a.delay() < 0 {
		t.Skip("needs a kernel with schedstats")
	}
	const ms = int64(time.Millisecond)
	a.start(true)
	// The thread waited for a CPU for 3 ms after its last sleep: that much of
	// 4 ms was not its own doing, and never more than it was late.
	a.last.delay -= 3 * ms
	if got := a.outside(a.last.at, a.last.at+4*ms); got < 3*ms-ms/10 || got > 4*ms {
		t.Errorf("outside 4 ms of which it waited 3: %d ns", got)
	}
	if got := a.outside(a.last.at, a.last.at+2*ms); got != 2*ms {
		t.Errorf("outside 2 ms that it waited: %d ns", got)
	}
	// It ran for less than what passed: that was stolen.
	a.start(true)
	a.last.at, a.last.spent = a.last.at-5*ms, a.last.spent-ms
	if got := a.outside(a.last.at, a.last.at+5*ms); got < 4*ms-ms/10 || got > 5*ms {
		t.Errorf("outside 5 ms in which it ran 1: %d ns", got)
	}
	// It woke up 2 ms too late, of which it waited one and a half.
	a.start(true)
	a.before = a.last
	a.before.delay -= 3 * ms / 2
	woke := 3*ms/2 - wakeLimit
	if got := a.outside(a.last.at-2*ms, a.last.at); got < woke || got > woke+ms/4 {
		t.Errorf("outside 2 ms of which it was kept from waking up 1.5: %d ns, want %d", got, woke)
	}
	// A thread that sleeps does not tell the same as one that waits.
	a.start(true)
	a.slept = true
	a.awake()
	if got := a.outside(a.last.at-ms, a.last.at); got > ms/4 {
		t.Errorf("outside a sleep: %d ns", got)
	}
}

func TestWhatNeighboursCanHaveHad(t *testing.T) {
	at := func(seconds, idle, steal, own float64) neighbourhood {
		return neighbourhood{cpus: []int{0}, cpu: &probe.CPU{Idle: idle, Steal: steal}, own: own, at: int64(seconds * 1e9)}
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
	for _, c := range []struct{ args, want string }{{"priority=auto", "real-time"},
		{"priority=normal", "normal: asked for"}, {"threads=64", "normal: asked for"}} {
		r := generate(t, addr, "time=50ms", "connections=64", c.args)
		if r.Generator == nil || !strings.HasPrefix(r.Generator.Priority, c.want) &&
			!strings.Contains(r.Generator.Priority, "needs root") {
			t.Errorf("%s: %+v", c.args, r.Generator)
		}
	}
	if o := (outcome{priority: "normal: asked for"}); o.share() != 1 {
		t.Errorf("an ordinary thread may run %g of the time", o.share())
	}
	if s := (outcome{priority: "real-time (SCHED_RR 1)"}).share(); s <= 0 || s > 1 {
		t.Errorf("a real-time thread may run %g of the time", s)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var words [2]string
	for i := range words {
		s := standingOf(true)
		s.take()
		words[i] = s.words
		if err := s.giveUp(); err != nil {
			t.Fatal(err)
		}
	}
	if words[0] != words[1] {
		t.Errorf("priority %q, and after it was given back %q", words[0], words[1])
	}
}
