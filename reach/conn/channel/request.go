package channel

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/reach/conn"
)

var _ conn.Conn = (*Conn)(nil)

// killWait is how long Exec waits for a cancelled program after asking the
// agent to kill it.
const killWait = 5 * time.Second

// Exec runs a program in the guest. See conn.Conn.
//
// When the program has ended, a read of cmd.Stdin may still be in progress, as
// with any reader that cannot be interrupted; its data is discarded.
func (c *Conn) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if len(cmd.Argv) == 0 || cmd.Argv[0] == "" {
		return conn.Exit{}, fault.New(fault.Invalid, "channel: no program given")
	}
	if ctx.Err() != nil {
		return conn.Exit{}, errCancelled(ctx, cmd.Argv[0])
	}
	r, err := c.ask(Request{Op: OpExec, Argv: cmd.Argv, Env: cmd.Env, Dir: cmd.Dir, Group: cmd.Group,
		Input: cmd.Stdin != nil})
	if err != nil {
		return conn.Exit{}, err
	}
	defer r.close()
	defer r.abortWith(ctx, killWait)()
	srcErr := make(chan error, 1)
	if cmd.Stdin != nil {
		go func() {
			if err := r.sendAll(cmd.Stdin); err != nil {
				srcErr <- err
				r.abort(killWait)
			}
		}()
	}
	res, err := r.receive(func(kind byte, data []byte) error {
		w := cmd.Stdout
		if kind == FrameErrput {
			w = cmd.Stderr
		}
		if w == nil {
			return nil
		}
		_, err := w.Write(data)
		if err != nil {
			r.abort(0)
		}
		return err
	})
	if ctx.Err() != nil {
		return conn.Exit{}, errCancelled(ctx, cmd.Argv[0])
	}
	select {
	case err := <-srcErr:
		return conn.Exit{}, fault.Op("channel: standard input of "+cmd.Argv[0], err)
	default:
	}
	if err != nil {
		return conn.Exit{}, fault.Op(cmd.Argv[0], err)
	}
	return conn.Exit{Code: res.Code, Signal: safetext.Line(res.Signal)}, nil
}

// Push writes a file in the guest. See conn.Conn.
func (c *Conn) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	if ctx.Err() != nil {
		return errCancelled(ctx, "push "+dst)
	}
	r, err := c.ask(Request{Op: OpPush, Path: dst, Mode: uint32(mode.Perm())})
	if err != nil {
		return err
	}
	defer r.close()
	defer r.abortWith(ctx, 0)()
	srcErr := make(chan error, 1)
	go func() {
		err := r.sendAll(src)
		srcErr <- err
		if err != nil { // the agent does not rename an incomplete file
			r.abort(0)
		}
	}()
	_, err = r.receive(func(byte, []byte) error {
		return fault.New(fault.Subject, "channel: unexpected output in the answer to a push")
	})
	if ctx.Err() != nil {
		return errCancelled(ctx, "push "+dst)
	}
	if err != nil {
		select {
		case serr := <-srcErr:
			if serr != nil {
				return fault.Op("channel: push "+dst, serr)
			}
		default:
		}
	}
	return fault.Op("push "+dst, err)
}

