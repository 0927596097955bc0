package local

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"bakeoff/reach/conn"
)

// plumbing holds the pipes between a program and its streams.
//
// os/exec has its own, but with them Wait blocks until every process that
// inherited a pipe has closed it: a server started in the background would
// block it without end.
type plumbing struct {
	theirs []*os.File // given to the program, closed when it has started
	ours   []*os.File
	stdin  io.Reader
	in     *os.File // our end of the program's standard input
	copies []*outlet
	wg     sync.WaitGroup
}

// outlet copies one output stream.
type outlet struct {
	from *os.File
	to   io.Writer
	err  error
}

// plumb connects cmd's streams to p.
func plumb(p *exec.Cmd, cmd conn.Cmd) (pl *plumbing, err error) {
	pl = &plumbing{}
	defer func() {
		if err != nil {
			pl.close()
		}
	}()
	if f, ok := cmd.Stdin.(*os.File); ok {
		p.Stdin = f
	} else if cmd.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return pl, err
		}
		pl.theirs, pl.in, pl.stdin = append(pl.theirs, r), w, cmd.Stdin
		p.Stdin = r
	}
	if p.Stdout, err = pl.outlet(cmd.Stdout); err != nil {
		return pl, err
	}
	p.Stderr, err = pl.outlet(cmd.Stderr)
	return pl, err
}

// outlet returns what the program gets as the stream w.
func (pl *plumbing) outlet(w io.Writer) (io.Writer, error) {
	if w == nil {
		return nil, nil
	}
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	r, theirs, err := OutputPipe()
	if err != nil {
		return nil, err
	}
	pl.theirs = append(pl.theirs, theirs)
	pl.ours = append(pl.ours, r)
	pl.copies = append(pl.copies, &outlet{from: r, to: w})
	return theirs, nil
}

// run starts the copying, after the program has started.
func (pl *plumbing) run() {
	for _, f := range pl.theirs {
		f.Close()
	}
	pl.theirs = nil
	if pl.in != nil {
		// close() also closes it: a process that stays behind may hold
		// the other end without reading.
		in, src := pl.in, pl.stdin
		go func() {
			io.Copy(in, src) // a program may stop reading: not an error
			in.Close()
		}()
	}
	for _, o := range pl.copies {
		pl.wg.Go(o.copy)
	}
}

// copy reads to the end, or until drain sets a deadline because the program has
// ended. Then it reads what is left in the pipe and does not wait for more.
func (o *outlet) copy() {
	buf := make([]byte, 64<<10)
	read := o.from.Read
	now := func(buf []byte) (int, error) { return ReadNow(o.from, buf) }
	for {
		n, err := read(buf)
		if n > 0 && o.err == nil {
			// Keep reading when the writer fails: a full pipe would
			// block the program.
			_, o.err = o.to.Write(buf[:n])
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			read = now
		case err != nil || n == 0:
			return
		}
	}
}

// drain ends the copying after the program has ended, and returns the first
// error of a writer.
func (pl *plumbing) drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() { pl.wg.Wait(); close(done) }()
	for _, f := range pl.ours {
		f.SetReadDeadline(time.Unix(1, 0))
	}
	select {
	case <-done:
	case <-ctx.Done(): // the writer is stuck
		pl.stop()
		return ctx.Err()
	}
	for _, o := range pl.copies {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// stop ends the copying at once. It waits at most one second for a blocked
// writer.
func (pl *plumbing) stop() {
	for _, f := range pl.ours {
		f.SetReadDeadline(time.Unix(1, 0))
	}
	done := make(chan struct{})
	go func() { pl.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

func (pl *plumbing) close() {
	for _, f := range append(pl.theirs, pl.ours...) {
		f.Close()
	}
	if pl.in != nil {
		pl.in.Close()
	}
}
