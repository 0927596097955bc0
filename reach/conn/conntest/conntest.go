// Package conntest is the suite that every conn.Conn passes, whatever carries
// it: nothing, an SSH session, a serial line.
//
// The other side needs a POSIX sh, cat, head, printf, sleep, mkdir and wc.
package conntest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/suite"
	"bakeoff/reach/conn"
)

// Options adapt the suite to a connection.
type Options struct {
	// Dir is a writable, empty directory on the other side, absolute.
	Dir string
	// Bytes is the size of what is pushed, pulled and printed; 0 is 4 MiB.
	// Set less for a serial line of 0.2 MB/s.
	Bytes int
	// Timeout bounds each test; 0 is three minutes.
	Timeout time.Duration
}

// Run tests c under go test.
func Run[U suite.GoTest[U]](t U, c conn.Conn, o Options) {
	t.Helper()
	On(suite.Under(t), c, o)
}

// On tests c under any suite.T.
func On(t suite.T, c conn.Conn, o Options) {
	o.Bytes = cmp.Or(o.Bytes, 4<<20)
	o.Timeout = cmp.Or(o.Timeout, 3*time.Minute)
	tests := []struct {
		name string
		run  func(*side)
	}{
		{"output", (*side).output}, {"long output", (*side).longOutput},
		{"exit codes", (*side).exitCodes}, {"signals", (*side).signals},
		{"stdin", (*side).stdin}, {"stdin that is not read", (*side).stdinUnread},
		{"no stdin", (*side).noStdin}, {"missing program", (*side).missingProgram},
		{"arguments", (*side).arguments}, {"environment", (*side).environment},
		{"directory", (*side).directory}, {"control group", (*side).group},
		{"deadline", (*side).deadline},
		{"cancel kills children", (*side).cancel}, {"streams while it runs", (*side).streams},
		{"background process", (*side).background}, {"concurrent", (*side).concurrent},
		{"push and pull", (*side).pushPull}, {"push replaces", (*side).pushReplaces},
		{"push that breaks off", (*side).pushBroken}, {"odd names", (*side).oddNames},
		{"pull of nothing", (*side).pullMissing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t suite.T) {
			ctx, cancel := context.WithTimeout(t.Context(), o.Timeout)
			defer cancel()
			test.run(&side{T: t, c: c, o: o, ctx: ctx})
		})
	}
}

// side is the other side of a connection under test.
type side struct {
	suite.T
	c   conn.Conn
	o   Options
	ctx context.Context
}

// run executes argv and returns how it ended and what it printed.
func (s *side) run(cmd conn.Cmd) (conn.Exit, string, string) {
	s.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	exit, err := s.c.Exec(s.ctx, cmd)
	if err != nil {
		s.Fatalf("%q: %v", cmd.Argv, err)
	}
	return exit, out.String(), errs.String()
}

func sh(script string, args ...string) conn.Cmd {
	return conn.Command(append([]string{"sh", "-c", script, "sh"}, args...)...)
}

func (s *side) output() {
	exit, out, errs := s.run(sh("printf 'a\\000b\\377'; printf oops >&2"))
	if !exit.OK() || out != "a\x00b\xff" || errs != "oops" {
		s.Errorf("%v, stdout %q, stderr %q", exit, out, errs)
	}
}

