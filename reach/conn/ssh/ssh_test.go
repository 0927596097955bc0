package ssh_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/conntest"
	"bakeoff/reach/conn/ssh"
	"bakeoff/reach/conn/sshtest"
)

// This test's own executable is the agent on the other side, where its name
// says so.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "bakeoff-agent") {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil))
	}
	os.Exit(m.Run())
}

func options(t *testing.T, s *sshtest.Server) ssh.Options {
	return ssh.Options{Name: "box", Target: sshtest.Target, Config: s.Config, Dir: filepath.Join(t.TempDir(), "there"),
		Agent:    func(string, string) (string, error) { return os.Executable() },
		Progress: func(text string) { t.Log(text) }, Patience: 30 * time.Second}
}

func open(t *testing.T, o ssh.Options) *ssh.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := ssh.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestContract(t *testing.T) {
	c := open(t, options(t, sshtest.Start(t)))
	conntest.Run(t, c, conntest.Options{Dir: t.TempDir()})
}

func TestMachine(t *testing.T) {
	s := sshtest.Start(t)
	o := options(t, s)
	c := open(t, o)
	m := c.Machine()
	if m.GOOS == "" || len(m.CPUs) == 0 || m.UID != os.Getuid() || len(m.SHA256) != 64 {
		t.Errorf("the machine is %+v", m)
	}
	if c.StateDir() != o.Dir+"/state" || !strings.HasPrefix(c.Agent(), o.Dir+"/cache/agent/bakeoff-agent-"+m.GOOS) {
		t.Errorf("state is in %s, the agent at %s", c.StateDir(), c.Agent())
	}
	counters, err := c.Counters(t.Context(), m.CPUs[:1])
	if err != nil || counters.AtNS == 0 {
		t.Errorf("counters %+v, %v", counters, err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "deep", "file")
	if err := c.Mkdir(t.Context(), filepath.Dir(file)); err != nil {
		t.Error(err)
	}
	if err := c.Push(t.Context(), file, 0o600, strings.NewReader("12345")); err != nil {
		t.Error(err)
	}
	if err := c.WriteFile(t.Context(), file, []byte("abc")); err != nil {
		t.Error(err)
	}
	if b, err := c.ReadFile(t.Context(), file); err != nil || string(b) != "abc45" {
		t.Errorf("read %q, %v", b, err)
	}
	if names, err := c.ReadDir(t.Context(), dir); err != nil || len(names) != 1 || names[0] != "deep" {
		t.Errorf("names %q, %v", names, err)
	}
	if err := c.Rmdir(t.Context(), filepath.Dir(file)); err == nil {
		t.Error("a folder that is not empty went away")
	}
	if err := c.Remove(t.Context(), filepath.Dir(file)); err != nil {
		t.Error(err)
	}
	if _, err := c.ReadFile(t.Context(), file); !fault.Is(err, fault.NotFound) {
		t.Errorf("what was removed: %v", err)
	}
	// A second connection finds the agent there.
	o.Progress = func(text string) { t.Errorf("said %q", text) }
	open(t, o)
}

// The far end of a connection that is dialled from there.
func TestDial(t *testing.T) {
	c := open(t, options(t, sshtest.Start(t)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		n, err := l.Accept()
		if err == nil {
			io.Copy(n, n)
			n.Close()
		}
	}()
	n, err := c.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	n.SetDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 4)
	if _, err := n.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(n, buf); err != nil || string(buf) != "ping" {
		t.Errorf("got %q, %v", buf, err)
	}
	l.Close()
	if _, err := c.Dial(t.Context(), "tcp", l.Addr().String()); !fault.Is(err, fault.Lab) {
		t.Errorf("no server: %v of kind %q", err, fault.Of(err))
	}
}

// heartbeat runs a program over there that writes to a file as long as it
// lives, and returns once it does, with the end of its execution.
func heartbeat(t *testing.T, c conn.Conn, file string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), conn.Command("sh", "-c", `(while :; do printf x >>"$1"; sleep 0.05; done) & wait`,
			"sh", file))
		ended <- err
	}()
	until(t, "the program to run", func() bool { return size(file) > 1 })
	return ended
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func size(file string) int64 {
	if info, err := os.Stat(file); err == nil {
		return info.Size()
	}
	return 0
}

