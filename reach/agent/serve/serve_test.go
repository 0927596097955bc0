package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/conntest"
)

// connect returns a way to an agent that serves in this process, over two
// ends of a pipe. junk lies in the line before the conversation begins.
func connect(t *testing.T, o Options, junk []byte) *channel.Conn {
	t.Helper()
	host, guest := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Host(context.Background(), guest, o)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if junk != nil {
		if _, err := host.Write(junk); err != nil {
			t.Fatal(err)
		}
	}
	c, err := channel.Open(ctx, host, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the agent did not end with its host")
		}
	})
	return c
}

func execIn(t *testing.T, c conn.Conn, cmd conn.Cmd) (string, string, conn.Exit) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	exit, err := c.Exec(t.Context(), cmd)
	if err != nil {
		t.Fatalf("%q: %v", cmd.Argv, err)
	}
	return out.String(), errs.String(), exit
}

func TestContract(t *testing.T) {
	conntest.Run(t, connect(t, Options{}, nil), conntest.Options{Dir: t.TempDir()})
}

func TestExec(t *testing.T) {
	c := connect(t, Options{}, nil)
	out, errs, exit := execIn(t, c, conn.Cmd{
		Argv:  []string{"sh", "-c", `cat; echo "$X $HOME" >&2; pwd >&2; exit 7`},
		Env:   []string{"X=set", "HOME=/there"},
		Dir:   "/",
		Stdin: strings.NewReader("in\x00put"),
	})
	if out != "in\x00put" || errs != "set /there\n/\n" || exit.Code != 7 {
		t.Errorf("got %q, %q, %v", out, errs, exit)
	}
	if _, _, exit := execIn(t, c, conn.Command("sh", "-c", "kill -9 $$")); exit.Code != 137 || exit.Signal != "killed" {
		t.Errorf("a killed program: %+v", exit)
	}
	if out, _, _ := execIn(t, c, conn.Command("wc", "-c")); strings.TrimSpace(out) != "0" {
		t.Errorf("without Stdin a program read %q bytes", out)
	}
}

func TestExecRefuses(t *testing.T) {
	c := connect(t, Options{}, nil)
	for _, tt := range []struct {
		cmd  conn.Cmd
		kind fault.Kind
	}{
		{conn.Command("no-such-program-anywhere"), fault.NotFound},
		{conn.Command("/no/such/program"), fault.NotFound},
		{conn.Cmd{Argv: []string{"true"}, Dir: "/no/such/dir"}, fault.Invalid},
		{conn.Command(), fault.Invalid},
		{conn.Command("true", strings.Repeat("x", channel.MaxPayload)), fault.Invalid},
	} {
		if _, err := c.Exec(t.Context(), tt.cmd); !fault.Is(err, tt.kind) {
			t.Errorf("%.40q: %v, want kind %v", tt.cmd.Argv, err, tt.kind)
		}
	}
}

