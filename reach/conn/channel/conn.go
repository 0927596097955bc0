package channel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Options set how long the channel waits for a silent agent. The zero value
// suits an emulated guest on a busy machine.
type Options struct {
	// Silence is how long the agent may send nothing during a request
	// before the channel pings it (default 5 s).
	Silence time.Duration
	// Patience is how long the answer to the ping may take (default 30 s).
	// After that the guest counts as hung, and every request fails.
	Patience time.Duration
	// Reason is called once when the connection breaks without Close, and
	// returns why the other end is gone. It may wait a moment to find out.
	// If it is nil or returns nil, the channel reports what it saw itself.
	Reason func() error
}

// Conn is a conn.Conn to an agent over one byte stream.
type Conn struct {
	session *yamux.Session
	link    *link
	options Options

	lastID  atomic.Uint64
	active  atomic.Int64 // requests under way
	resting atomic.Bool  // the guest is frozen

	asked  sync.Once // for the reason
	mu     sync.Mutex
	broken error // why the connection broke; nil while it works

	stop context.CancelFunc
}

// Open greets the agent at the other end of rw and returns a connection to it.
// The Conn owns rw; a failed Open closes it. ctx bounds the greeting only.
func Open(ctx context.Context, rw io.ReadWriteCloser, o Options) (*Conn, error) {
	if o.Silence <= 0 {
		o.Silence = 5 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	r, err := Greet(ctx, rw)
	if err != nil {
		return nil, fault.Wrap(fault.Subject, "", err)
	}
	l := newLink(r, rw)
	session, err := yamux.Client(l, Config(1, o.Patience))
	if err != nil {
		rw.Close()
		return nil, fault.Wrap(fault.Lab, "channel", err)
	}
	watch, stop := context.WithCancel(context.Background())
	c := &Conn{session: session, link: l, options: o, stop: stop}
	go c.watch(watch)
	return c, nil
}

// Close ends the session; the agent kills what it runs.
func (c *Conn) Close() error {
	c.fail(fault.New(fault.Lab, "channel: closed"))
	return nil
}

// Fail breaks the connection with a reason that every later request returns.
// The first reason stays.
func (c *Conn) Fail(reason error) { c.fail(reason) }

func (c *Conn) fail(reason error) {
	c.mu.Lock()
	if c.broken == nil {
		c.broken = reason
	}
	c.mu.Unlock()
	c.stop()
	c.session.Close()
}

// Rest says that the guest is about to be frozen (true) or runs again (false).
// A frozen guest may be silent, and requests to it are refused.
func (c *Conn) Rest(resting bool) {
	if !resting {
		c.link.lastRead.Store(time.Now().UnixNano())
	}
	c.resting.Store(resting)
}

// watch pings an agent that is silent during a request.
func (c *Conn) watch(ctx context.Context) {
	tick := time.NewTicker(c.options.Silence / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.session.CloseChan():
			c.hungUp()
			return
		case <-tick.C:
		}
		silent := time.Since(time.Unix(0, c.link.lastRead.Load()))
		if c.active.Load() == 0 || c.resting.Load() || silent < c.options.Silence {
			continue
		}
		if _, err := c.session.Ping(); err != nil && !c.resting.Load() && !c.session.IsClosed() {
			c.fail(fault.New(fault.Subject, "channel: the guest does not respond: nothing received for %v",
				time.Since(time.Unix(0, c.link.lastRead.Load())).Round(100*time.Millisecond)))
			return
		}
	}
}

// hungUp records that the other end is gone, and why.
func (c *Conn) hungUp() {
	c.asked.Do(func() {
		if c.options.Reason != nil {
			if err := c.options.Reason(); err != nil {
				c.fail(err)
			}
		}
		c.fail(fault.New(fault.Subject, "channel: the agent closed the connection"))
	})
}

// Broken returns why the connection broke; nil while it works.
func (c *Conn) Broken() error { return c.reason() }

// reason returns why the connection broke; nil while it works.
func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// why returns the cause of err: the reason of a broken connection, or err
// itself as a fault.Subject.
func (c *Conn) why(err error) error {
	if broken := c.reason(); broken != nil {
		return broken
	}
	if errors.Is(err, yamux.ErrSessionShutdown) || c.session.IsClosed() {
		c.hungUp()
		return c.reason()
	}
	if err == io.EOF { // the end of one stream
		return fault.New(fault.Subject, "channel: the agent ended its answer early")
	}
	var classed *fault.Error
	if errors.As(err, &classed) {
		return err
	}
	return fault.Wrap(fault.Subject, "channel", err)
}