func (s *side) longOutput() {
	n := s.o.Bytes
	if !s.Short() && n >= 4<<20 {
		n *= 25 // 100 MB
	}
	var got counter
	exit, err := s.c.Exec(s.ctx, conn.Cmd{Argv: []string{"head", "-c", fmt.Sprint(n), "/dev/zero"}, Stdout: &got})
	if err != nil || !exit.OK() || int(got) != n {
		s.Errorf("%d of %d bytes arrived: %v, %v", got, n, exit, err)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func (s *side) exitCodes() {
	for _, code := range []int{0, 1, 2, 77, 126, 127, 255} {
		exit, _, _ := s.run(sh(fmt.Sprintf("exit %d", code)))
		if exit.Code != code || exit.Signal != "" {
			s.Errorf("exit %d came back as %+v", code, exit)
		}
	}
}

func (s *side) signals() {
	for name, code := range map[string]int{"KILL": 137, "TERM": 143, "SEGV": 139} {
		exit, _, _ := s.run(sh("kill -" + name + " $$"))
		if exit.Code != code || exit.Signal == "" {
			s.Errorf("SIG%s came back as %+v, want code %d and its name", name, exit, code)
		}
	}
}

func (s *side) stdin() {
	data := random(s.o.Bytes/4, 1)
	var out bytes.Buffer
	exit, err := s.c.Exec(s.ctx, conn.Cmd{Argv: []string{"cat"}, Stdin: bytes.NewReader(data), Stdout: &out})
	if err != nil || !exit.OK() || !bytes.Equal(out.Bytes(), data) {
		s.Errorf("cat returned %d of %d bytes, equal %v: %v, %v", out.Len(), len(data), bytes.Equal(out.Bytes(), data),
			exit, err)
	}
}

// A program may end without reading its input.
func (s *side) stdinUnread() {
	cmd := conn.Command("sh", "-c", "exit 3")
	cmd.Stdin = bytes.NewReader(random(1<<20, 2))
	if exit, _, _ := s.run(cmd); exit.Code != 3 {
		s.Errorf("got %v", exit)
	}
	never, w := io.Pipe()
	defer w.Close()
	cmd.Stdin = never
	if exit, _, _ := s.run(cmd); exit.Code != 3 {
		s.Errorf("with a reader that never ends: %v", exit)
	}
}

func (s *side) noStdin() {
	if exit, out, _ := s.run(conn.Command("cat")); !exit.OK() || out != "" {
		s.Errorf("cat without input: %v %q", exit, out)
	}
}

func (s *side) missingProgram() {
	for _, name := range []string{"no-such-program-8731", "/no/such/program"} {
		_, err := s.c.Exec(s.ctx, conn.Command(name))
		if !fault.Is(err, fault.NotFound) {
			s.Errorf("%s: error %v of kind %q, want not found", name, err, fault.Of(err))
		}
	}
	// A program that merely returns the exit code of a shell is not
	// missing.
	if exit, _, _ := s.run(sh("echo not found >&2; exit 127")); exit.Code != 127 {
		s.Errorf("exit 127 came back as %v", exit)
	}
}

func (s *side) arguments() {
	args := []string{"", " ", "a b", "$HOME", "`id`", "'", `"`, `\`, "*", "-n", "new\nline", "ü ✓", "--", "; exit 9",
		"\x01"}
	exit, out, _ := s.run(sh(`for a; do printf '<%s>' "$a"; done`, args...))
	want := ""
	for _, a := range args {
		want += "<" + a + ">"
	}
	if !exit.OK() || out != want {
		s.Errorf("%v\ngot  %q\nwant %q", exit, out, want)
	}
}

func (s *side) environment() {
	cmd := sh(`printf %s "$BAKEOFF_A|$BAKEOFF_B|${PATH:+path}"`)
	cmd.Env = []string{"BAKEOFF_A=x y'\"$z", "BAKEOFF_B=line\nline"}
	if _, out, _ := s.run(cmd); out != "x y'\"$z|line\nline|path" {
		s.Errorf("got %q", out)
	}
}

func (s *side) directory() {
	cmd := sh("pwd -P")
	cmd.Dir = "/dev"
	if _, out, _ := s.run(cmd); out != "/dev\n" {
		s.Errorf("pwd in /dev: %q", out)
	}
	cmd.Dir = "/no/such/directory"
	if exit, err := s.c.Exec(s.ctx, cmd); err == nil && exit.OK() {
		s.Error("a program ran in a directory that does not exist")
	}
}

// A program starts even if its cgroup cannot be used.
func (s *side) group() {
	cmd := sh("echo started")
	cmd.Group = path.Join(s.o.Dir, "no-group")
	if exit, out, _ := s.run(cmd); !exit.OK() || out != "started\n" {
		s.Errorf("in a cgroup that does not exist: %v, %q", exit, out)
	}
}

func (s *side) deadline() {
	ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := s.c.Exec(ctx, conn.Command("sleep", "100"))
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("error %v, want the deadline", err)
	}
	if d := time.Since(start); d > 50*time.Second {
		s.Errorf("came back after %v", d)
	}
}

// cancel kills the program and what it started: a child that appends to a file
// must stop.
func (s *side) cancel() {
	file := path.Join(s.o.Dir, "heartbeat")
	beat := `(while :; do printf x >>"$1"; sleep 0.05; done) & wait`
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := s.c.Exec(ctx, sh(beat, file))
		ended <- err
	}()
	s.until("the child to write", func() bool { return s.size(file) > 1 })
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			s.Errorf("error %v, want that it was cancelled", err)
		}
	case <-time.After(time.Minute):
		s.Fatal("Exec did not return within a minute of cancel")
	}
	s.until("the child to stop", func() bool {
		before := s.size(file)
		time.Sleep(400 * time.Millisecond)
		return s.size(file) == before
	})
}

func (s *side) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited a minute for %s", what)
		}
	}
}

// size returns the length of a file on the other side; 0 if it does not exist.
func (s *side) size(file string) int {
	s.Helper()
	var n int
	_, out, _ := s.run(sh(`[ -e "$1" ] && wc -c <"$1" || echo 0`, file))
	fmt.Sscan(out, &n)
	return n
}

// Output arrives while a program runs, and it reads input that is sent later.
func (s *side) streams() {
	in, toProgram := io.Pipe()
	fromProgram, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := s.c.Exec(s.ctx, conn.Cmd{Argv: []string{"cat"}, Stdin: in, Stdout: out})
		out.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	buf := make([]byte, 5)
	for i := range 3 {
		msg := fmt.Sprintf("ping%d", i)
		if _, err := toProgram.Write([]byte(msg)); err != nil {
			s.Fatal(err)
		}
		if _, err := io.ReadFull(fromProgram, buf); err != nil || string(buf) != msg {
			s.Fatalf("got %q, %v", buf, err)
		}
	}
	toProgram.Close()
	if err := <-ended; err != nil {
		s.Error(err)
	}
}

// A background process does not delay the end of the program that started it,
// and survives it.
func (s *side) background() {
	file := path.Join(s.o.Dir, "served")
	start := time.Now()
	exit, out, _ := s.run(sh(`(sleep 1; echo served >"$1") >/dev/null 2>&1 & echo started`, file))
	if !exit.OK() || out != "started\n" {
		s.Fatalf("%v %q", exit, out)
	}
	s.until("the background process to do its work", func() bool { return s.size(file) == len("served\n") })
	if time.Since(start) < time.Second {
		s.Error("the background process did not run on its own")
	}
}

func (s *side) concurrent() {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := string(bytes.Repeat([]byte{byte('a' + i)}, 50000))
			var out bytes.Buffer
			exit, err := s.c.Exec(s.ctx, conn.Cmd{Argv: []string{"sh", "-c", fmt.Sprintf("cat; exit %d", i)},
				Stdin: strings.NewReader(want), Stdout: &out})
			if err != nil || exit.Code != i || out.String() != want {
				s.Errorf("program %d: %v, %v, %d bytes", i, exit, err, out.Len())
			}
		})
	}
	wg.Wait()
}

func (s *side) pushPull() {
	for _, n := range []int{0, 1, s.o.Bytes + 7} {
		file := path.Join(s.o.Dir, fmt.Sprintf("blob-%d", n))
		data := random(n, uint64(n))
		if err := s.c.Push(s.ctx, file, 0o640, bytes.NewReader(data)); err != nil {
			s.Fatal(err)
		}
		s.content(file, data)
	}
}

// content checks what a file on the other side holds.
func (s *side) content(file string, want []byte) {
	s.Helper()
	var got bytes.Buffer
	if err := s.c.Pull(s.ctx, file, &got); err != nil {
		s.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		s.Errorf("%q: %d bytes with hash %x, want %d with %x", file,
			got.Len(), sha256.Sum256(got.Bytes()), len(want), sha256.Sum256(want))
	}
}

func (s *side) pushReplaces() {
	file := path.Join(s.o.Dir, "program")
	for _, text := range []string{"#!/bin/sh\necho a long first version\n", "#!/bin/sh\necho two\n"} {
		if err := s.c.Push(s.ctx, file, 0o755, strings.NewReader(text)); err != nil {
			s.Fatal(err)
		}
		s.content(file, []byte(text))
	}
	if exit, out, errs := s.run(conn.Command(file)); out != "two\n" {
		s.Errorf("%v %q %q", exit, out, errs)
	}
}

// A push whose source fails leaves the existing file.
func (s *side) pushBroken() {
	file := path.Join(s.o.Dir, "whole")
	if err := s.c.Push(s.ctx, file, 0o644, strings.NewReader("first")); err != nil {
		s.Fatal(err)
	}
	broken := errors.New("source broke")
	src := io.MultiReader(bytes.NewReader(random(1<<18, 3)), failing{broken})
	if err := s.c.Push(s.ctx, file, 0o644, src); err == nil {
		s.Error("a source that fails was pushed without an error")
	}
	s.content(file, []byte("first"))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (s *side) oddNames() {
	for _, name := range []string{"with space", "new\nline", `quo'te"s`, "$dollar", "-dash", "ü✓", `back\slash`, "*"} {
		dir := path.Join(s.o.Dir, name)
		if exit, _, errs := s.run(conn.Command("mkdir", "-p", "--", dir)); !exit.OK() {
			s.Fatalf("mkdir %q: %v %s", dir, exit, errs)
		}
		file := path.Join(dir, name)
		if err := s.c.Push(s.ctx, file, 0o644, strings.NewReader(name)); err != nil {
			s.Fatal(err)
		}
		s.content(file, []byte(name))
		cmd := sh(`cat -- "$1"`, "./"+name)
		cmd.Dir = dir
		if exit, out, _ := s.run(cmd); !exit.OK() || out != name {
			s.Errorf("in %q: %v %q", dir, exit, out)
		}
	}
}

func (s *side) pullMissing() {
	err := s.c.Pull(s.ctx, path.Join(s.o.Dir, "nothing-here"), io.Discard)
	if !fault.Is(err, fault.NotFound) {
		s.Errorf("error %v of kind %q, want not found", err, fault.Of(err))
	}
	if err := s.c.Push(s.ctx, path.Join(s.o.Dir, "no/such/dir/file"), 0o644, strings.NewReader("x")); err == nil {
		s.Error("a push into a directory that does not exist went well")
	}
}

// random returns n bytes that are the same for the same seed.
func random(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}
