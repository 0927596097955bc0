// Package serve answers a host: it starts programs, copies files, opens connections and calls
// functions in the environment or on the machine where the agent runs. The host's end is
// bakeoff/reach/conn/channel.
package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/hostpath"
	"bakeoff/reach/agent/clock"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"

	"github.com/hashicorp/yamux"
)

// Function is a function that the host can call by name. params is JSON of at
// most channel.MaxPayload bytes; the value must be encodable as JSON.
type Function func(ctx context.Context, params json.RawMessage) (value any, err error)

// Options say what Host offers in addition to the operations of the
// channel.
type Options struct {
	// Functions are offered in addition to "clock".
	Functions map[string]Function
	// Launch starts programs; nil starts them as plain children.
	Launch Launcher
}

// Launcher starts programs.
type Launcher interface {
	// Launch starts a program in its own session.
	Launch(path string, argv []string, attr *os.ProcAttr) (Process, error)
}

// Process is a program that was started.
type Process interface {
	// Wait returns how it ended. It is called once.
	Wait() (channel.Result, error)
	// Kill kills it and everything that it started. It may be called at any
	// time.
	Kill()
	// Release releases its remaining resources.
	Release()
}

// maxRequests bounds the number of concurrent requests.
const maxRequests = 1024

// Host serves one host on port until port or ctx ends. Then it kills what the
// host started, except background processes. It returns io.EOF for a port
// without a connected host.
func Host(ctx context.Context, port io.ReadWriteCloser, o Options) error {
	r, err := channel.Answer(port)
	if err != nil {
		return err
	}
	return serveHost(ctx, r, port, o)
}

// serveHost is Host after the greeting, which returned r.
func serveHost(ctx context.Context, r io.Reader, port io.ReadWriteCloser, o Options) error {
	session, err := yamux.Server(channel.Link(r, port), channel.Config(maxRequests, time.Minute))
	if err != nil {
		return err
	}
	if o.Launch == nil {
		o.Launch = singly{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{options: o, cancels: map[uint64]context.CancelFunc{}}
	defer s.requests.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			session.Close()
			return err
		}
		s.requests.Add(1)
		go func() {
			defer s.requests.Done()
			defer stream.Close()
			s.answer(ctx, &reply{stream: stream, in: bufio.NewReaderSize(stream, 4<<10)})
		}()
	}
}

type server struct {
	options  Options
	requests sync.WaitGroup
	mu       sync.Mutex
	cancels  map[uint64]context.CancelFunc
}

// reply is the agent's side of a request.
type reply struct {
	stream *yamux.Stream
	in     *bufio.Reader
	buf    []byte
	wmu    sync.Mutex
}

func (r *reply) send(kind byte, payload []byte) error {
	r.wmu.Lock()
	defer r.wmu.Unlock()
	_, err := r.stream.Write(channel.AppendFrame(make([]byte, 0, channel.HeaderSize+len(payload)), kind, payload))
	return err
}

func (r *reply) result(res channel.Result) {
	text, err := json.Marshal(res)
	if err == nil && len(text) > channel.MaxPayload {
		err = fmt.Errorf("the result has %d bytes; the limit is %d", len(text), channel.MaxPayload)
	}
	if err != nil {
		r.fault(fault.Wrap(fault.Subject, "agent", err))
		return
	}
	r.send(channel.FrameResult, text)
}

func (r *reply) fault(err error) {
	text, _ := json.Marshal(channel.Fault{Kind: kindOf(err).String(), Message: err.Error()})
	r.send(channel.FrameFault, text)
}

// kindOf classifies an error of the guest's operating system.
func kindOf(err error) fault.Kind {
	var classed *fault.Error
	switch {
	case errors.As(err, &classed):
		return classed.Kind
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound
	}
	return fault.Subject
}

// receive reads the next frame.
func (r *reply) receive() (kind byte, payload []byte, err error) {
	kind, payload, r.buf, err = channel.ReadFrame(r.in, r.buf)
	return kind, payload, err
}

// copyIn copies FrameInput to w until FrameEOF. If w fails, the rest of the
// input is discarded; the failure is returned as werr.
func (r *reply) copyIn(w io.Writer) (werr, err error) {
	for {
		kind, payload, err := r.receive()
		switch {
		case err != nil:
			return werr, err
		case kind == channel.FrameEOF:
			return werr, nil
		case kind != channel.FrameInput:
			return werr, fmt.Errorf("unexpected frame type %q in the input", kind)
		case werr == nil:
			_, werr = w.Write(payload)
		}
	}
}

