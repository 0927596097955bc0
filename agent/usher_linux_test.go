package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/fault"
)

// usherWith has one start a program, and returns how that went.
func usherWith(ctx context.Context, t *testing.T, said *bytes.Buffer, argv ...string) (conn.Exit, error) {
	t.Helper()
	cmd := conn.Cmd{Argv: append([]string{os.Args[0], "--usher", filepath.Join(t.TempDir(), "s"), "--env", "AGENT_TEST_PORTER=porter", "--"}, argv...),
		Env: []string{"AGENT_TEST_PORTER=usher"}, Stderr: said}
	return Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(ctx, cmd) })
}

// A program that brings no porter is told as it ended, and nothing is waited
// for.
func TestUsherNobodyCame(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var said bytes.Buffer
	if exit, err := usherWith(ctx, t, &said, "/bin/sh", "-c", "echo no room >&2; exit 3"); err != nil || exit.Code != 3 || said.String() != "no room\n" {
		t.Errorf("%+v, %v, %q", exit, err, said.String())
	}
	if _, err := usherWith(ctx, t, &said, "/bin/true"); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "nobody stands at the door") {
		t.Errorf("one that ends well: %v", err)
	}
	if _, err := usherWith(ctx, t, &said, "/no/such"); !fault.Is(err, fault.NotFound) {
		t.Errorf("no program: %v", err)
	}
}

// When the usher is killed, as it is with the controller, the porter ends: an
// environment does not live on without anybody.
func TestUsherKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ended := make(chan bool)
	go func() {
		defer close(ended)
		usherWith(context.Background(), t, &bytes.Buffer{}, "/bin/sh", "-c", `echo $PPID $$ >"$1.new"; mv "$1.new" "$1"; exec "$0" --silent -`, os.Args[0], file)
	}()
	deadline := time.Now().Add(20 * time.Second)
	var usher, porter int
	for porter == 0 {
		if text, err := os.ReadFile(file); err == nil {
			fmt.Sscan(string(text), &usher, &porter)
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody was started within 20 s")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := syscall.Kill(usher, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", porter))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the porter lives on: %s", stat)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// What the clock inside says passes as here, and a visit is one thing or the
// other.
func TestPorterClock(t *testing.T) {
	socket := ushered(t)
	read := func() time.Duration {
		var out bytes.Buffer
		cmd := conn.Cmd{Argv: []string{os.Args[0], "--socket", socket, "--clock"}, Env: []string{"AGENT_TEST_PORTER=via"}, Stdout: &out}
		exit, err := local.Conn{}.Exec(t.Context(), cmd)
		ns, perr := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
		if err != nil || !exit.OK() || perr != nil {
			t.Fatal(exit, err, perr)
		}
		return time.Duration(ns)
	}
	from := time.Now()
	a := read()
	between := time.Now()
	time.Sleep(20 * time.Millisecond)
	atLeast := time.Since(between)
	b := read()
	if passed := b - a; passed < atLeast || passed > time.Since(from) {
		t.Errorf("%v passed inside, between %v and %v here", passed, atLeast, time.Since(from))
	}
	cmd := conn.Cmd{Argv: []string{os.Args[0], "--socket", socket, "--clock", "--", "/bin/true"}, Env: []string{"AGENT_TEST_PORTER=via"}}
	if exit, err := (local.Conn{}).Exec(t.Context(), cmd); err != nil || exit.OK() {
		t.Errorf("a program and the clock: %v, %v", exit, err)
	}
}
