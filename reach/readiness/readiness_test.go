package readiness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/base/fault"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Server{
		"tcp:22":             {Via: TCP, Port: 22},
		"ssh:2222":           {Via: SSH, Port: 2222},
		"http:80/":           {Via: HTTP, Port: 80, Path: "/"},
		"http:8080/a/b?c=:d": {Via: HTTP, Port: 8080, Path: "/a/b?c=:d"},
	} {
		if got, err := Parse(text); got != want || err != nil || got.String() != text {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "tcp:", "tcp:0", "tcp:65536", "tcp:022", "tcp:22/", "http:80", "http:/",
		"http:80/a b", "http:80/a\r\nX: y", "udp:53", "22", "ssh:x"} {
		if got, err := Parse(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("http:80/a")
	f.Add("ssh:22")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := Parse(text); err == nil && s.String() != text {
			t.Errorf("%q became %q", text, s)
		}
	})
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		via, says     string
		forwarded, ok bool
	}{
		{HTTP, "HTTP/1.1 200 OK\r\n\r\n", true, true}, {HTTP, "HTTP/1.0 200 OK\r\n\r\n", false, true},
		{HTTP, "HTTP/1.1 404 Not Found\r\n\r\n", true, false}, {HTTP, "SSH-2.0-OpenSSH\r\n", true, false},
		{HTTP, "", true, false},
		{TCP, "SSH-2.0-OpenSSH\r\n", true, true}, {TCP, "", true, false}, {TCP, "", false, true},
		{SSH, "SSH-2.0-OpenSSH\r\n", true, true}, {SSH, "220 mail\r\n", true, false}, {SSH, "", false, false},
	} {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if tt.via == HTTP {
				for in := bufio.NewScanner(theirs); in.Scan() && in.Text() != ""; {
				}
			}
			fmt.Fprint(theirs, tt.says)
		}()
		if err := (Server{Via: tt.via, Port: 80, Path: "/"}).Read(ours, tt.forwarded); (err == nil) != tt.ok {
			t.Errorf("%s, %q: %v", tt.via, tt.says, err)
		}
		ours.Close()
	}
}

// An attempt that hangs does not hold up the next one, and the error of the last attempt
// explains a server that never answers.
func TestWait(t *testing.T) {
	var attempts atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k := Knock{Step: time.Millisecond, Dial: func(ctx context.Context) (net.Conn, error) {
		switch attempts.Add(1) {
		case 1:
			<-ctx.Done()
			return nil, ctx.Err()
		case 2:
			return nil, errors.New("refused")
		}
		ours, theirs := net.Pipe()
		go fmt.Fprint(theirs, "SSH-2.0-x\r\n")
		return ours, nil
	}}
	before := time.Now()
	at, late, err := k.Wait(ctx, Server{Via: SSH, Port: 22})
	if err != nil || late < k.Step || at.Before(before) || at.After(time.Now()) || attempts.Load() < 3 {
		t.Errorf("%v, %v, %v after %d attempts", at, late, err, attempts.Load())
	}
	refused := make(chan struct{}, 1)
	k.Dial = func(context.Context) (net.Conn, error) {
		select {
		case refused <- struct{}{}:
		default:
		}
		return nil, errors.New("refused")
	}
	short, stop := context.WithCancel(t.Context())
	go func() {
		for range mostOpen + 1 { // then the result of at least one was received
			<-refused
		}
		stop()
	}()
	if _, _, err := k.Wait(short, Server{Via: TCP, Port: 22}); !fault.Is(err, fault.Subject) ||
		!strings.Contains(err.Error(), "tcp:22: refused") {
		t.Errorf("got %v", err)
	}
}

// A network that swallows attempts does not end the knocking, and Wait reports the time
// between two attempts.
func TestWaitInASilentNetwork(t *testing.T) {
	var attempts atomic.Int64
	server := Server{Via: SSH, Port: 22}
	few, _, slow := server.atOnce()
	k := Knock{Step: time.Millisecond, Dial: func(ctx context.Context) (net.Conn, error) {
		if attempts.Add(1) <= int64(few) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ours, theirs := net.Pipe()
		go fmt.Fprint(theirs, "SSH-2.0-x\r\n")
		return ours, nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, late, err := k.Wait(ctx, server); err != nil || late < slow || attempts.Load() <= int64(few) {
		t.Errorf("%v, %v after %d attempts", late, err, attempts.Load())
	}
}

// A server that answers is asked again after a rest, until the end.
func TestEach(t *testing.T) {
	k := Knock{Step: time.Millisecond, Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go fmt.Fprint(theirs, "SSH-2.0-x\r\n")
		return ours, nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last time.Time
	n := 0
	k.Each(ctx, Server{Via: SSH, Port: 22}, 2*time.Millisecond, func(at time.Time, late time.Duration) {
		if !at.After(last) || late < k.Step {
			t.Errorf("answer %d at %v, late %v", n, at, late)
		}
		if last, n = at, n+1; n == 3 {
			cancel()
		}
	})
	if n != 3 {
		t.Errorf("%d answers", n)
	}
}