// A connection that is lost in the middle ends what runs there; the error is
// ours, and the next request goes through.
func TestLostConnection(t *testing.T) {
	s := sshtest.Start(t)
	c := open(t, options(t, s))
	if _, err := c.Lock(t.Context(), c.StateDir()+"/lock", lock.Me("r")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "beats")
	ended := heartbeat(t, c, file)
	if s.Cut() == 0 {
		t.Fatal("there was no connection to cut")
	}
	select {
	case err := <-ended:
		if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "lost") {
			t.Errorf("error %v of kind %q, want a lost connection that is ours", err, fault.Of(err))
		}
	case <-time.After(time.Minute):
		t.Fatal("the execution did not end")
	}
	until(t, "the program there to end", func() bool {
		before := size(file)
		time.Sleep(300 * time.Millisecond)
		return size(file) == before
	})
	if out, err := conn.Output(t.Context(), c, "echo", "again"); err != nil || string(out) != "again\n" {
		t.Errorf("after it: %q, %v", out, err)
	}
}

// A machine that reboots is waited for, as long as was said.
func TestReboot(t *testing.T) {
	s := sshtest.Start(t)
	o := options(t, s)
	c := open(t, o)
	s.Stop()
	back := time.AfterFunc(1500*time.Millisecond, s.Restart)
	defer back.Stop()
	// A request that was under way is lost with the machine; the next waits.
	if out, err := conn.Output(t.Context(), c, "echo", "back"); err != nil && !fault.Is(err, fault.Lab) {
		t.Fatalf("%q, %v", out, err)
	}
	if out, err := conn.Output(t.Context(), c, "echo", "back"); err != nil || string(out) != "back\n" {
		t.Fatalf("%q, %v", out, err)
	}

	o.Patience = time.Second
	short := open(t, o)
	s.Stop()
	began := time.Now()
	conn.Output(t.Context(), short, "true") // may be lost with the machine
	_, err := conn.Output(t.Context(), short, "true")
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "did not come back within 1s") {
		t.Errorf("a machine that stays away: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was waited for %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Exec(ctx, conn.Command("true")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.Restart() // so that what is closed at the end finds somebody
}

// A host key that is not the known one is refused, and the error names the
// line that holds the old one.
func TestChangedHostKey(t *testing.T) {
	s := sshtest.Start(t)
	o := options(t, s)
	open(t, o).Close()
	s.ChangeKey()
	_, err := ssh.Open(t.Context(), o)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "line 2 of "+s.KnownHosts) {
		t.Errorf("error %v of kind %q; want it refused, with line 2 of the file", err, fault.Of(err))
	}
	if !strings.Contains(fault.Fix(err), "ssh-keygen -R") {
		t.Errorf("the advice is %q", fault.Fix(err))
	}
	if err := os.WriteFile(s.KnownHosts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ssh.Open(t.Context(), o)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.Fix(err), "fingerprint") {
		t.Errorf("an unknown key: %v", err)
	}
	s.Trust()
	open(t, o)
}

func TestNobodyThere(t *testing.T) {
	s := sshtest.Start(t)
	o := options(t, s)
	s.Stop()
	if _, err := ssh.Open(t.Context(), o); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no listener: %v", err)
	}
	o.Target = "-oProxyCommand=true"
	if _, err := ssh.Open(t.Context(), o); !fault.Is(err, fault.Invalid) {
		t.Errorf("an option for a machine: %v", err)
	}
	o = options(t, s)
	o.Program = "no-such-ssh"
	if _, err := ssh.Open(t.Context(), o); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "openssh-client") {
		t.Errorf("without a client: %v", err)
	}
}