// copyOut copies src as frames of one kind.
func (r *reply) copyOut(kind byte, src io.Reader) error {
	buf := make([]byte, channel.HeaderSize+channel.ChunkSize)
	for {
		n, err := src.Read(buf[channel.HeaderSize:])
		if n > 0 {
			channel.PutHeader(buf, kind, n)
			r.wmu.Lock()
			_, werr := r.stream.Write(buf[:channel.HeaderSize+n])
			r.wmu.Unlock()
			if werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// begin returns a context that OpKill can cancel.
func (s *server) begin(ctx context.Context, id uint64) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.cancels[id] = cancel
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		delete(s.cancels, id)
		s.mu.Unlock()
		cancel()
	}
}

func (s *server) answer(ctx context.Context, r *reply) {
	kind, payload, err := r.receive()
	if err != nil || kind != channel.FrameAsk {
		return
	}
	var q channel.Request
	if err := json.Unmarshal(payload, &q); err != nil {
		r.fault(fault.Wrap(fault.Invalid, "agent: the request", err))
		return
	}
	if q.Op == channel.OpKill {
		s.mu.Lock()
		if cancel := s.cancels[q.ID]; cancel != nil {
			cancel()
		}
		s.mu.Unlock()
		r.result(channel.Result{})
		return
	}
	ctx, end := s.begin(ctx, q.ID)
	defer end()
	switch q.Op {
	case channel.OpExec:
		s.exec(ctx, r, q)
	case channel.OpPush:
		s.push(ctx, r, q)
	case channel.OpPull:
		s.pull(r, q)
	case channel.OpDial:
		s.dial(ctx, r, q)
	case channel.OpCall:
		s.call(ctx, r, q)
	default:
		r.fault(fault.New(fault.Unsupported, "agent: unsupported operation %q", q.Op))
	}
}

func (s *server) call(ctx context.Context, r *reply, q channel.Request) {
	f := s.options.Functions[q.Name]
	if q.Name == "clock" {
		f = readClock
	}
	if f == nil {
		r.fault(fault.New(fault.Unsupported, "agent: unknown function %q", q.Name))
		return
	}
	v, err := f(ctx, q.Params)
	if err != nil {
		r.fault(err)
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		r.fault(err)
		return
	}
	r.result(channel.Result{Value: text})
}

var started = time.Now()

func readClock(context.Context, json.RawMessage) (any, error) {
	now := time.Now()
	return channel.Clock{MonotonicNS: int64(now.Sub(started)), WallNS: now.UnixNano(), SystemNS: clock.Monotonic()}, nil
}

// push writes a temporary file and then renames it.
func (s *server) push(ctx context.Context, r *reply, q channel.Request) {
	q.Path = hostpath.Local(q.Path)
	if !filepath.IsAbs(q.Path) {
		r.fault(fault.New(fault.Invalid, "agent: path must be absolute (got %q)", q.Path))
		return
	}
	f, err := atomicfile.Create(q.Path, 0o600)
	if err != nil {
		r.fault(err)
		return
	}
	defer f.Discard()
	werr, err := r.copyIn(f)
	if err != nil {
		return // the host is gone
	}
	if werr == nil {
		werr = f.Chmod(fs.FileMode(q.Mode).Perm())
	}
	if werr == nil {
		werr = ctx.Err()
	}
	if werr == nil {
		werr = f.CommitUnsynced()
	}
	if werr != nil {
		r.fault(werr)
		return
	}
	r.result(channel.Result{})
}

func (s *server) pull(r *reply, q channel.Request) {
	// A pipe without a writer is refused instead of blocking.
	f, err := os.OpenFile(hostpath.Local(q.Path), os.O_RDONLY|local.NonBlocking, 0)
	if err != nil {
		r.fault(err)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		r.fault(fault.New(fault.Invalid, "agent: %s is not a regular file", q.Path))
		return
	}
	if err := r.copyOut(channel.FrameOutput, f); err != nil {
		r.fault(err)
		return
	}
	r.result(channel.Result{})
}

func (s *server) dial(ctx context.Context, r *reply, q channel.Request) {
	var d net.Dialer
	c, err := d.DialContext(ctx, q.Network, q.Address)
	if err != nil {
		r.fault(fault.Wrap(fault.Subject, "agent", err))
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	r.result(channel.Result{Local: c.LocalAddr().String(), Remote: c.RemoteAddr().String()})
	in := make(chan struct{})
	go func() {
		defer close(in)
		_, err := r.copyIn(c)
		half, ok := c.(interface{ CloseWrite() error })
		if err != nil || !ok {
			c.Close() // the host is gone, or the connection cannot be half-closed
			return
		}
		half.CloseWrite()
	}()
	if err := r.copyOut(channel.FrameOutput, c); err != nil && ctx.Err() == nil {
		r.fault(fault.Wrap(fault.Subject, "agent", err))
	} else {
		r.send(channel.FrameEOF, nil)
	}
	// Forward what the host sends until it closes the stream.
	<-in
}
