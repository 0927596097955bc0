// Package qmp is a client of the QEMU Machine Protocol: JSON commands over a
// stream, one object per line.
//
// Source: QEMU, docs/interop/qmp-spec.rst.
package qmp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds one object, in bytes.
const maxLine = 1 << 20

// Version is the version of QEMU.
type Version struct {
	Major, Minor, Micro int
	Package             string
}

// String returns "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".
func (v Version) String() string {
	s := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	if v.Package != "" {
		s += " (" + v.Package + ")"
	}
	return s
}

// Error is QEMU's refusal of a command.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string { return e.Desc + " (" + e.Class + ")" }

// ErrClosed is the error of a command whose connection ended.
var ErrClosed = errors.New("the monitor's connection has ended")

// Client is a connection to a monitor. Its methods may be called
// concurrently.
type Client struct {
	rw      io.ReadWriteCloser
	version Version

	wmu sync.Mutex

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	ended   error
	done    chan struct{}
}

// message is any object from QEMU.
type message struct {
	QMP *struct {
		Version struct {
			QEMU    struct{ Major, Minor, Micro int } `json:"qemu"`
			Package string                            `json:"package"`
		} `json:"version"`
	} `json:"QMP"`
	ID     *int            `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
}

// New connects to the monitor at the other end of rw, which it owns, and ends
// the negotiation. It ignores events.
func New(ctx context.Context, rw io.ReadWriteCloser) (*Client, error) {
	c := &Client{rw: rw, waiting: map[int]chan message{}, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { rw.Close() })
	defer stop()
	in := bufio.NewReaderSize(rw, 4<<10)
	m, err := readMessage(in)
	if err == nil && m.QMP == nil {
		err = errors.New("this is not a QEMU monitor")
	}
	if err != nil {
		rw.Close()
		return nil, fmt.Errorf("qmp: greeting: %w", first(ctx.Err(), err))
	}
	v := m.QMP.Version
	c.version = Version{v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro, v.Package}
	go c.read(in)
	if err := c.Execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func first(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// Version returns QEMU's version.
func (c *Client) Version() Version { return c.version }

// Close ends the connection; the machine continues.
func (c *Client) Close() error { return c.rw.Close() }

// Execute runs a command. arguments and result are JSON values or nil. If QEMU
// refuses the command, the error is an *Error.
func (c *Client) Execute(ctx context.Context, command string, arguments, result any) error {
	ch := make(chan message, 1)
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return fmt.Errorf("qmp: %s: %w", command, c.ended)
	}
	c.last++
	id := c.last
	c.waiting[id] = ch
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	if err := c.write(id, command, arguments); err != nil {
		return fmt.Errorf("qmp: %s: %w", command, err)
	}
	select {
	case m := <-ch:
		if m.Error != nil {
			return fmt.Errorf("qmp: %s: %w", command, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Return, result); err != nil {
				return fmt.Errorf("qmp: %s: its result: %w", command, err)
			}
		}
		return nil
	case <-c.done:
		return fmt.Errorf("qmp: %s: %w", command, ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("qmp: %s: %w", command, ctx.Err())
	}
}

func (c *Client) write(id int, command string, arguments any) error {
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        int    `json:"id"`
	}{command, arguments, id})
	if err != nil {
		return err
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, err = c.rw.Write(append(text, '\n'))
	return err
}

// read delivers answers until the connection ends.
func (c *Client) read(in *bufio.Reader) {
	defer close(c.done)
	for {
		m, err := readMessage(in)
		if err != nil {
			c.rw.Close()
			c.mu.Lock()
			c.ended = ErrClosed
			if err != io.EOF {
				c.ended = fmt.Errorf("%w: %w", ErrClosed, err)
			}
			c.mu.Unlock()
			return
		}
		if m.ID == nil {
			continue // an event
		}
		c.mu.Lock()
		if ch := c.waiting[*m.ID]; ch != nil {
			delete(c.waiting, *m.ID) // a second answer goes nowhere
			ch <- m
		}
		c.mu.Unlock()
	}
}

// readMessage reads one line.
func readMessage(in *bufio.Reader) (message, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return message{}, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return message{}, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			break
		}
	}
	var m message
	err := json.Unmarshal(line, &m)
	return m, err
}