// request is one request in progress.
type request struct {
	c      *Conn
	id     uint64
	stream *yamux.Stream
	in     *bufio.Reader
	buf    []byte
	wmu    sync.Mutex
	once   sync.Once
}

func (c *Conn) ask(req Request) (*request, error) {
	if c.resting.Load() {
		return nil, fault.New(fault.Lab, "channel: the environment is frozen; thaw it first")
	}
	if req.Op != OpKill {
		req.ID = c.lastID.Add(1)
	}
	text, err := json.Marshal(req)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "channel", err)
	}
	if len(text) > MaxPayload {
		return nil, fault.New(fault.Invalid, "channel: the request has %d bytes; the limit is %d", len(text), MaxPayload)
	}
	c.active.Add(1)
	stream, err := c.session.OpenStream()
	if err != nil {
		c.active.Add(-1)
		return nil, c.why(err)
	}
	r := &request{c: c, id: req.ID, stream: stream, in: bufio.NewReaderSize(stream, ChunkSize+HeaderSize)}
	if err := r.send(FrameAsk, text); err != nil {
		r.close()
		return nil, c.why(err)
	}
	return r, nil
}

func (r *request) close() {
	r.once.Do(func() {
		r.stream.Close()
		r.c.active.Add(-1)
	})
}

// abort makes the agent end the request. A read of its answer returns within
// grace.
func (r *request) abort(grace time.Duration) {
	r.stream.SetReadDeadline(time.Now().Add(grace))
	go func() {
		k, err := r.c.ask(Request{Op: OpKill, ID: r.id})
		if err != nil {
			return // the connection is broken, and so is the request
		}
		defer k.close()
		k.stream.SetReadDeadline(time.Now().Add(r.c.options.Patience))
		k.receive(func(byte, []byte) error { return nil })
	}()
}

// abortWith aborts the request when ctx ends.
func (r *request) abortWith(ctx context.Context, grace time.Duration) (stop func() bool) {
	return context.AfterFunc(ctx, func() { r.abort(grace) })
}

func (r *request) send(kind byte, payload []byte) error {
	r.wmu.Lock()
	defer r.wmu.Unlock()
	_, err := r.stream.Write(AppendFrame(make([]byte, 0, HeaderSize+len(payload)), kind, payload))
	return err
}

// sendAll copies src to the agent as FrameInput. It returns src's error. A
// failing stream ends the copy silently, because the reader of the answer
// reports it.
func (r *request) sendAll(src io.Reader) error {
	buf := make([]byte, HeaderSize+ChunkSize)
	for {
		n, err := src.Read(buf[HeaderSize:])
		if n > 0 {
			PutHeader(buf, FrameInput, n)
			r.wmu.Lock()
			_, werr := r.stream.Write(buf[:HeaderSize+n])
			r.wmu.Unlock()
			if werr != nil {
				return nil
			}
		}
		if err == io.EOF {
			r.send(FrameEOF, nil)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive reads frames up to the result. It passes data to sink; an error of
// sink ends the request.
func (r *request) receive(sink func(kind byte, data []byte) error) (Result, error) {
	for {
		kind, payload, buf, err := ReadFrame(r.in, r.buf)
		r.buf = buf
		if err != nil {
			return Result{}, r.c.why(err)
		}
		switch kind {
		case FrameResult:
			var res Result
			if err := json.Unmarshal(payload, &res); err != nil {
				return Result{}, fault.Wrap(fault.Subject, "channel: the agent's result", err)
			}
			return res, nil
		case FrameFault:
			return Result{}, readFault(payload)
		case FrameOutput, FrameErrput:
			if err := sink(kind, payload); err != nil {
				return Result{}, err
			}
		default:
			return Result{}, fault.New(fault.Subject, "channel: unexpected frame type %q in an answer of the agent", kind)
		}
	}
}

// readFault returns the agent's error. The agent speaks for the guest, so an
// error that is not the input's fault is the subject's.
func readFault(payload []byte) error {
	var f Fault
	if err := json.Unmarshal(payload, &f); err != nil {
		return fault.Wrap(fault.Subject, "channel: the agent's error", err)
	}
	kind := fault.Subject
	for _, k := range []fault.Kind{fault.NotFound, fault.Unsupported, fault.Invalid} {
		if f.Kind == k.String() {
			kind = k
		}
	}
	return fault.New(kind, "%s", safetext.Clip(safetext.Text(f.Message), safetext.MaxLine))
}

// errCancelled is the error of a request whose context was cancelled.
func errCancelled(ctx context.Context, what string) error {
	return fmt.Errorf("channel: %s: %w", what, context.Cause(ctx))
}
