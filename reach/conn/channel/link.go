package channel

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
)

// Config returns the yamux settings that both ends share. backlog is how many
// streams may wait to be accepted; the host accepts none, because the agent
// never opens one.
func Config(backlog int, patience time.Duration) *yamux.Config {
	c := yamux.DefaultConfig()
	c.AcceptBacklog = backlog
	// A frozen guest does not answer keep-alives. Conn watches its requests
	// itself.
	c.EnableKeepAlive = false
	c.StreamOpenTimeout = 0
	c.ConnectionWriteTimeout = patience
	c.StreamCloseTimeout = patience
	// A quarter of a second at the speed of a virtio port under emulation.
	c.MaxStreamWindowSize = 1 << 20
	c.LogOutput = io.Discard
	return c
}

// link joins the small writes of yamux (a header, then a body) into few large
// ones, because each write to a virtio port is an interrupt in a guest that may
// be emulated. It also records when something was read.
type link struct {
	r        io.Reader
	rw       io.ReadWriteCloser
	lastRead atomic.Int64 // Unix nanoseconds

	mu      sync.Mutex
	changed *sync.Cond
	pending []byte
	spare   []byte // swapped with pending
	err     error  // of the writer; nothing is written after it
	done    bool
	idle    chan struct{} // closed when the writer has ended
}

// maxPending bounds what waits to be written, in bytes.
const maxPending = 256 << 10

// Link returns rw for yamux. It reads from r, which Greet or Answer returned.
func Link(r io.Reader, rw io.ReadWriteCloser) io.ReadWriteCloser { return newLink(r, rw) }

func newLink(r io.Reader, rw io.ReadWriteCloser) *link {
	l := &link{r: r, rw: rw, idle: make(chan struct{})}
	l.changed = sync.NewCond(&l.mu)
	l.lastRead.Store(time.Now().UnixNano())
	go l.write()
	return l
}

func (l *link) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.lastRead.Store(time.Now().UnixNano())
	}
	return n, err
}

func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && !l.done && len(l.pending) > maxPending {
		l.changed.Wait()
	}
	if l.err != nil {
		return 0, l.err
	}
	if l.done {
		return 0, io.ErrClosedPipe
	}
	l.pending = append(l.pending, p...)
	l.changed.Broadcast()
	return len(p), nil
}

func (l *link) write() {
	defer close(l.idle)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.pending) == 0 && !l.done {
			l.changed.Wait()
		}
		if len(l.pending) == 0 {
			return
		}
		batch := l.pending
		l.pending = l.spare[:0]
		l.changed.Broadcast()
		l.mu.Unlock()
		_, err := l.rw.Write(batch)
		l.mu.Lock()
		l.spare = batch[:0]
		if err != nil {
			l.err = err
			l.pending = nil
			l.done = true
			l.changed.Broadcast()
		}
	}
}

// closeTime bounds how long Close writes pending data.
const closeTime = 100 * time.Millisecond

// Close writes pending data for at most closeTime and closes the stream below.
func (l *link) Close() error {
	l.mu.Lock()
	l.done = true
	l.changed.Broadcast()
	l.mu.Unlock()
	select {
	case <-l.idle:
	case <-time.After(closeTime):
	}
	return l.rw.Close()
}
