package load

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// HTTPS in the epoll engine. A separate goroutine opens a connection with its
// handshake, which takes milliseconds, so that it does not delay the others.
// From then on only the worker uses it. crypto/tls reads records through a
// transport that returns an error instead of waiting (a Temporary net.Error);
// it keeps a partial record and continues with it later.

// handshakes is the number of connections that a worker opens at the same time.
const handshakes = 16

// again is the error of a read that would have to wait.
type again struct{}

func (again) Error() string   { return "nothing has arrived" }
func (again) Timeout() bool   { return false }
func (again) Temporary() bool { return true }

var errAgain net.Error = again{}

// transport is a socket below a tls.Conn. While patient it waits, until its
// deadline; afterwards it never does.
type transport struct {
	fd      int
	patient bool
	until   int64  // on the clock of now
	rest    []byte // what did not fit into the socket's buffer
	dry     bool   // the socket is empty until the next event
	hanging bool   // the other side is closing: the end is still to be read
}

func (t *transport) Read(b []byte) (int, error) {
	for {
		if t.dry {
			return 0, errAgain
		}
		n, errno := receive(t.fd, b)
		switch {
		case errno == unix.EAGAIN && t.patient:
			if err := t.await(unix.POLLIN); err != nil {
				return 0, err
			}
		case errno == unix.EAGAIN:
			return 0, errAgain
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			t.dry = !t.patient && !t.hanging && n < len(b)
			return n, nil
		}
	}
}

// Write accepts all of b; flush sends what does not fit into the socket's
// buffer.
func (t *transport) Write(b []byte) (int, error) {
	t.rest = append(t.rest, b...)
	return len(b), t.flush()
}

func (t *transport) flush() error {
	for sent := 0; ; {
		if sent == len(t.rest) {
			t.rest = t.rest[:0]
			return nil
		}
		n, errno := send(t.fd, t.rest[sent:])
		switch {
		case errno == 0:
			sent += n
		case errno == unix.EAGAIN && t.patient:
			if err := t.await(unix.POLLOUT); err != nil {
				return err
			}
		case errno == unix.EAGAIN:
			t.rest = t.rest[:copy(t.rest, t.rest[sent:])]
			return nil
		default:
			return errno
		}
	}
}

// await waits until the socket is ready for events.
func (t *transport) await(events int16) error {
	for {
		left := t.until - nowNanos()
		if left <= 0 {
			return context.DeadlineExceeded
		}
		fds := []unix.PollFd{{Fd: int32(t.fd), Events: events}}
		switch n, err := unix.Poll(fds, int(left/int64(time.Millisecond))+1); {
		case err == unix.EINTR || err == nil && n == 0:
		default:
			return err
		}
	}
}

// The rest of net.Conn, which crypto/tls does not use here: the owner of the
// socket closes it, and there are no deadlines.
func (t *transport) Close() error                     { return nil }
func (t *transport) LocalAddr() net.Addr              { return nil }
func (t *transport) RemoteAddr() net.Addr             { return nil }
func (t *transport) SetDeadline(time.Time) error      { return nil }
func (t *transport) SetReadDeadline(time.Time) error  { return nil }
func (t *transport) SetWriteDeadline(time.Time) error { return nil }

// secure is what a socket has for HTTPS.
type secure struct {
	*tls.Conn
	below *transport
}

// opened is a connection, or why there is none, for the socket i and its try.
type opened struct {
	i, try int
	conn   *secure
	err    error
}

// opener opens connections for a worker and notifies it by an event.
type opener struct {
	sync.Mutex
	event  int // eventfd; -1 once it is closed
	ready  []opened
	tokens chan struct{}
}

// wakeID is the number of the opener's event among those of sockets.
const wakeID = -1

func newOpener(p *poller) (*opener, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if errno := p.add(fd, wakeID); errno != 0 {
		unix.Close(fd)
		return nil, errno
	}
	return &opener{event: fd, tokens: make(chan struct{}, handshakes)}, nil
}

// open opens a connection within the load's timeout and hands it over.
func (o *opener) open(l *load, i, try int) {
	o.tokens <- struct{}{}
	defer func() { <-o.tokens }()
	if o.closed() {
		return
	}
	got := opened{i: i, try: try}
	got.conn, got.err = openSecure(l)
	o.Lock()
	defer o.Unlock()
	if o.event < 0 {
		got.discard()
		return
	}
	o.ready = append(o.ready, got)
	// The event's counter cannot overflow: each connection adds one.
	_, _ = unix.Write(o.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// takeReady returns the connections that are ready.
func (o *opener) takeReady() []opened {
	var count [8]byte
	_, _ = unix.Read(o.event, count[:])
	o.Lock()
	defer o.Unlock()
	ready := o.ready
	o.ready = nil
	return ready
}

func (o *opener) close() {
	o.Lock()
	defer o.Unlock()
	for _, c := range o.ready {
		c.discard()
	}
	unix.Close(o.event)
	o.event, o.ready = -1, nil
}

func (o *opener) closed() bool {
	o.Lock()
	defer o.Unlock()
	return o.event < 0
}

func (c opened) discard() {
	if c.conn != nil {
		unix.Close(c.conn.below.fd)
	}
}

// openSecure opens a connection and completes its handshake.
func openSecure(l *load) (*secure, error) {
	fd, errno := dialSocket(l.addr)
	if errno != 0 {
		return nil, errno
	}
	t := &transport{fd: fd, patient: true, until: nowNanos() + int64(l.timeout)}
	s := &secure{tls.Client(t, l.tls), t}
	err := t.await(unix.POLLOUT)
	if err == nil {
		if errno := connected(fd); errno != 0 {
			err = errno
		}
	}
	if err == nil {
		err = s.Handshake()
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	t.patient = false
	return s, nil
}

// dialSocket begins to open a connection.
func dialSocket(addr netip.AddrPort) (int, unix.Errno) {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()})
	if a := addr.Addr().Unmap(); a.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: a.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if err == nil {
			err = unix.Connect(fd, to)
		}
	}
	if err == nil || err == unix.EINPROGRESS {
		return fd, 0
	}
	if fd >= 0 {
		unix.Close(fd)
	}
	return -1, err.(unix.Errno)
}

// addOpened adds the opened connections.
func (w *worker) addOpened() {
	for _, c := range w.opener.takeReady() {
		s := &w.sockets[c.i]
		switch {
		case s.state != opening || s.try != c.try: // given up in the meantime
			c.discard()
		case c.err != nil:
			w.failRequest(c.i, classOf(c.err), nowNanos())
		default:
			s.fd, s.secure = c.conn.below.fd, c.conn
			if errno := w.poll.add(s.fd, c.i); errno != 0 {
				w.failRequest(c.i, classOf(errno), nowNanos())
				continue
			}
			s.state = busy
			w.write(c.i, s)
		}
	}
}

// writeSecure sends what has not been sent.
func (w *worker) writeSecure(i int, s *socket) {
	var err error
	if len(s.in.rest) > 0 {
		_, err = s.secure.Write(s.in.rest)
		s.in.rest = nil
	} else {
		err = s.secure.below.flush()
	}
	if err != nil {
		w.connectionLost(i, s, classOf(err))
	}
}
