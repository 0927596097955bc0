package runner

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
// connections, and does nothing but wait, read, compare and write. System
// calls that cannot block go past the Go scheduler.

// sweepEvery is how often timeouts are looked at. It is far longer than a tick
// of the kernel's clock on purpose: a sleep that is to end before the next
// tick has the timer programmed, which on a virtual machine is an exit to the
// hypervisor.
const sweepEvery = int64(100 * time.Millisecond)

// restFor is how long a connection that could not be opened is left alone.
const restFor = int64(10 * time.Millisecond)

// wakeTime is about what lies between the end of a sleep and the thread's
// going on. An open loop sleeps so much shorter; if it is awake too early it
// keeps asking for events until the request is due.
const wakeTime = int64(15 * time.Microsecond)

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
	flight   int // requests that are on the way
	rests    int // sockets that rest
	sweepAt  int64
	clock    int64 // when the last response was complete
	touched  bool  // something answered
}

// bestEngine is the engine for this system.
func bestEngine(ctx context.Context, l *load) (outcome, error) {
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	c, err := newCrew(l, &stop)
	if err != nil {
		return outcome{}, err
	}
	// As many as there are threads, one that watches, and one more, so that
	// nothing else in this process waits for a thread that is inside epoll_wait.
	procs := runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), l.threads+2))
	loud := quiet()
	o, err := c.work(&stop)
	if err != nil {
		// Where a worker is stuck, what stops all threads would be stuck with
		// it: this process is to end, as it is.
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

// work warms up and does the timed part. It returns an error, and at once, when
// a worker makes no progress.
func (c *crew) work(stop *atomic.Bool) (o outcome, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := standingOf(c.load.first())
	s.take()
	c.class = s.class
	for _, w := range c.workers {
		w.pulse.working.Store(true)
		go c.run(w)
	}
	if err := s.watch(c.warm, c.workers); err != nil {
		return o, err
	}
	before := readNeighbourhood()
	began, cpu := now(), processCPU()
	if c.touched() && !stop.Load() {
		for range c.workers {
			c.start <- began
		}
	}
	close(c.start)
	if err := s.watch(c.done, c.workers); err != nil {
		return o, err
	}
	o = outcome{tally: newTally(int64(c.load.time)), elapsed: time.Duration(now() - began), cpu: processCPU() - cpu, engine: "epoll", priority: s.words}
	_ = s.giveUp()
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
	defer hasten(c.class, c.load.rate > 0)()
	w.warmUp()
	c.warm.pass()
	if at, ok := <-c.start; ok {
		w.account.start(c.load.rate > 0)
		w.run(at)
		w.tally.starved = w.account.starved()
	}
}

// touched tells that a server answered anything.
func (c *crew) touched() bool {
	return slices.ContainsFunc(c.workers, func(w *worker) bool { return w.touched })
}

// add adds what the workers counted, and what their neighbours did since before.
func (o *outcome) add(workers []*worker, before neighbourhood) {
	for _, w := range workers {
		o.tally.merge(w.tally)
	}
	others := -1.0
	if others, o.stolen = readNeighbourhood().since(before); others >= 0 && o.tally.starved >= 0 {
		// A thread that waits for another of this process is the generator at
		// its ceiling, and what an idle CPU takes to wake up is nobody's.
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
		w.sockets[i].fd = -1
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

// readBuffer is a size that takes a whole response in one read where that is
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

// warmUp opens every connection and verifies one response on each, untimed.
func (w *worker) warmUp() {
	defer w.pulse.working.Store(false)
	w.list.turn(w.thread, w.load.threads)
	for i := range w.sockets {
		t := now()
		w.begin(i, t, t)
		if i == 0 {
			w.land() // the others' bodies are compared with this one, and not kept
		}
	}
	w.land()
	w.tally.latency.Reset()
}

// land waits until no request is on the way.
func (w *worker) land() {
	for w.flight > 0 && !w.stop.Load() {
		w.turn(now(), w.patience())
	}
}

// run does the timed part, from start on the clock of now, and drains it.
func (w *worker) run(start int64) {
	w.pulse.working.Store(true)
	defer w.pulse.working.Store(false)
	w.start, w.end, w.phase = start, start+int64(w.load.time), timed
	w.rests = 0
	w.list.turn(w.thread, w.load.threads)
	for i := range w.sockets {
		w.next(i, now())
	}
	w.resume()
	last := w.end + int64(w.load.timeout)
	for !w.stop.Load() {
		t := now()
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
		w.turn(t, wait)
	}
	w.giveUp()
}

// giveUp counts what did not come to an end.
func (w *worker) giveUp() {
	for i := range w.sockets {
		if s := &w.sockets[i]; s.state == busy || s.state == opening {
			w.tally.failed("timeout")
		}
	}
	for ; !w.allSent(); w.schedule.advance() {
		w.tally.failed("unsent")
	}
}

func (w *worker) allSent() bool {
	return w.schedule == nil || w.schedule.next >= int64(w.load.time)
}

// dispatch sends what is due, as far as there are free connections, and
// returns the time.
func (w *worker) dispatch(t int64) int64 {
	for !w.queue.empty() && !w.allSent() && w.start+w.schedule.next <= t {
		i := w.queue.pop()
		due := w.schedule.next
		w.schedule.advance()
		t = now()
		late := w.tally.sent(t-w.start, due, w.sockets[i].free-w.start)
		if late > ownLimit {
			late -= w.account.outside(t-late, t)
		}
		http.Record(w.tally.own, late)
		w.begin(i, w.start+due, t)
	}
	return t
}

// turn waits for events, at most for wait nanoseconds, and handles them.
func (w *worker) turn(t, wait int64) {
	events := w.poll.wait(wait)
	w.pulse.steps.Add(1)
	w.account.awake()
	open := w.schedule != nil && w.phase != warming
	if open {
		w.dispatch(now())
	}
	for _, e := range events {
		w.pulse.steps.Add(1)
		if e.Fd == wakeID {
			w.admit()
		} else {
			w.handle(int(e.Fd), e.Events)
		}
		if open { // what has become due meanwhile does not wait for the others
			w.dispatch(w.clock)
		}
	}
	if t >= w.sweepAt || w.rests > 0 {
		w.sweep(t)
	}
	w.resume()
}

// patience is how long to wait when nothing has its time.
func (w *worker) patience() int64 {
	if w.rests > 0 {
		return restFor
	}
	return sweepEvery
}

// sweep ends what takes too long, and wakes what has rested.
func (w *worker) sweep(t int64) {
	w.sweepAt = t + sweepEvery
	for i := range w.sockets {
		s := &w.sockets[i]
		switch {
		case (s.state == busy || s.state == opening) && t-s.began > int64(w.load.timeout):
			w.fail(i, "timeout", t)
		case s.state == resting && t-s.began > restFor:
			w.rests--
			w.next(i, t)
		}
	}
}

// next finds something to do for a socket that is free from t on.
func (w *worker) next(i int, t int64) {
	s := &w.sockets[i]
	s.state, s.free = idle, t
	switch {
	case w.phase == warming:
	case w.schedule != nil:
		w.queue.push(i)
	case w.phase == timed:
		w.ready = append(w.ready, i)
	}
}

// resume sends the next requests of a closed loop, those of all sockets that
// became free one after another. A server on another CPU is so woken up once
// for many; waking it for each would cost more than all the rest, for both.
func (w *worker) resume() {
	for k := 0; k < len(w.ready); k++ {
		if t := now(); t < w.end {
			w.begin(w.ready[k], t, t)
		}
	}
	w.ready = w.ready[:0]
}

// begin starts the request that was due at due.
func (w *worker) begin(i int, due, t int64) {
	s := &w.sockets[i]
	s.due, s.began, s.out = due, t, 0
	s.in.body.expect = w.list.next()
	s.in.reset()
	w.flight++
	if s.fd >= 0 {
		s.state = busy
		w.write(i, s)
		return
	}
	s.state = opening
	if errno := w.connect(i, s); errno != 0 {
		w.fail(i, class(errno), t)
	}
}

// complete takes a whole response.
func (w *worker) complete(i int, s *socket, t int64) {
	w.flight--
	w.clock = t
	if v := s.in.verdict(); v == "" {
		done := t - w.start
		if w.phase == warming {
			done = -1
		}
		w.tally.response(done, t-s.due)
	} else {
		w.tally.failed(v)
	}
	if s.in.head.close || !w.load.keepalive {
		w.hangUp(s)
	}
	w.next(i, t)
}

// fail takes the failure of a request, with its connection.
func (w *worker) fail(i int, why string, t int64) {
	s := &w.sockets[i]
	w.flight--
	w.tally.failed(why)
	w.hangUp(s)
	s.try++
	if s.state == opening {
		s.state, s.began = resting, t
		w.rests++
		return
	}
	w.next(i, t)
}

// handle takes the events of one socket.
func (w *worker) handle(i int, events uint32) {
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
			w.fail(i, class(errno), now())
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		s.state = busy
		w.write(i, s)
	} else if s.state == busy && s.unsent() {
		w.write(i, s)
	}
	if s.life == life && events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		w.receive(i, s, events&^(unix.EPOLLIN|unix.EPOLLOUT) != 0)
	}
}

// write sends what is left of the request.
func (w *worker) write(i int, s *socket) {
	if s.secure != nil {
		w.writeSecure(i, s)
		return
	}
	request := s.in.body.expect.request
	for s.out < len(request) {
		n, errno := send(s.fd, request[s.out:])
		switch errno {
		case 0:
			s.out += n
		case unix.EINTR:
		case unix.EAGAIN:
			return // the rest when there is room
		default:
			w.fail(i, class(errno), now())
			return
		}
	}
}

// receive reads what has arrived. Notifications are edge-triggered, so it
// reads until the socket is empty: a read that did not fill the buffer has
// emptied it, unless the other side is hanging up.
func (w *worker) receive(i int, s *socket, hanging bool) {
	for life := s.life; s.life == life; {
		n, why := s.receive(w.buf)
		if why != "" {
			w.lost(i, s, why)
			return
		}
		if n == 0 {
			return // all that has arrived was read
		}
		if s.state != busy {
			w.tally.failed("malformed response") // nothing was asked for
			w.hangUp(s)
			return
		}
		w.touched = true
		k, done, err := s.in.feed(w.buf[:n])
		if err != nil || done && k < n {
			w.fail(i, "malformed response", now())
			return
		}
		if done {
			w.complete(i, s, now())
		}
		if s.secure == nil && n < len(w.buf) && !hanging {
			return
		}
	}
}

// lost takes the end of a connection.
func (w *worker) lost(i int, s *socket, why string) {
	if s.state != busy {
		w.hangUp(s) // between requests: it is opened anew when it is needed
		return
	}
	if why == "connection closed" && s.in.part != inHead {
		why = "short body"
	}
	w.fail(i, why, now())
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
	s.fd = fd
	return w.poll.add(fd, i)
}
