package agent

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"io/fs"
	"net"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// The input format of `bakeoff-agent put`: blocks, each preceded by its length
// in four bytes, big-endian, and a final length of zero. A truncated input is
// thus not mistaken for a whole file.
const maxBlock = 1 << 20

// Blocks returns src in the input format of `bakeoff-agent put`. After an error
// of src it lacks the final mark.
func Blocks(src io.Reader) io.Reader { return &blocks{src: src} }

type blocks struct {
	src  io.Reader
	buf  [4 + 64<<10]byte
	have []byte
	err  error
}

func (b *blocks) Read(p []byte) (int, error) {
	for len(b.have) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		n, err := io.ReadFull(b.src, b.buf[4:])
		if n > 0 {
			binary.BigEndian.PutUint32(b.buf[:], uint32(n))
			b.have = b.buf[:4+n]
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			b.have = append(b.have, 0, 0, 0, 0) // fits: b.buf is full only after a full read
			b.err = io.EOF
		case err != nil:
			b.err = err
		}
	}
	n := copy(p, b.have)
	b.have = b.have[n:]
	return n, nil
}

// unblocked decodes Blocks.
type unblocked struct {
	r    *bufio.Reader
	left int
	done bool
}

func (u *unblocked) Read(p []byte) (int, error) {
	if u.done {
		return 0, io.EOF
	}
	if u.left == 0 {
		var head [4]byte
		if _, err := io.ReadFull(u.r, head[:]); err != nil {
			return 0, errBrokeOff
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxBlock {
			return 0, fault.New(fault.Invalid, "the block has %d bytes; the limit is %d", n, maxBlock)
		}
		if u.left = int(n); n == 0 {
			u.done = true
			return 0, io.EOF
		}
	}
	n, err := u.r.Read(p[:min(len(p), u.left)])
	u.left -= n
	if err != nil {
		return n, errBrokeOff
	}
	return n, nil
}

var errBrokeOff = errors.New("the input is truncated")

// runPut writes standard input to a file, atomically.
func runPut(c command.Call) int {
	f := flag.NewFlagSet("put", flag.ContinueOnError)
	f.SetOutput(c.Stderr)
	mode := f.Uint("mode", 0o644, "permission bits")
	if f.Parse(c.Args) != nil || f.NArg() != 1 {
		return c.Fail(fault.New(fault.Invalid, "put: usage: put [--mode 0644] FILE"))
	}
	src := &unblocked{r: bufio.NewReaderSize(c.Stdin, 64<<10)}
	if err := (local.Conn{}).Push(context.Background(), f.Arg(0), fs.FileMode(*mode), src); err != nil {
		return c.Fail(err)
	}
	return wire.ExitOK
}

// runGet writes a file to standard output.
func runGet(c command.Call) int {
	if len(c.Args) != 1 {
		return c.Fail(fault.New(fault.Invalid, "get: usage: get FILE"))
	}
	if err := (local.Conn{}).Pull(context.Background(), c.Args[0], c.Stdout); err != nil {
		return c.Fail(err)
	}
	return wire.ExitOK
}

// dialMark precedes the first byte of the connection in dial's output.
const dialMark = "connected\n"

// runDial opens a connection and copies between it and the standard streams.
func runDial(c command.Call) int {
	if len(c.Args) != 2 {
		return c.Fail(fault.New(fault.Invalid, "dial: usage: dial NETWORK ADDRESS"))
	}
	nc, err := net.Dial(c.Args[0], c.Args[1])
	if err != nil {
		return c.Fail(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(c.Stdout, dialMark); err != nil {
		return c.Fail(err)
	}
	go func() {
		io.Copy(nc, c.Stdin)
		if w, ok := nc.(interface{ CloseWrite() error }); ok {
			w.CloseWrite()
		}
	}()
	io.Copy(c.Stdout, nc)
	return wire.ExitOK
}

// DialThrough opens a connection by running `bakeoff-agent dial` on the other
// side: exec runs it with these streams.
func DialThrough(ctx context.Context, exec func(ctx context.Context, stdin io.Reader, stdout io.Writer) error) (
	net.Conn, error) {
	ours, theirs := net.Pipe()
	relay, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		err := exec(relay, theirs, theirs)
		theirs.Close()
		ended <- err
	}()
	connected := make(chan error, 1)
	go func() {
		mark := make([]byte, len(dialMark))
		_, err := io.ReadFull(ours, mark)
		if err == nil && string(mark) != dialMark {
			err = fault.New(fault.Lab, "unexpected output of bakeoff-agent: %q", mark)
		}
		connected <- err
	}()
	fail := func(err error) (net.Conn, error) {
		cancel()
		ours.Close()
		return nil, err
	}
	select {
	case err := <-connected:
		if err == nil {
			return &relayed{Conn: ours, cancel: cancel}, nil
		}
		if eerr := <-ended; eerr != nil {
			err = eerr
		}
		return fail(err)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
}

// DialBy opens a connection where c executes, by the agent at the path program there.
func DialBy(ctx context.Context, c conn.Conn, program, network, address string) (net.Conn, error) {
	nc, err := DialThrough(ctx, func(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
		said := conn.Tail{Limit: 1024}
		exit, err := c.Exec(ctx, conn.Cmd{Argv: []string{program, "dial", network, address}, Stdin: stdin, Stdout: stdout,
			Stderr: &said})
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "%s: %s", exit, said.Bytes())
		}
		return err
	})
	return nc, fault.Op("dial "+network+" "+address, err)
}

// relayed stops its relay when it is closed.
type relayed struct {
	net.Conn
	once   sync.Once
	cancel func()
}

func (r *relayed) Close() error {
	err := r.Conn.Close()
	r.once.Do(r.cancel)
	return err
}
