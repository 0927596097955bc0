package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// TestServeChild is the agent that the other tests start; by itself it does
// nothing.
func TestServeChild(t *testing.T) {
	where := os.Getenv("AGENT_TEST_SERVE")
	if where == "" {
		return
	}
	os.Exit(Run(command.Call{Args: []string{where}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, nil))
}

func startServe(t *testing.T, where string) *exec.Cmd {
	p := exec.Command(os.Args[0], "-test.run=^TestServeChild$")
	p.Env = append(os.Environ(), "AGENT_TEST_SERVE="+where, "SECRET=of the host")
	p.Stderr = os.Stderr
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	return p
}

func open(t *testing.T, rw io.ReadWriteCloser) *channel.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := channel.Open(ctx, rw, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

type halves struct {
	io.Reader
	io.WriteCloser
}

// On standard input and output there is one conversation; its programs see
// nothing of the environment in which the agent was started.
func TestServeStdio(t *testing.T) {
	p := startServe(t, "-")
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	c := open(t, halves{out, in})
	env, err := conn.Output(t.Context(), c, "env")
	if err != nil || strings.Contains(string(env), "SECRET") || !strings.Contains(string(env), "LANG=C.UTF-8") {
		t.Errorf("%v, environment %q", err, env)
	}
	// The kernel's release and its CPUs are known of a guest that has an init of its own, too.
	var boot wire.BootReport
	if err := c.Call(t.Context(), "boot", nil, &boot); err != nil || boot.CPUs != runtime.NumCPU() {
		t.Errorf("%d CPUs, %v", boot.CPUs, err)
	}
	if out, err := conn.Output(t.Context(), c, "uname", "-r"); err != nil || boot.Kernel == "" ||
		strings.TrimSpace(string(out)) != boot.Kernel {
		t.Errorf("the kernel is %q, and uname prints %q, %v", boot.Kernel, out, err)
	}
	if dir, err := conn.Output(t.Context(), c, "pwd"); err != nil || string(dir) != "/\n" {
		t.Errorf("it works in %q, %v", dir, err)
	}
	c.Close()
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it did not end with its host")
	}
}

// At a TCP port one host comes after the other.
func TestServeTCP(t *testing.T) {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" { // an address of its own, at which nobody else takes the port
		host = fmt.Sprintf("127.77.%d.%d", os.Getpid()>>8&255, os.Getpid()&255)
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if err := startServe(t, "tcp:"+addr).Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var rw net.Conn
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if rw, err = net.Dial("tcp", addr); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		c := open(t, rw)
		if out, err := conn.Output(t.Context(), c, "echo", "here"); err != nil || string(out) != "here\n" {
			t.Errorf("%q, %v", out, err)
		}
		c.Close()
	}
}

func TestServeRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"nowhere"}, {"udp:1"}, {"vsock:x"}, {"-", "-"}, {"tcp:300.0.0.1:1"}} {
		p := exec.Command(os.Args[0], "-test.run=^TestServeChild$")
		if len(args) == 1 {
			p.Env = append(os.Environ(), "AGENT_TEST_SERVE="+args[0])
			if err := p.Run(); err == nil {
				t.Errorf("serve %q went well", args)
			}
			continue
		}
		if code := Run(command.Call{Args: args, Stdout: io.Discard, Stderr: io.Discard}, nil); code != wire.ExitInvalid {
			t.Errorf("serve %q: %d", args, code)
		}
	}
	if _, err := openDevice(os.Args[0]); err == nil {
		t.Error("a file is taken for a port")
	}
}

// A port of the socket to the hypervisor works like any other, where the
// kernel has one that leads back.
func TestServeVsock(t *testing.T) {
	l, err := ListenVsock("70011")
	if err != nil {
		t.Skip("the kernel has no vsock:", err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	time.Sleep(10 * time.Millisecond)
	l.Close()
	select {
	case err := <-accepted:
		if err == nil {
			t.Error("a connection to a closed port")
		}
	case <-time.After(time.Minute):
		t.Error("Accept outlives Close")
	}
}