// A program that ignores its input and fills its output must be killed by a
// cancelled context all the same, and with it what it started.
func TestExecCancelled(t *testing.T) {
	c := connect(t, Options{}, nil)
	mark := filepath.Join(t.TempDir(), "alive")
	ctx, cancel := context.WithCancel(t.Context())
	began := make(chan struct{})
	go func() {
		<-began
		cancel()
	}()
	stdin, feed := io.Pipe() // never ends
	defer feed.Close()
	go feed.Write(make([]byte, 8<<20))
	_, err := c.Exec(ctx, conn.Cmd{
		Argv:   []string{"sh", "-c", `echo; while :; do echo x >>"$0"; sleep 0.02; done & sleep 60`, mark},
		Stdin:  stdin,
		Stdout: writerFunc(func(p []byte) (int, error) { close(began); return len(p), nil }),
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	size := func() int64 { // of what the left-behind loop writes
		info, err := os.Stat(mark)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	// It is killed a moment after the request was given up, and may have a write
	// under way.
	end := time.Now().Add(time.Minute)
	for last := int64(-1); last != size(); time.Sleep(150 * time.Millisecond) {
		if last = size(); time.Now().After(end) {
			t.Fatalf("what the program started goes on: %d bytes", last)
		}
	}
	if out, _, _ := execIn(t, c, conn.Command("echo", "still here")); out != "still here\n" {
		t.Errorf("after a cancelled request: %q", out)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// What a program leaves behind does not hold its result back, and lives.
func TestExecLeavesBehind(t *testing.T) {
	c := connect(t, Options{}, nil)
	began := time.Now()
	out, _, exit := execIn(t, c, conn.Command("sh", "-c", "setsid sleep 60 & echo $!"))
	if took := time.Since(began); took > 30*time.Second || !exit.OK() {
		t.Errorf("took %v, %v", took, exit)
	}
	if _, _, exit := execIn(t, c, conn.Command("kill", strings.TrimSpace(out))); !exit.OK() {
		t.Error("what was left behind did not live")
	}
}

func TestLargeOutputToASlowReader(t *testing.T) {
	c := connect(t, Options{}, nil)
	const n = 20 << 20
	var got int
	_, err := c.Exec(t.Context(), conn.Cmd{
		Argv: []string{"head", "-c", fmt.Sprint(n), "/dev/zero"},
		Stdout: writerFunc(func(p []byte) (int, error) {
			if got == 0 {
				time.Sleep(3 * linger) // the program ends meanwhile or waits
			}
			got += len(p)
			return len(p), nil
		}),
	})
	if err != nil || got != n {
		t.Errorf("got %d bytes of %d, %v", got, n, err)
	}
}

// A file that is no program is found, and cannot be executed: code 126, as a
// shell has it.
func TestExecOfAText(t *testing.T) {
	c := connect(t, Options{}, nil)
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, exit := execIn(t, c, conn.Command(path)); exit.Code != 126 || errs == "" {
		t.Errorf("got %v, %q", exit, errs)
	}
}

// What was written before the program ended is not lost, however long the
// host takes to read it.
func TestLastWordsOfAQuickProgram(t *testing.T) {
	c := connect(t, Options{}, nil)
	var got, writes int
	_, err := c.Exec(t.Context(), conn.Cmd{
		// The background process holds the pipe open.
		Argv: []string{"sh", "-c", "sleep 5 & head -c 3000000 /dev/zero"},
		Stdout: writerFunc(func(p []byte) (int, error) {
			if writes++; writes <= 4 {
				time.Sleep(3 * linger / 2)
			}
			got += len(p)
			return len(p), nil
		}),
	})
	if err != nil || got != 3000000 {
		t.Errorf("got %d bytes, %v", got, err)
	}
}

// What was in the pipe in time is read, if late.
func TestOutputIsReadLate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	// The program ended after Read had asked whether it had, and the deadline passed.
	r.SetReadDeadline(time.Unix(1, 0))
	o := &output{f: r, ended: new(atomic.Bool), left: afterlife}
	buf := make([]byte, 9)
	if n, err := o.Read(buf); string(buf[:n]) != "text" || err != nil {
		t.Errorf("%q, %v", buf[:n], err)
	}
	o.ended.Store(true)
	if n, err := o.Read(buf); n != 0 || err != io.EOF {
		t.Errorf("then %q, %v", buf[:n], err)
	}
}

func TestPushPull(t *testing.T) {
	c := connect(t, Options{}, nil)
	data := make([]byte, 5<<20+7)
	rand.Read(data)
	path := filepath.Join(t.TempDir(), "file")
	if err := c.Push(t.Context(), path, 0o751, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", info, err)
	}
	h := sha256.New()
	if err := c.Pull(t.Context(), path, h); err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(data); !bytes.Equal(h.Sum(nil), want[:]) {
		t.Error("what was pulled is not what was pushed")
	}
	if err := c.Pull(t.Context(), path+"x", io.Discard); !fault.Is(err, fault.NotFound) {
		t.Errorf("a missing file: %v", err)
	}
	if err := c.Pull(t.Context(), "/dev/zero", io.Discard); !fault.Is(err, fault.Invalid) {
		t.Errorf("a device: %v", err)
	}
	if err := c.Push(t.Context(), "relative", 0o644, strings.NewReader("")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a relative path: %v", err)
	}
}

// A file whose source fails is not put in place, and leaves nothing.
func TestPushIsWholeOrNot(t *testing.T) {
	c := connect(t, Options{}, nil)
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the source broke")
	src := io.MultiReader(strings.NewReader(strings.Repeat("new", 100000)),
		readerFunc(func([]byte) (int, error) { return 0, broken }))
	if err := c.Push(t.Context(), path, 0o644, src); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %.20q", got)
	}
	left := -1
	for range 1000 { // the agent notices a little later
		entries, _ := os.ReadDir(dir)
		if left = len(entries); left == 1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if left != 1 {
		t.Errorf("%d files are left", left)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestDial(t *testing.T) {
	c := connect(t, Options{}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			s, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // answers when it has read everything: half-closing must work
				defer s.Close()
				all, _ := io.ReadAll(s)
				s.Write(bytes.ToUpper(all))
			}()
		}
	}()
	p, err := c.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
	p.SetReadDeadline(time.Time{})
	text := strings.Repeat("half closed ", 50000)
	if _, err := io.WriteString(p, text); err != nil {
		t.Fatal(err)
	}
	if err := p.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(p)
	if err != nil || string(got) != strings.ToUpper(text) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := c.Dial(t.Context(), "tcp", "127.0.0.1:1"); !fault.Is(err, fault.Subject) {
		t.Errorf("a refused connection: %v", err)
	}
}

func TestCall(t *testing.T) {
	c := connect(t, Options{Functions: map[string]Function{
		"double": func(_ context.Context, p json.RawMessage) (any, error) {
			var n int
			err := json.Unmarshal(p, &n)
			return 2 * n, err
		},
		"fail": func(context.Context, json.RawMessage) (any, error) {
			return nil, fault.New(fault.Unsupported, "cannot\x1b[31m")
		},
	}}, nil)
	var n int
	if err := c.Call(t.Context(), "double", 21, &n); err != nil || n != 42 {
		t.Errorf("got %d, %v", n, err)
	}
	if err := c.Call(t.Context(), "fail", nil, nil); !fault.Is(err, fault.Unsupported) ||
		strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %q", err)
	}
	if err := c.Call(t.Context(), "nothing", nil, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf("got %v", err)
	}
	before := time.Now().UnixNano()
	k, err := c.Clock(t.Context())
	if err != nil || k.WallNS < before || k.WallNS > time.Now().UnixNano() {
		t.Errorf("clock %+v, %v", k, err)
	}
}

// Whatever an earlier conversation left in the line, the next one begins.
func TestResync(t *testing.T) {
	junk := append(bytes.Repeat([]byte{0, 0, 0, 1, 0xb5, 'B'}, 5000), "\xb5BAKEOF?half a ping"...)
	c := connect(t, Options{}, junk)
	if out, _, _ := execIn(t, c, conn.Command("echo", "found")); out != "found\n" {
		t.Errorf("got %q", out)
	}
}

// A host that dies in the middle of a request leaves a line on which the
// next host is answered.
func TestSecondHostOnTheSameLine(t *testing.T) {
	host, guest := net.Pipe()
	go func() {
		for { // as init does on its port
			guest.SetReadDeadline(time.Time{})
			if err := Host(t.Context(), keepOpen{guest}, Options{}); errors.Is(err, io.EOF) || t.Context().Err() != nil {
				return
			}
		}
	}()
	defer host.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, err := channel.Open(ctx, keepOpen{host}, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go first.Exec(ctx, conn.Command("sleep", "60"))
	first.Fail(fault.New(fault.Lab, "the first host dies"))
	host.SetReadDeadline(time.Time{})
	second, err := channel.Open(ctx, host, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if out, _, _ := execIn(t, second, conn.Command("echo", "second")); out != "second\n" {
		t.Errorf("got %q", out)
	}
}

// keepOpen is a line that outlives its conversations.
type keepOpen struct{ net.Conn }

func (k keepOpen) Close() error { return k.SetReadDeadline(time.Unix(1, 0)) }

// A guest that stops answering makes requests fail with the reason, in time.
func TestHungGuest(t *testing.T) {
	host, guest := net.Pipe()
	stuck := &valve{Conn: guest, open: make(chan struct{})}
	go Host(context.Background(), stuck, Options{})
	c, err := channel.Open(t.Context(), host, channel.Options{Silence: 100 * time.Millisecond, Patience: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	defer c.Close()
	if _, _, exit := execIn(t, c, conn.Command("sleep", "6")); !exit.OK() { // longer than both
		t.Fatalf("a quiet program: %v", exit)
	}
	c.Rest(true)
	if _, err := c.Exec(t.Context(), conn.Command("true")); !fault.Is(err, fault.Lab) {
		t.Errorf("a request to a frozen guest: %v", err)
	}
	c.Rest(false)
	stuck.shut.Store(true)
	began := time.Now()
	_, err = c.Exec(t.Context(), conn.Command("true"))
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "does not respond") {
		t.Errorf("a hung guest: %v", err)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %v to notice", took)
	}
	close(stuck.open)
}

// valve is a line whose reader can be stopped.
type valve struct {
	net.Conn
	shut atomic.Bool
	open chan struct{}
}

func (v *valve) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	if v.shut.Load() {
		<-v.open
	}
	return n, err
}

func BenchmarkExec(b *testing.B) {
	host, guest := net.Pipe()
	go Host(context.Background(), guest, Options{})
	c, err := channel.Open(b.Context(), host, channel.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		if _, err := c.Exec(b.Context(), conn.Command("/bin/true")); err != nil {
			b.Fatal(err)
		}
	}
}
