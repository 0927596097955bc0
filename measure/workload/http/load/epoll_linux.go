package load

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/measure/workload/http"
)

// The epoll engine: each thread has an epoll instance and a share of the
// connections, and only waits, reads, compares and writes. System calls that
// cannot block bypass the Go scheduler.

// sweepEvery is the interval of checks for timeouts. It is much longer than a
// tick of the kernel: a shorter sleep programs the timer, which on a virtual
// machine is an exit to the hypervisor.
const sweepEvery = int64(100 * time.Millisecond)

// restFor is the pause after a failed attempt to open a connection.
const restFor = int64(10 * time.Millisecond)

// wakeTime is about the time from the end of a sleep until the thread runs. An
// open loop sleeps this much less; if it wakes up too early, it polls for
// events until the request is due. On a busy virtual machine, at 20,000/s, the
// 99th percentile of the lateness was 44 µs with 25 µs and 69 µs with 15 µs.
const wakeTime = int64(25 * time.Microsecond)

// The phases of a worker.
const (
	warming = iota
	timed
	draining
)

type worker struct {
	load     *load
	tally    *tally
	list     list
	thread   int
	schedule *schedule // nil for a closed loop
	stop     *atomic.Bool
	poll     poller
	account  account
	pulse    pulse
	opener   *opener // of HTTPS; otherwise nil
	sockets  []socket
	ready    []int // idle sockets of a closed loop, which send after the events
	queue    ring  // idle sockets of an open loop, the longest idle first
	buf      []byte
	phase    int
	start    int64 // of the timed part
	end      int64
	flight   int // requests without a response yet
	rests    int // sockets that rest
	sweepAt  int64
	touched  bool // a server has answered
	yields   bool // it shares its CPU with the server, and does not interrupt it
	failures bool // a response was not as expected: report each byte from now on
}

// bestEngine is the engine for this system.
func bestEngine(ctx context.Context, l *load) (outcome, error) {
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	c, err := newCrew(l, &stop)
	if err != nil {
		return outcome{}, err
	}
	// One per thread, one for the watcher, and one more, so that nothing
	// else in this process waits for a thread inside epoll_wait.
	procs := runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), l.threads+2))
	loud := deferCollection()
	o, err := c.runTimed(&stop)
	if err != nil {
		// If a worker is stuck, stopping all threads would block, too:
		// return at once, and let the process end.
		return outcome{}, err
	}
	loud()
	runtime.GOMAXPROCS(procs)
	c.close()
	if ctx.Err() != nil {
		return outcome{}, context.Cause(ctx)
	}
	return o, nil
}

// crew is the workers of an engine.
type crew struct {
	load       *load
	workers    []*worker
	warm, done *gate
	start      chan int64      // when the timed part begins, for each worker
	class      *unix.SchedAttr // of their threads; nil for the ordinary one
}

func newCrew(l *load, stop *atomic.Bool) (*crew, error) {
	c := &crew{load: l, workers: make([]*worker, l.threads), start: make(chan int64, l.threads)}
	var err, bad error
	for i := range c.workers {
		if c.workers[i], bad = newWorker(l, i, stop); bad != nil {
			c.workers = c.workers[:i]
			break
		}
	}
	if bad == nil {
		c.warm, bad = newGate(l.threads)
		c.done, err = newGate(l.threads)
	}
	if err = errors.Join(bad, err); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *crew) close() {
	for _, w := range c.workers {
		w.close()
	}
	for _, g := range []*gate{c.warm, c.done} {
		if g != nil {
			g.close()
		}
	}
}

// runTimed warms up and runs the timed part. If a worker makes no progress, it
// returns an error at once.
func (c *crew) runTimed(stop *atomic.Bool) (o outcome, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := standingOf(c.load.wantsRealTime())
	s.raisePriority()
	c.class = s.class
	for _, w := range c.workers {
		w.pulse.working.Store(true)
		go c.run(w)
	}
	if err := s.watch(c.warm, c.workers); err != nil {
		return o, err
	}
	before := readNeighbourhood()
	began, cpu := nowNanos(), processCPU()
	if c.touched() && !stop.Load() {
		for range c.workers {
			c.start <- began
		}
	}
	close(c.start)
	if err := s.watch(c.done, c.workers); err != nil {
		return o, err
	}
	o = outcome{tally: newTally(int64(c.load.time)), elapsed: time.Duration(nowNanos() - began), cpu: processCPU() - cpu,
		engine: "epoll", priority: s.words}
	_ = s.giveUp()
	if slices.ContainsFunc(c.workers, func(w *worker) bool { return w.yields }) {
		o.priority += "; SCHED_BATCH, because the server has the same CPU"
	}
	o.add(c.workers, before)
	o.verified, o.sum = verified(c.load.asks)
	return o, nil
}