// Pull reads a file of the guest. See conn.Conn.
func (c *Conn) Pull(ctx context.Context, src string, dst io.Writer) error {
	if ctx.Err() != nil {
		return errCancelled(ctx, "pull "+src)
	}
	r, err := c.ask(Request{Op: OpPull, Path: src})
	if err != nil {
		return err
	}
	defer r.close()
	defer r.abortWith(ctx, 0)()
	_, err = r.receive(func(_ byte, data []byte) error {
		_, err := dst.Write(data)
		if err != nil {
			r.abort(0)
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		return errCancelled(ctx, "pull "+src)
	}
	return fault.Op("pull "+src, err)
}

// Call calls a function of the agent by name. params and result must be
// encodable as JSON; result may be nil.
func (c *Conn) Call(ctx context.Context, name string, params, result any) error {
	text, err := json.Marshal(params)
	if err != nil {
		return fault.Wrap(fault.Invalid, "channel: call "+name, err)
	}
	r, err := c.ask(Request{Op: OpCall, Name: name, Params: text})
	if err != nil {
		return err
	}
	defer r.close()
	defer r.abortWith(ctx, 0)()
	res, err := r.receive(func(byte, []byte) error {
		return fault.New(fault.Subject, "channel: unexpected output in the answer to a call")
	})
	if err != nil && ctx.Err() != nil {
		return errCancelled(ctx, "call "+name)
	}
	if err == nil && result != nil {
		err = fault.Wrap(fault.Subject, "channel: the agent's value", json.Unmarshal(res.Value, result))
	}
	return fault.Op("call "+name, err)
}

// Clock is a reading of the guest's clocks.
type Clock struct {
	MonotonicNS int64 `json:"monotonic_ns"` // since an arbitrary moment
	WallNS      int64 `json:"wall_ns"`      // Unix time
	// SystemNS is the monotonic clock of the guest's system, which wire.BootReport has,
	// too; 0 if the agent does not say.
	SystemNS int64 `json:"system_ns,omitempty"`
}

// Clock reads the guest's clocks, between the call and its return.
func (c *Conn) Clock(ctx context.Context) (Clock, error) {
	var k Clock
	err := c.Call(ctx, "clock", nil, &k)
	return k, err
}

// Dial connects from inside the guest. See conn.Conn.
func (c *Conn) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, errCancelled(ctx, "dial "+address)
	}
	r, err := c.ask(Request{Op: OpDial, Network: network, Address: address})
	if err != nil {
		return nil, err
	}
	stop := r.abortWith(ctx, 0)
	res, err := r.receive(func(byte, []byte) error {
		return fault.New(fault.Subject, "channel: the agent sent data before the connection was open")
	})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		r.close()
		if ctx.Err() != nil {
			return nil, errCancelled(ctx, "dial "+address)
		}
		return nil, fault.Op("dial "+address, err)
	}
	return &pipe{request: r, local: addr{network, safetext.Line(res.Local)},
		remote: addr{network, safetext.Line(res.Remote)}}, nil
}

type addr struct{ network, text string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.text }

// pipe is a connection that the agent dialed.
type pipe struct {
	*request
	local, remote addr
	left          int // unread bytes of the current frame
	ended         error
	closed        sync.Once
}

// Read does not use ReadFrame, because a deadline in the middle of a frame must
// lose nothing.
func (p *pipe) Read(b []byte) (int, error) {
	for p.left == 0 && p.ended == nil && len(b) > 0 {
		header, err := p.in.Peek(HeaderSize)
		if err != nil {
			return 0, p.failed(err)
		}
		if header[0] != FrameOutput {
			p.ended = p.last()
			break
		}
		p.left = int(binary.BigEndian.Uint32(header[1:]))
		p.in.Discard(HeaderSize)
	}
	if p.ended != nil || len(b) == 0 {
		return 0, p.ended
	}
	n, err := p.in.Read(b[:min(len(b), p.left)])
	p.left -= n
	if err != nil {
		err = p.failed(err)
	}
	return n, err
}

// failed translates the error of a read. A deadline leaves the connection as it
// is.
func (p *pipe) failed(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return os.ErrDeadlineExceeded
	}
	p.ended = io.EOF
	if err != io.EOF || p.left > 0 {
		p.ended = p.c.why(err)
	}
	return p.ended
}

// last reads the frame that ends the connection.
func (p *pipe) last() error {
	kind, payload, _, err := ReadFrame(p.in, nil)
	switch {
	case err != nil:
		return p.c.why(err)
	case kind == FrameEOF:
		return io.EOF
	case kind == FrameFault:
		return readFault(payload)
	}
	return fault.New(fault.Subject, "channel: unexpected frame type %q in a connection", kind)
}

func (p *pipe) Write(b []byte) (int, error) {
	total := 0
	for total < len(b) {
		n := min(len(b)-total, ChunkSize)
		if err := p.send(FrameInput, b[total:total+n]); err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// CloseWrite signals the end of the data to the other end.
func (p *pipe) CloseWrite() error { return p.send(FrameEOF, nil) }

func (p *pipe) Close() error {
	p.closed.Do(func() {
		p.abort(0)
		p.close()
	})
	return nil
}

func (p *pipe) LocalAddr() net.Addr                { return p.local }
func (p *pipe) RemoteAddr() net.Addr               { return p.remote }
func (p *pipe) SetDeadline(t time.Time) error      { return p.stream.SetDeadline(t) }
func (p *pipe) SetReadDeadline(t time.Time) error  { return p.stream.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(t time.Time) error { return p.stream.SetWriteDeadline(t) }