// One controller at a time measures on a machine.
func TestLock(t *testing.T) {
	o := options(t, sshtest.Start(t))
	first, second := open(t, o), open(t, o)
	path := first.StateDir() + "/lock"
	release, err := first.Lock(t.Context(), path, lock.Me("r"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Lock(t.Context(), path, lock.Me("r")); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "measures on this host") {
		t.Errorf("a second one: %v of kind %q", err, fault.Of(err))
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := second.Lock(t.Context(), path, lock.Me("r")); err != nil {
		t.Errorf("once it is free: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	// Closed means that the agent there has ended, and the lock with it.
	if _, err := first.Lock(t.Context(), path, lock.Me("r")); err != nil {
		t.Errorf("after the other has gone: %v", err)
	}
}

// A controller may reach its own machine. The agent shares the lock with it, holds it
// when the controller has released it, and reports when another run was faster.
func TestLockOfOwnMachine(t *testing.T) {
	s := sshtest.Start(t)
	c := open(t, options(t, s))
	if c.HostLock() != s.HostLock {
		t.Fatalf("the lock of the machine is %q, want %q", c.HostLock(), s.HostLock)
	}
	me := lock.Me("r")
	there := me
	there.Host = "box"
	for _, lost := range []bool{false, true} {
		here, err := lock.TryFor(s.HostLock, me)
		if err != nil {
			t.Fatal(err)
		}
		release, err := c.Lock(t.Context(), s.HostLock, there)
		if err != nil {
			t.Fatal(err)
		}
		want := there
		if lost {
			// It goes from one run to the other without being free, so that the
			// agent cannot take it in between.
			want = lock.Owner{Run: "faster", Token: "another"}
			rename(t, s.HostLock, want)
		} else {
			here.Release()
		}
		var by *lock.Holder
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if by, err = c.Holder(t.Context(), s.HostLock); by != nil && by.Owner == want {
				break
			}
		}
		if err != nil || by == nil || by.Owner != want {
			t.Errorf("held by %+v, %v, want %+v", by, err, want)
		}
		for end := time.Now().Add(time.Minute); lost && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if _, err := c.Lock(t.Context(), s.HostLock, there); err != nil {
				break // the agent has tried
			}
		}
		err = release()
		if named := err != nil && strings.Contains(err.Error(), "(run faster, "); named != lost || lost != (err != nil) {
			t.Errorf("lost %v: %v", lost, err)
		}
		here.Release()
	}
	if by, err := c.Holder(t.Context(), s.HostLock); by != nil || err != nil {
		t.Errorf("afterwards it is held by %+v, %v", by, err)
	}
}

// rename writes another owner into the file of a lock that is held.
func rename(t *testing.T, path string, owner lock.Owner) {
	t.Helper()
	text, err := json.Marshal(owner)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "%d\n%s\n", os.Getpid(), text), 0)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Over a line of 256 KiB/s things take their time, and nothing breaks.
func TestSlowLine(t *testing.T) {
	s := sshtest.Start(t)
	o := options(t, s)
	open(t, o).Close() // brings the agent there
	s.Slow(256 << 10)
	c := open(t, o)
	data := bytes.Repeat([]byte("0123456789abcdef"), 48<<10) // 768 KiB
	file := filepath.Join(t.TempDir(), "file")
	if err := c.Push(t.Context(), file, 0o600, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := c.Pull(t.Context(), file, &got); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d bytes came back, %v", got.Len(), err)
	}
}

// The error for a machine without an agent says how to build one.
func TestAgentForNobody(t *testing.T) {
	o := options(t, sshtest.Start(t))
	o.Agent = func(goos, goarch string) (string, error) {
		return "", fault.WithFix(fault.New(fault.NotFound, "there is no agent for %s/%s", goos, goarch), "make agents")
	}
	if _, err := ssh.Open(t.Context(), o); !fault.Is(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "make agents") {
		t.Errorf("%v of kind %q", err, fault.Of(err))
	}
}