// run is one worker on a thread of its own.
func (c *crew) run(w *worker) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer c.done.pass()
	w.account.thread = openThread()
	defer w.account.close()
	w.pulse.stat.Store(int64(w.account.stat))
	defer sharpenTimer(c.class, c.load.rate > 0)()
	w.warmUp()
	c.warm.pass()
	if at, ok := <-c.start; ok {
		if c.load.rate == 0 && c.class == nil && w.serverIsHere() {
			w.yields = yieldToServer()
		}
		w.account.start(c.load.rate > 0)
		w.run(at)
		w.tally.starved = w.account.starved()
	}
}

// touched reports whether a server has answered at all.
func (c *crew) touched() bool {
	return slices.ContainsFunc(c.workers, func(w *worker) bool { return w.touched })
}

// add adds the workers' counts, and the load of other processes since before.
func (o *outcome) add(workers []*worker, before neighbourhood) {
	for _, w := range workers {
		o.tally.merge(w.tally)
	}
	others := -1.0
	if others, o.stolen = readNeighbourhood().since(before); others >= 0 && o.tally.starved >= 0 {
		// Waiting for another thread of this process means that the
		// generator is saturated, and the wake-up of an idle CPU does
		// not count.
		o.tally.starved = min(o.tally.starved, int64(1e9*others*float64(len(workers))))
	}
}

// newWorker returns the worker of one thread with its share of the
// connections.
func newWorker(l *load, thread int, stop *atomic.Bool) (*worker, error) {
	n := l.connections / l.threads
	if thread < l.connections%l.threads {
		n++
	}
	w := &worker{
		load: l, stop: stop, tally: newTally(int64(l.time)), sockets: make([]socket, n), queue: newRing(n),
		list: newList(l.asks), thread: thread, buf: make([]byte, readBuffer(l.longest())),
	}
	for i := range w.sockets {
		w.sockets[i].fd, w.sockets[i].in.session = -1, l.session()
	}
	if l.rate > 0 {
		w.schedule = newSchedule(l.rate, l.exponential, l.seed, thread, l.threads)
	}
	if err := w.poll.open(); err != nil {
		return nil, err
	}
	if l.tls != nil {
		var err error
		if w.opener, err = newOpener(&w.poll); err != nil {
			w.poll.close()
			return nil, err
		}
	}
	return w, nil
}

// readBuffer is a buffer size for a whole response in one read, if that is
// reasonable.
func readBuffer(length int64) int {
	return int(max(8<<10, min(length+2<<10, 256<<10)))
}

func (w *worker) close() {
	for i := range w.sockets {
		w.hangUp(&w.sockets[i])
	}
	if w.opener != nil {
		w.opener.close()
	}
	w.poll.close()
}

// warmUp opens every connection and verifies one response on each, outside the
// timed part. Then it runs a closed loop for the time of the warm-up.
func (w *worker) warmUp() {
	defer w.pulse.working.Store(false)
	w.list.startAtPart(w.thread, w.load.threads)
	for i := range w.sockets {
		t := nowNanos()
		w.beginRequest(i, t, t)
		if i == 0 {
			w.awaitResponses() // other bodies are compared with this one, and not kept
		}
	}
	w.end = nowNanos() + int64(w.load.warmUp)
	if w.sockets[0].state == idle {
		w.scheduleSocket(0, nowNanos())
		w.resume()
	}
	w.awaitResponses()
	w.tally.latency.Reset()
}

// awaitResponses waits until all responses have arrived.
func (w *worker) awaitResponses() {
	for w.flight > 0 && !w.stop.Load() {
		w.handleEvents(nowNanos(), w.patience())
	}
}

