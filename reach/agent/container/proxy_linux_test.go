package container

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

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// proxyWith has one start a program, and returns how that went.
func proxyWith(ctx context.Context, t *testing.T, said *bytes.Buffer, argv ...string) (conn.Exit, error) {
	t.Helper()
	cmd := conn.Cmd{Argv: append([]string{os.Args[0], "--proxy", filepath.Join(t.TempDir(), "s"), "--env",
		"AGENT_TEST_INIT=container-init", "--"}, argv...),
		Env: []string{"AGENT_TEST_INIT=proxy"}, Stderr: said}
	return Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(ctx, cmd) })
}

// A program without an init process is reported as it ended, and nothing is waited
// for.
func TestProxyNobodyCame(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said bytes.Buffer
	if exit, err := proxyWith(ctx, t, &said, "/bin/sh", "-c", "echo no room >&2; exit 3"); err != nil ||
		exit.Code != 3 || said.String() != "no room\n" {
		t.Errorf("%+v, %v, %q", exit, err, said.String())
	}
	if _, err := proxyWith(ctx, t, &said, "/bin/true"); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "no answer from an init process") {
		t.Errorf("one that ends well: %v", err)
	}
	if _, err := proxyWith(ctx, t, &said, "/no/such"); !fault.Is(err, fault.NotFound) {
		t.Errorf("no program: %v", err)
	}
}

// Only what the proxy starts goes to another place: the proxy stays where it was.
func TestProxyStaysOutside(t *testing.T) {
	needNamespaces(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "version"), []byte("another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 5 { // whichever thread it is
		var said, out bytes.Buffer
		cmd := conn.Cmd{Argv: []string{os.Args[0], "--proxy", filepath.Join(t.TempDir(), "s"), "--private-mounts",
			"--bind", filepath.Join(dir, "version") + ":/proc/version", "--dir", dir,
			"--", "/bin/sh", "-c",
			"cat /proc/version; pwd; cat /proc/$PPID/root/proc/version; readlink /proc/$PPID/cwd; exit 3"},
			Env: []string{"AGENT_TEST_INIT=proxy"}, Stdout: &out, Stderr: &said}
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		version, err := os.ReadFile("/proc/version")
		if err != nil {
			t.Fatal(err)
		}
		exit, err := Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(t.Context(), cmd) })
		if want := "another\n" + dir + "\n" + string(version) + here + "\n"; err != nil || exit.Code != 3 ||
			out.String() != want {
			t.Fatalf("%v, %v, %q: %q, want %q", exit, err, said.String(), out.String(), want)
		}
	}
}

// In a control group, what the proxy starts spends, and not the proxy.
func TestProxyStaysOutOfGroup(t *testing.T) {
	layout, err := cgroup.Detect(t.Context(), local.Conn{})
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	needNamespaces(t)
	g, err := layout.Create(t.Context(), local.Conn{}, fmt.Sprintf("proxy-%d", os.Getpid()),
		cgroup.Limits{CPUSet: []int{0}, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Remove(context.Background())
	argv := append([]string{os.Args[0], "--proxy", filepath.Join(t.TempDir(), "s")}, g.EnterArgs()...)
	var out bytes.Buffer
	// The thread that started the program was there and ends: for a moment it may still
	// be seen.
	const script = `cat /proc/self/cgroup; echo; n=0
while out=$(cat /proc/$PPID/task/*/cgroup); case $out in */proxy-*) [ $n -lt 600 ];; *) false;; esac
do n=$((n+1)); sleep 0.1; done; echo "$out"; exit 3`
	cmd := conn.Cmd{Argv: append(argv, "--", "/bin/sh", "-c", script), Env: []string{"AGENT_TEST_INIT=proxy"},
		Stdout: &out}
	exit, err := Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(t.Context(), cmd) })
	inside, outside, _ := strings.Cut(out.String(), "\n\n")
	// One line for each hierarchy; the proxy's threads are in none of them.
	if err != nil || exit.Code != 3 || strings.Count(inside, "/proxy-") < len(g.EnterArgs())/2 || outside == "" ||
		strings.Contains(outside, "/proxy-") {
		t.Errorf("%v, %v: inside %s\noutside %s", exit, err, inside, outside)
	}
}

// When the proxy is killed, as it is with the controller, the init process ends: an
// environment does not live on without anybody.
func TestProxyKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ended := make(chan bool)
	go func() {
		defer close(ended)
		proxyWith(context.Background(), t, &bytes.Buffer{}, "/bin/sh", "-c",
			`echo $PPID $$ >"$1.new"; mv "$1.new" "$1"; exec "$0" --silent -`, os.Args[0], file)
	}()
	deadline := time.Now().Add(time.Minute)
	var proxy, first int
	for first == 0 {
		if text, err := os.ReadFile(file); err == nil {
			fmt.Sscan(string(text), &proxy, &first)
		}
		if time.Now().After(deadline) {
			t.Fatal("no process was started within a minute")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := syscall.Kill(proxy, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", first))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the init process survives: %s", stat)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// What the clock inside says passes as here, and a request is one thing or the
// other.
func TestContainerInitClock(t *testing.T) {
	socket := proxied(t)
	read := func() time.Duration {
		var out bytes.Buffer
		cmd := conn.Cmd{Argv: []string{os.Args[0], "--socket", socket, "--clock"}, Env: []string{"AGENT_TEST_INIT=via"},
			Stdout: &out}
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
	cmd := conn.Cmd{Argv: []string{os.Args[0], "--socket", socket, "--clock", "--", "/bin/true"},
		Env: []string{"AGENT_TEST_INIT=via"}}
	if exit, err := (local.Conn{}).Exec(t.Context(), cmd); err != nil || exit.OK() {
		t.Errorf("a program and the clock: %v, %v", exit, err)
	}
}
