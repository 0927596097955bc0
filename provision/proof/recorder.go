package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"bakeoff/reach/conn"
)

// Line is one operation on a host, as a line of the transcript.
type Line struct {
	N  int    `json:"n"`  // in order of their end
	At string `json:"at"` // when it began
	Op string `json:"op"` // exec, push, pull, dial, read, write, mkdir, rmdir, list
	// Argv, Env and Dir are those of the command. Env has the names of
	// variables only.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	Path string   `json:"path,omitempty"` // of a file, or an address
	// Stdin, Stdout and Stderr are the beginnings of the streams, up to maxKept
	// bytes each; Bytes are their lengths.
	Stdin  string     `json:"stdin,omitempty"`
	Stdout string     `json:"stdout,omitempty"`
	Stderr string     `json:"stderr,omitempty"`
	Bytes  [3]int64   `json:"bytes"`
	Exit   *conn.Exit `json:"exit,omitempty"`
	Err    string     `json:"error,omitempty"`
	MS     float64    `json:"ms"`
}

// maxKept is how much of a stream a transcript keeps, in bytes, and maxLines
// how many lines it has. Later lines are only counted.
const (
	maxKept  = 2 << 10
	maxLines = 50000
)

// Recorder is a conn.Conn that records every operation, one JSON object per
// line.
type Recorder struct {
	inner conn.Conn
	files conn.Files
	now   func() time.Time

	mu    sync.Mutex
	w     io.Writer
	n     int
	ended bool
	err   error
}

var (
	_ conn.Conn  = (*Recorder)(nil)
	_ conn.Files = (*Recorder)(nil)
)

// NewRecorder records the operations on c in w.
func NewRecorder(c conn.Conn, w io.Writer, now func() time.Time) *Recorder {
	return &Recorder{inner: c, files: conn.FilesOf(c), w: w, now: now}
}

// End stops the recording and returns the number of lines.
func (r *Recorder) End() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.n, r.err
}

// Agent is the path of bakeoff-agent on the host, if the host knows it.
func (r *Recorder) Agent() string {
	if a, ok := r.inner.(interface{ Agent() string }); ok {
		return a.Agent()
	}
	return "bakeoff-agent"
}

// line writes a line that began at start.
func (r *Recorder) line(l Line, start time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n++; r.ended || r.n > maxLines {
		return
	}
	l.N, l.At = r.n, start.UTC().Format("2006-01-02T15:04:05.000000Z")
	l.MS = float64(r.now().Sub(start).Microseconds()) / 1000
	if err != nil {
		l.Err = err.Error()
	}
	text, jerr := json.Marshal(l)
	if jerr == nil {
		_, jerr = r.w.Write(append(text, '\n'))
	}
	if r.err == nil {
		r.err = jerr
	}
}

// Exec runs a program and records it.
func (r *Recorder) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	start := r.now()
	l := Line{Op: "exec", Argv: cmd.Argv, Dir: cmd.Dir}
	for _, v := range cmd.Env {
		name, _, _ := strings.Cut(v, "=")
		l.Env = append(l.Env, name)
	}
	in, out, errs := &kept{}, &kept{}, &kept{}
	if cmd.Stdin != nil {
		cmd.Stdin = io.TeeReader(cmd.Stdin, in)
	}
	cmd.Stdout, cmd.Stderr = conn.Both(out, cmd.Stdout), conn.Both(errs, cmd.Stderr)
	exit, err := r.inner.Exec(ctx, cmd)
	if err == nil {
		l.Exit = &exit
	}
	l.Stdin, l.Bytes[0] = in.text()
	l.Stdout, l.Bytes[1] = out.text()
	l.Stderr, l.Bytes[2] = errs.text()
	r.line(l, start, err)
	return exit, err
}

// Push writes a file.
func (r *Recorder) Push(ctx context.Context, dst string, mode fs.FileMode, src io.Reader) error {
	start, in := r.now(), &kept{}
	err := r.inner.Push(ctx, dst, mode, io.TeeReader(src, in))
	l := Line{Op: "push", Path: dst}
	l.Stdin, l.Bytes[0] = in.text()
	r.line(l, start, err)
	return err
}

// Pull reads a file.
func (r *Recorder) Pull(ctx context.Context, src string, dst io.Writer) error {
	start, out := r.now(), &kept{}
	err := r.inner.Pull(ctx, src, conn.Both(out, dst))
	l := Line{Op: "pull", Path: src}
	l.Stdout, l.Bytes[1] = out.text()
	r.line(l, start, err)
	return err
}

// Dial opens a connection. Its data is not recorded.
func (r *Recorder) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	start := r.now()
	c, err := r.inner.Dial(ctx, network, address)
	r.line(Line{Op: "dial", Path: network + " " + address}, start, err)
	return c, err
}

// ReadFile, WriteFile, Mkdir, Rmdir and ReadDir touch small files.
func (r *Recorder) ReadFile(ctx context.Context, path string) ([]byte, error) {
	start := r.now()
	b, err := r.files.ReadFile(ctx, path)
	l := Line{Op: "read", Path: path}
	l.Stdout, l.Bytes[1] = clip(b), int64(len(b))
	r.line(l, start, err)
	return b, err
}

// WriteFile writes to a file that exists.
func (r *Recorder) WriteFile(ctx context.Context, path string, data []byte) error {
	start := r.now()
	err := r.files.WriteFile(ctx, path, data)
	r.line(Line{Op: "write", Path: path, Stdin: clip(data), Bytes: [3]int64{int64(len(data))}}, start, err)
	return err
}

// Mkdir makes a directory.
func (r *Recorder) Mkdir(ctx context.Context, path string) error {
	start := r.now()
	err := r.files.Mkdir(ctx, path)
	r.line(Line{Op: "mkdir", Path: path}, start, err)
	return err
}

// Rmdir removes one.
func (r *Recorder) Rmdir(ctx context.Context, path string) error {
	start := r.now()
	err := r.files.Rmdir(ctx, path)
	r.line(Line{Op: "rmdir", Path: path}, start, err)
	return err
}

// ReadDir lists one.
func (r *Recorder) ReadDir(ctx context.Context, path string) ([]string, error) {
	start := r.now()
	names, err := r.files.ReadDir(ctx, path)
	l := Line{Op: "list", Path: path}
	l.Stdout = clip([]byte(strings.Join(names, "\n")))
	r.line(l, start, err)
	return names, err
}

// kept is the beginning of a stream.
type kept struct {
	mu   sync.Mutex
	head []byte
	n    int64
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n += int64(len(p))
	if room := maxKept - len(k.head); room > 0 {
		k.head = append(k.head, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (k *kept) text() (string, int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return clip(k.head), k.n
}

func clip(b []byte) string {
	return string(bytes.ToValidUTF8(b[:min(len(b), maxKept)], []byte("?")))
}