// run runs the timed part from start, on the clock of now, and waits for the
// last responses.
func (w *worker) run(start int64) {
	w.pulse.working.Store(true)
	defer w.pulse.working.Store(false)
	w.start, w.end, w.phase = start, start+int64(w.load.time), timed
	w.rests = 0
	w.list.startAtPart(w.thread, w.load.threads)
	for i := range w.sockets {
		w.scheduleSocket(i, nowNanos())
	}
	w.resume()
	last := w.end + int64(w.load.timeout)
	for !w.stop.Load() {
		t := nowNanos()
		if t >= w.end {
			w.phase = draining
			if w.flight == 0 && w.allSent() {
				return
			}
			if t >= last {
				break
			}
		}
		wait := w.patience()
		if w.phase == timed {
			wait = min(wait, w.end-t)
		}
		if w.schedule != nil {
			t = w.dispatch(t)
			if !w.queue.empty() && !w.allSent() {
				wait = min(wait, start+w.schedule.next-t-wakeTime)
			}
		}
		w.handleEvents(t, wait)
	}
	w.giveUp()
}

// giveUp counts requests that did not complete.
func (w *worker) giveUp() {
	for i := range w.sockets {
		if s := &w.sockets[i]; s.state == busy || s.state == opening {
			w.tally.countError("timeout")
		}
	}
	for ; !w.allSent(); w.schedule.advance() {
		w.tally.countError("unsent")
	}
}

func (w *worker) allSent() bool {
	return w.schedule == nil || w.schedule.next >= int64(w.load.time)
}

// dispatch sends the requests that are due, as long as connections are free,
// and returns the time.
func (w *worker) dispatch(t int64) int64 {
	for !w.queue.empty() && !w.allSent() && w.start+w.schedule.next <= t {
		i := w.queue.pop()
		due := w.schedule.next
		w.schedule.advance()
		t = nowNanos()
		late := w.tally.recordSend(t-w.start, due, w.sockets[i].free-w.start)
		if late > ownLimit {
			late -= w.account.outside(t-late, t)
		}
		http.Record(w.tally.own, late)
		w.beginRequest(i, w.start+due, t)
	}
	return t
}

// handleEvents waits for events for at most wait nanoseconds, and handles them.
func (w *worker) handleEvents(t, wait int64) {
	events := w.poll.wait(wait)
	w.pulse.steps.Add(1)
	w.account.slept = w.account.slept || wait > 0
	open := w.schedule != nil && w.phase != warming
	if open {
		w.dispatch(nowNanos())
	}
	w.account.readSleepCost()
	for _, e := range events {
		w.pulse.steps.Add(1)
		if e.Fd == wakeID {
			w.addOpened()
		} else {
			w.handleSocket(int(e.Fd), e.Events)
		}
		if open { // send what became due in the meantime
			w.dispatch(nowNanos())
		}
	}
	if t >= w.sweepAt || w.rests > 0 {
		w.endTimedOut(t)
	}
	w.resume()
}

// patience is how long to wait if nothing is scheduled.
func (w *worker) patience() int64 {
	if w.rests > 0 {
		return restFor
	}
	return sweepEvery
}

// endTimedOut ends requests that time out, and retries connections after their pause.
func (w *worker) endTimedOut(t int64) {
	w.sweepAt = t + sweepEvery
	for i := range w.sockets {
		s := &w.sockets[i]
		switch {
		case (s.state == busy || s.state == opening) && t-s.began > int64(w.load.timeout):
			w.failRequest(i, "timeout", t)
		case s.state == busy && (w.failures || t-s.began > sweepEvery):
			s.setLowWater(1) // something shorter than the body may have arrived
		case s.state == resting && t-s.began > restFor:
			w.rests--
			w.scheduleSocket(i, t)
		}
	}
}

// scheduleSocket schedules a socket that is free from t on.
func (w *worker) scheduleSocket(i int, t int64) {
	s := &w.sockets[i]
	s.state, s.free = idle, t
	switch {
	case w.phase == warming && t >= w.end:
	case w.phase != warming && w.schedule != nil:
		w.queue.push(i)
	case w.phase != draining:
		w.ready = append(w.ready, i)
	}
}

// resume sends the next requests of a closed loop for all sockets that became
// free. That wakes up a server on another CPU once for many requests; waking it
// up for each would cost more than everything else, on both sides.
func (w *worker) resume() {
	for k := 0; k < len(w.ready); k++ {
		if t := nowNanos(); t < w.end {
			w.beginRequest(w.ready[k], t, t)
		}
	}
	w.ready = w.ready[:0]
}

