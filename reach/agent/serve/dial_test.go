package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/conntest"
	"bakeoff/reach/wire"
)

// listening listens for a dialing agent, and starts one in this process.
func listening(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDialer(l.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.serve(ctx, withBoot(nil)) }()
	t.Cleanup(func() {
		l.Close()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the agent ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the agent did not end")
		}
	})
	return l
}

// accept waits for the agent's next connection.
func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		d.SetDeadline(time.Now().Add(time.Minute))
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// says runs a program over the connection.
func says(t *testing.T, c *channel.Conn) {
	t.Helper()
	if out, err := conn.Output(t.Context(), c, "echo", "here"); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestContractOverADialedConnection(t *testing.T) {
	conntest.Run(t, open(t, accept(t, listening(t))), conntest.Options{Dir: t.TempDir()})
}

// The agent dials again, however a conversation ended or failed to begin.
func TestDialedAgain(t *testing.T) {
	l := listening(t)
	for _, tt := range []struct {
		name string
		host func(t *testing.T, c net.Conn)
	}{
		{"closed before a greeting", func(t *testing.T, c net.Conn) {}},
		{"garbage before a greeting", func(t *testing.T, c net.Conn) {
			if _, err := io.WriteString(c, strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 10000)); err != nil {
				t.Error(err)
			}
			says(t, open(t, c))
		}},
		{"garbage in a conversation", func(t *testing.T, c net.Conn) {
			says(t, open(t, c))
			io.WriteString(c, strings.Repeat("garbage", 1000))
			// The agent closes the connection: reading ends without a timeout.
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the agent kept a connection that carries garbage")
			}
		}},
		{"lost", func(t *testing.T, c net.Conn) {
			says(t, open(t, c))
			c.(*net.TCPConn).SetLinger(0) // a reset instead of an orderly end
		}},
		{"half-open before a greeting", func(t *testing.T, c net.Conn) {
			c.(*net.TCPConn).CloseWrite()
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the agent sent %d bytes, %v", n, err)
			}
		}},
		{"half-open in a conversation", func(t *testing.T, c net.Conn) {
			says(t, open(t, c))
			c.(*net.TCPConn).CloseWrite()
		}},
		{"an orderly end", func(t *testing.T, c net.Conn) {
			o := open(t, c)
			says(t, o)
			o.Close()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := accept(t, l)
			tt.host(t, c)
			c.Close()
		})
	}
	says(t, open(t, accept(t, l)))
}

// A connection without a host is kept, and a host that comes late is served on
// it: QEMU's virtual network accepts before anybody has opened the channel.
func TestDialedHostComesLate(t *testing.T) {
	const patience = 50 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, err := newDialer(l.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.serve(ctx, withBoot(nil)) }()
	c := accept(t, l)
	select {
	case err := <-ended:
		t.Fatalf("the agent gave up a connection: %v", err)
	case <-time.After(3 * patience):
	}
	says(t, open(t, c))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The agent ends, and says why, if no host answers.
func TestDialGivesUp(t *testing.T) {
	const patience = 50 * time.Millisecond
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closing.Close()
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, tt := range []struct{ at, want string }{
		{"unix:" + filepath.Join(t.TempDir(), "none"), "no such file"},
		{closing.Addr().String(), "before a host sent its greeting"},
	} {
		d, err := newDialer(tt.at, patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.serve(t.Context(), withBoot(nil)); err == nil || !strings.Contains(err.Error(), tt.want) ||
			!strings.Contains(err.Error(), d.address) {
			t.Errorf("%s: %v, want %q", tt.at, err, tt.want)
		}
	}
}

// The whole program dials a host that comes later, and again. It leaves the
// session of the program that started it.
func TestServeDial(t *testing.T) {
	at := filepath.Join(t.TempDir(), "s")
	p := startServe(t, "--dial=unix:"+at)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		c := open(t, accept(t, l))
		if env, err := conn.Output(t.Context(), c, "env"); err != nil || strings.Contains(string(env), "SECRET") {
			t.Errorf("%v, environment %q", err, env)
		}
		c.Close()
	}
	if session, err := sessionOf(p.Process.Pid); err != nil || session != p.Process.Pid {
		t.Errorf("process %d is in session %d, %v", p.Process.Pid, session, err)
	}
}

func TestServeDialRefuses(t *testing.T) {
	for _, args := range [][]string{{"--dial", "host"}, {"--dial", ":1"}, {"--dial", "host:"}, {"--dial", "unix:relative"},
		{"--dial", "host:1", "-"}, {"--dial", "host:1", "--patience", "0s"}, {"--dial"}, {"--dial", "a:b:c"}} {
		var said strings.Builder
		if code := Run(command.Call{Args: args, Stdout: io.Discard, Stderr: &said}, nil); code != wire.ExitInvalid ||
			said.Len() == 0 {
			t.Errorf("serve %q: %d %q", args, code, said.String())
		}
	}
}
