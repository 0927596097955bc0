package qemu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
)

// debugArgs is the part of the command line with the debug port. QEMU waits until bakeoff
// reads it, so that nothing is lost.
func (m *Machine) debugArgs() []string {
	if m.DebugPort == "" {
		return nil
	}
	return []string{"-chardev", "socket,id=debug,path=" + m.socketPath(socketDebug) + ",server=on,wait=on",
		"-device", "isa-debugcon,iobase=" + m.DebugPort + ",chardev=debug"}
}

// maxWrites bounds what is kept of a debug port, in bytes, and maxWrite one line of it.
const (
	maxWrites = 128 << 10
	maxWrite  = 200
)

// writes is what a guest wrote to its debug port.
type writes struct {
	port string

	mu    sync.Mutex
	list  []write
	bytes int
	lost  bool
	line  []byte // not ended yet
	began write  // its first byte
}

// write is a line of text, or a byte that is not text.
type write struct {
	// at is when it arrived, and late by how much that may be after the write; negative
	// means that nobody knows.
	at   time.Time
	late time.Duration
	text string
}

// readPort keeps what arrives until the port is closed, which is when QEMU ends. On the
// controller's own machine a write arrives at once, so it lies between two looks at the
// socket.
func (w *writes) readPort(from net.Conn, near bool) {
	defer from.Close()
	buf := make([]byte, 4096)
	looked := time.Now()
	for {
		began := time.Now()
		err := from.SetReadDeadline(began.Add(time.Millisecond))
		near = near && err == nil
		n, err := from.Read(buf)
		now := time.Now()
		late := now.Sub(looked)
		if !near {
			late = -1
		}
		if looked = began; n > 0 {
			w.addBytes(buf[:n], now, late)
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// addBytes takes bytes apart into lines and codes.
func (w *writes) addBytes(b []byte, at time.Time, late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range b {
		text := c == '\t' || c >= ' ' && c <= '~'
		if !text || len(w.line) == maxWrite {
			w.endLine()
		}
		switch {
		case text && len(w.line) == 0:
			w.began = write{at: at, late: late}
			w.line = append(w.line, c)
		case text:
			w.line = append(w.line, c)
		case c != '\n' && c != '\r':
			w.keepWrite(write{at, late, fmt.Sprintf("%#02x", c)})
		}
	}
}

// endLine keeps the line so far.
func (w *writes) endLine() {
	if text := strings.TrimSpace(string(w.line)); text != "" {
		w.keepWrite(write{w.began.at, w.began.late, text})
	}
	w.line = w.line[:0]
}

func (w *writes) keepWrite(one write) {
	if w.bytes += len(one.text); w.bytes > maxWrites {
		w.lost = true
		return
	}
	w.list = append(w.list, one)
}

// mergeInto adds the writes to a log of QEMU, in the form and on the clock of its own events.
func (w *writes) mergeInto(log *driver.HypervisorLog) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLine()
	log.Lost = log.Lost || w.lost
	type line struct {
		at   int64 // microseconds
		text []byte
	}
	var all []line
	for text := range bytes.Lines(log.Text) {
		m := event.FindSubmatch(text)
		if m == nil {
			continue
		}
		s, _ := strconv.ParseInt(string(m[1]), 10, 64) // bounded by the pattern
		us, _ := strconv.ParseInt(string(m[2]), 10, 64)
		all = append(all, line{s*1e6 + us, text})
	}
	for _, x := range w.list {
		within := "?"
		at := x.at
		if x.late >= 0 {
			at = at.Add(-x.late / 2)
			within = strconv.FormatInt((x.late/2).Microseconds()+1, 10)
		}
		us := log.Stamp.Add(at.Sub(log.At)).UnixMicro()
		all = append(all, line{us, fmt.Appendf(nil, "0@%d.%06d:debug_port_write port %s within %s us: %s\n", us/1e6, us%1e6,
			w.port, within, safetext.Line(x.text))})
	}
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	log.Text = nil
	for _, l := range all {
		log.Text = append(log.Text, l.text...)
	}
}

// openDebugPort connects to the debug port, which lets the machine start, and reads it.
func (g *Guest) openDebugPort(ctx context.Context) error {
	if g.DebugPort == "" {
		return nil
	}
	rw, err := g.dialSocket(ctx, socketDebug)
	if err != nil {
		return fault.Op("debug-port", err)
	}
	near, err := sameKernel(ctx, g.Host)
	if err != nil {
		rw.Close()
		return err
	}
	g.writes = &writes{port: g.DebugPort}
	go g.writes.readPort(rw, near)
	return nil
}