// beginRequest starts the request that is due at due.
func (w *worker) beginRequest(i int, due, t int64) {
	s := &w.sockets[i]
	s.due, s.began = due, t
	s.in.begin(w.list.next(), s.fd < 0)
	w.flight++
	if s.fd >= 0 {
		s.state = busy
		if !w.failures {
			s.setLowWater(s.in.wholeBody())
		}
		w.write(i, s)
		return
	}
	s.state = opening
	if errno := w.connect(i, s); errno != 0 {
		w.failRequest(i, classOf(errno), t)
	}
}

// complete handles a complete response.
func (w *worker) complete(i int, s *socket, t int64) {
	w.flight--
	if v := s.in.verdict(); v == "" {
		done := t - w.start
		if w.phase == warming {
			done = -1
		}
		w.tally.response(done, t-s.due)
	} else {
		w.tally.countError(v)
		w.failures = true
	}
	if s.in.closing() || !w.load.keepalive {
		w.hangUp(s)
	}
	w.scheduleSocket(i, t)
}

// failRequest handles a failed request and closes its connection.
func (w *worker) failRequest(i int, why string, t int64) {
	s := &w.sockets[i]
	w.flight--
	w.tally.countError(why)
	w.hangUp(s)
	s.try++
	if s.state == opening {
		s.state, s.began = resting, t
		w.rests++
		return
	}
	w.scheduleSocket(i, t)
}

// handleSocket processes the events of one socket.
func (w *worker) handleSocket(i int, events uint32) {
	s := &w.sockets[i]
	if s.fd < 0 {
		return
	}
	life := s.life
	if s.secure != nil {
		s.secure.below.dry = false
		s.secure.below.hanging = events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	}
	if s.state == opening {
		if errno := connected(s.fd); errno != 0 {
			w.failRequest(i, classOf(errno), nowNanos())
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		s.state = busy
		w.write(i, s)
	} else if s.hasUnsent() {
		w.write(i, s)
	}
	if s.life == life && events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.receive(i, s, events&^(unix.EPOLLIN|unix.EPOLLOUT) != 0)
	}
}

// write sends what has not been sent.
func (w *worker) write(i int, s *socket) {
	if s.secure != nil {
		w.writeSecure(i, s)
		return
	}
	for len(s.in.rest) > 0 {
		n, errno := send(s.fd, s.in.rest)
		switch errno {
		case 0:
			s.in.rest = s.in.rest[n:]
		case unix.EAGAIN:
			return // send the rest later
		default:
			w.connectionLost(i, s, classOf(errno))
			return
		}
	}
}

// receive reads what has arrived. Notifications are edge-triggered, so it reads
// until the socket is empty. A read that did not fill the buffer has emptied
// it, unless the other side is closing.
func (w *worker) receive(i int, s *socket, hanging bool) {
	for life := s.life; s.life == life; {
		n, why := s.receive(w.buf)
		if why != "" {
			w.connectionLost(i, s, why)
			return
		}
		if n == 0 {
			return // all that has arrived was read
		}
		idle := s.state != busy
		if idle && s.in.session == nil {
			w.tally.countError("malformed response") // nothing was requested
			w.hangUp(s)
			return
		}
		w.touched = true
		k, done, err := s.in.readBytes(w.buf[:n])
		switch bad := err != nil || done && k < n; {
		case bad && idle:
			w.tally.countError(faultOf(err))
			w.hangUp(s)
		case bad:
			w.failRequest(i, faultOf(err), nowNanos())
		case done:
			w.complete(i, s, nowNanos())
		case idle && s.in.closing():
			w.hangUp(s)
		}
		if s.life == life && len(s.in.rest) > 0 {
			w.write(i, s)
		}
		if s.secure == nil && n < len(w.buf) && !hanging {
			return
		}
	}
}

// connectionLost handles the end of a connection.
func (w *worker) connectionLost(i int, s *socket, why string) {
	if s.state != busy {
		w.hangUp(s) // between requests: it is reopened when needed
		return
	}
	w.failRequest(i, s.in.classOfCut(why), nowNanos())
}

func (w *worker) hangUp(s *socket) {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd, s.secure = -1, nil
		s.life++
	}
}

// connect begins to open a connection.
func (w *worker) connect(i int, s *socket) unix.Errno {
	if w.opener != nil {
		go w.opener.open(w.load, i, s.try)
		return 0
	}
	fd, errno := dialSocket(w.load.addr)
	if errno != 0 {
		return errno
	}
	s.fd, s.lowWater = fd, 1
	return w.poll.add(fd, i)
}
