package container

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// This test binary also runs as an init process, as its proxy and as a client.
func init() {
	switch os.Getenv("AGENT_TEST_INIT") {
	case "container-init":
		if err := Init(os.Args[1:], os.Stderr); err != nil {
			io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	case "via":
		Via(os.Args[1:])
	case "proxy":
		Enter(os.Args[1:])
	case "die": // from a thread that is not the first
		go nsenter.DieOf(syscall.SIGSEGV)
		select {}
	}
}

// containerInit starts one and returns its socket, whose path is longer than the
// address of a socket can be.
func containerInit(t *testing.T) string {
	t.Helper()
	dir := longDir(t)
	standing(t, conn.Cmd{Argv: []string{os.Args[0], "./s"}, Dir: dir, Env: []string{"AGENT_TEST_INIT=container-init"}})
	return filepath.Join(dir, "s")
}

// proxied starts an init process that has nothing but the stream from a proxy,
// and returns the proxy's socket.
func proxied(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(longDir(t), "s")
	standing(t, conn.Cmd{Argv: []string{os.Args[0], "--proxy", socket, "--env", "AGENT_TEST_INIT=container-init", "--",
		os.Args[0], "--silent", "-"},
		Env: []string{"AGENT_TEST_INIT=proxy"}})
	return socket
}

func longDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// standing runs cmd until the test ends, and returns when it says that it is
// ready.
func standing(t *testing.T, cmd conn.Cmd) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan bool, 1), make(chan bool)
	cmd.Stderr = notify(ready)
	go func() {
		defer close(ended)
		local.Conn{}.Exec(ctx, cmd)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("no init process after a minute")
	}
}

type notify chan bool

func (n notify) Write(p []byte) (int, error) {
	if bytes.HasSuffix(p, []byte(wire.PauseReady)) {
		n <- true
	}
	return len(p), nil
}

// starter is a way to start a program through the init process at a socket.
type starter func(ctx context.Context, cmd conn.Cmd, socket string) (conn.Exit, error)

func startByProcess(ctx context.Context, cmd conn.Cmd, socket string) (conn.Exit, error) {
	cmd.Argv = append([]string{os.Args[0], "--socket", socket, "--"}, cmd.Argv...)
	cmd.Env = append(cmd.Env, "AGENT_TEST_INIT=via")
	return Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(ctx, cmd) })
}

func startHere(ctx context.Context, cmd conn.Cmd, socket string) (conn.Exit, error) {
	cmd.Argv = append([]string{"agent", "via", "--socket", socket, "--"}, cmd.Argv...)
	return Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return ViaHere(ctx, cmd) })
}

// eachWay runs a test for each place of an init process and each way to reach it.
func eachWay(t *testing.T, test func(*testing.T, string, starter)) {
	for place, open := range map[string]func(*testing.T) string{"at a socket": containerInit, "behind a proxy": proxied} {
		for by, start := range map[string]starter{"by a process": startByProcess, "from here": startHere} {
			t.Run(place+" "+by, func(t *testing.T) { test(t, open(t), start) })
		}
	}
}

// What the init process starts has the client's streams, gets every argument as
// it is, and the client learns how it ended.
func TestContainerInit(t *testing.T) { eachWay(t, starts) }

func starts(t *testing.T, socket string, start starter) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	exit, err := start(ctx, conn.Cmd{Argv: []string{"/bin/sh", "-c", `cat; echo "$1|$2|$3" >&2; exit 9`, "sh", "",
		"a b\n", "\xff"},
		Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs}, socket)
	if err != nil || exit.Code != 9 || exit.Signal != "" || out.String() != "input" || errs.String() != "|a b\n|\xff\n" {
		t.Errorf("%+v, %v, %q, %q", exit, err, out.String(), errs.String())
	}
	exit, err = start(ctx, conn.Command("/bin/sh", "-c", "kill -KILL $$"), socket)
	if err != nil || exit.Signal != "killed" {
		t.Errorf("by a signal: %+v, %v", exit, err)
	}
	if _, err := start(ctx, conn.Command("/no/such"), socket); !fault.Is(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "/no/such") {
		t.Errorf("no program: %v", err)
	}
	if exit, err := start(ctx, conn.Command("/etc/hostname"), socket); err != nil || exit.Code != 126 {
		t.Errorf("no program: %+v, %v", exit, err)
	}
	if _, err := start(ctx, conn.Command("/bin/true"), filepath.Join(socket, "x")); !fault.Is(err, fault.Lab) {
		t.Errorf("no init process: %v", err)
	}
}

