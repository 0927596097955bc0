package conn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/shell"
)

// OutputLimit bounds what Output and OutputOf keep of a stream, in bytes.
const OutputLimit = 4 << 20

// Output runs argv on c and returns its standard output; see OutputOf.
func Output(ctx context.Context, c Conn, argv ...string) ([]byte, error) {
	return OutputOf(ctx, c, Command(argv...))
}

// OutputOf runs cmd on c and returns its standard output. A program that prints
// more than OutputLimit is killed. Stdout and Stderr of cmd are ignored. A
// program that fails is an error of kind fault.Lab with the end of its standard
// error: use it for bakeoff's own commands, not for what is measured.
func OutputOf(ctx context.Context, c Conn, cmd Cmd) ([]byte, error) {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	out := head{full: cancel}
	errs := Tail{Limit: 2048}
	cmd.Stdout, cmd.Stderr = &out, &errs
	exit, err := c.Exec(limited, cmd)
	switch {
	case out.over:
		return nil, fault.New(fault.Lab, "%s: output is longer than %d bytes", brief(cmd.Argv), OutputLimit)
	case err != nil:
		return out.Bytes(), err
	case !exit.OK():
		return out.Bytes(), fault.New(fault.Lab, "%s: %w", brief(cmd.Argv), &ExitError{exit, stderrSuffix(errs.Bytes())})
	}
	return out.Bytes(), nil
}

// AdminOutput is OutputOf for a program that administers a system: it is looked up in
// the folders sbin, too, and prints in the C locale. env is added to its environment.
func AdminOutput(ctx context.Context, c Conn, env []string, argv ...string) ([]byte, error) {
	return OutputOf(ctx, c, Cmd{Argv: argv, Env: append([]string{
		"PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}, env...)})
}

// ExitError says that a program was executed and failed. If it could not be
// executed, or its exit status is unknown, the error has another type.
type ExitError struct {
	Exit
	said string // ": " and the end of its standard error, or ""
}

func (e *ExitError) Error() string { return e.Exit.String() + e.said }

// head keeps OutputLimit bytes and calls full if there are more.
type head struct {
	bytes.Buffer
	over bool
	full func()
}

func (h *head) Write(p []byte) (int, error) {
	if h.Len()+len(p) > OutputLimit {
		h.over = true
		h.full()
		return len(p), nil
	}
	return h.Buffer.Write(p)
}

// brief returns an argument vector in a short form for messages.
func brief(argv []string) string {
	s := shell.Quote(argv...)
	if len(s) > 160 {
		s = s[:157] + "..."
	}
	return fmt.Sprintf("%q", s)
}

// stderrSuffix returns the end of a program's standard error in one line.
func stderrSuffix(b []byte) string {
	s := safetext.Line(strings.Join(strings.Fields(string(b)), " "))
	if s == "" {
		return ""
	}
	return ": " + s
}

// Head is an io.Writer that keeps the first Limit bytes and discards the rest.
// Write never fails, so it does not block the program on the other side.
type Head struct {
	Limit int
	Cut   bool // something was discarded
	buf   []byte
}

// Write keeps p up to the limit; it never fails.
func (h *Head) Write(p []byte) (int, error) {
	keep := min(len(p), h.Limit-len(h.buf))
	h.buf = append(h.buf, p[:keep]...)
	h.Cut = h.Cut || keep < len(p)
	return len(p), nil
}

// Bytes returns what was kept.
func (h *Head) Bytes() []byte { return h.buf }

// Tail is an io.Writer that keeps the last Limit bytes. Its methods may be called
// concurrently.
type Tail struct {
	Limit int
	Lost  int64 // bytes that were dropped from the front; read it after the last Write
	mu    sync.Mutex
	buf   []byte
}

// Write keeps the last bytes; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := n - t.Limit; over > 0 {
		t.Lost += int64(over)
		p = p[over:]
	}
	t.buf = append(t.buf, p...)
	// Trim rarely, so that a long output is not copied at each write.
	if over := len(t.buf) - t.Limit; over > t.Limit {
		t.Lost += int64(over)
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return n, nil
}

// Bytes returns a copy of the last Limit bytes that were written.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(t.buf) - t.Limit; over > 0 {
		t.Lost += int64(over)
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return bytes.Clone(t.buf)
}

// Both returns a writer to keep and, unless it is nil, to w.
func Both(keep, w io.Writer) io.Writer {
	if w == nil {
		return keep
	}
	return io.MultiWriter(keep, w)
}

// Prefix returns c with argv put before every program that it executes:
// Prefix(c, "ip", "netns", "exec", "lab") runs everything in a network
// namespace. The prefix must execute what follows it, so that exit codes and
// signals are the program's. Push, Pull and Dial are those of c.
func Prefix(c Conn, argv ...string) Conn {
	return prefixed{Conn: c, argv: argv}
}

type prefixed struct {
	Conn
	argv []string
}

func (p prefixed) Exec(ctx context.Context, cmd Cmd) (Exit, error) {
	if len(cmd.Argv) == 0 {
		return Exit{}, fault.New(fault.Invalid, "exec: no program given")
	}
	cmd.Argv = append(append([]string{}, p.argv...), cmd.Argv...)
	return p.Conn.Exec(ctx, cmd)
}