// The request says where the program starts and with which variables: none of
// the client's, and those of the init process that it keeps.
func TestContainerInitPlaces(t *testing.T) {
	socket := containerInit(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own"), []byte("#!/bin/sh\npwd; env\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (string, conn.Exit, error) {
		var out bytes.Buffer
		cmd := conn.Cmd{Argv: append([]string{os.Args[0], "--socket", socket}, args...),
			Env: []string{"AGENT_TEST_INIT=via", "CLIENT=1"}, Stdout: &out}
		exit, err := Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(t.Context(), cmd) })
		return out.String(), exit, err
	}
	out, exit, err := ask("--clear-env", "--env", "A=1", "--env", "PATH=relative:/no/such:"+dir+":/usr/bin:/bin",
		"--dir", dir, "--", "own")
	if err != nil || !exit.OK() || !strings.HasPrefix(out, dir+"\n") || !strings.Contains(out, "\nA=1\n") {
		t.Errorf("%+v, %v, %q", exit, err, out)
	}
	if strings.Contains(out, "CLIENT") || strings.Contains(out, "AGENT_TEST_INIT") {
		t.Errorf("more than what was asked for is there: %q", out)
	}
	out, _, err = ask("--env", "A=1", "--", "/usr/bin/env")
	if err != nil || !strings.Contains(out, "AGENT_TEST_INIT=container-init\n") || !strings.Contains(out, "A=1\n") ||
		strings.Contains(out, "CLIENT") {
		t.Errorf("with those of the init process: %v, %q", err, out)
	}
	if _, _, err = ask("--env", "PATH="+dir, "--", "other"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a name that the path does not have: %v", err)
	}
	if _, _, err = ask("--dir", dir+"/none", "--", "/bin/true"); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no directory: %v", err)
	}
}

// A client that connects before the init process listens waits for it.
func TestContainerInitComesLate(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // its path may be longer than that of a socket
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		exit, err := startByProcess(ctx, conn.Command("/bin/true"), filepath.Join(dir, "s"))
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "%+v", exit)
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	life, end := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		local.Conn{}.Exec(life, conn.Cmd{Argv: []string{os.Args[0], "--silent", "--dir", filepath.Join(dir, "a/b"), "./s"},
			Dir: dir,
			Env: []string{"AGENT_TEST_INIT=container-init"}})
	}()
	defer func() { end(); <-ended }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s, err := os.Stat(filepath.Join(dir, "a/b")); err != nil || s.Mode().Perm() != 0o777 {
		t.Errorf("the directory that it was to make: %v, %v", s, err)
	}
}

// When the client goes, what it had started is killed, also what has put itself
// into a session of its own; what was left behind earlier is not.
func TestContainerInitClientGoes(t *testing.T) { eachWay(t, clientGoes) }

func clientGoes(t *testing.T, socket string, start starter) {
	beat := func(file string) string { return `while :; do echo >>"` + file + `"; sleep 0.01; done` }
	stays, goes := filepath.Join(t.TempDir(), "stays"), filepath.Join(t.TempDir(), "goes")
	size := func(file string) int64 {
		s, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return s.Size()
	}
	stop := filepath.Join(t.TempDir(), "stop")
	defer os.WriteFile(stop, nil, 0o644)
	// It also ends when the directories are gone, before it has looked.
	script := `(while [ ! -e "` + stop + `" ] && echo >>"` + stays + `"; do sleep 0.01; done) >/dev/null 2>&1 </dev/null &`
	if exit, err := start(t.Context(), conn.Command("/bin/sh", "-c", script), socket); err != nil || !exit.OK() {
		t.Fatal(exit, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for size(goes) < 3 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	exit, err := start(ctx, conn.Command("/bin/sh", "-c", `setsid sh -c "$1" & wait`, "sh", beat(goes)), socket)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it was cancelled: %v, %v", exit, err)
	}
	deadline := time.Now().Add(time.Minute)
	for last := int64(-1); last != size(goes); time.Sleep(200 * time.Millisecond) {
		if last = size(goes); time.Now().After(deadline) {
			t.Fatal("the program outlived its client")
		}
	}
	for before := size(stays); size(stays) == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was left behind has ended")
		}
	}
}

// A client that sends no streams gets an error, and the init process goes on.
func TestContainerInitRefuses(t *testing.T) {
	socket := containerInit(t)
	t.Chdir(filepath.Dir(socket))
	c, err := net.Dial("unix", "./s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "\x00\x00\x00\x12\x00keep\x000\x00/bin/true"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if !bytes.Contains(answer, []byte("0 streams")) {
		t.Errorf("%q, %v", answer, err)
	}
	if exit, err := startByProcess(t.Context(), conn.Command("/bin/true"), socket); err != nil || !exit.OK() {
		t.Error(exit, err)
	}
}
