package load

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/workload/http/frame"

	"golang.org/x/sys/unix"
)

// What becomes due while pieces of responses arrive is sent between them, even
// if none of them completes a response.
func TestSendsBetweenPieces(t *testing.T) {
	const idle, busyOnes = 20, 30
	p, err := param.ParseArgs(loopParams, []string{"addr=127.0.0.1:1", "rate=20000/s", "time=10s", "length=1000000",
		fmt.Sprint("connections=", idle+busyOnes)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLoad(p)
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	w, err := newWorker(l, 0, &stop)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	piece := append([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"), bytes.Repeat([]byte("x"), 100_000)...)
	for i := range w.sockets {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(ends[1])
		s := &w.sockets[i]
		s.fd = ends[0]
		if errno := w.poll.add(s.fd, i); errno != 0 {
			t.Fatal(errno)
		}
		if i < idle {
			w.queue.push(i)
			continue
		}
		s.state, s.began = busy, nowNanos()
		s.in.begin(w.list.next(), true)
		s.in.rest = nil // as if it had been sent
		if _, err := unix.Write(ends[1], piece); err != nil {
			t.Fatal(err)
		}
	}
	w.phase, w.start = timed, nowNanos()
	began := nowNanos()
	w.handleEvents(began, 0)
	took, sent := nowNanos()-began, idle-w.queue.n
	const gap = 50_000 // nanoseconds between two requests
	t.Logf("%d requests in %d µs", sent, took/1000)
	// One of them was due before the first piece, and one may be due after
	// the last.
	if due := int(took / gap); due >= 3 && sent < 2 {
		t.Errorf("of %d requests that became due %d were sent", due, sent)
	} else if due < 3 {
		t.Skipf("the pieces took %d µs: nothing became due", took/1000)
	}
}

// Between two requests an HTTP/2 connection answers a PING, ends with GOAWAY
// without an error, and has an error for a response to nothing.
func TestIdleHTTP2(t *testing.T) {
	p, err := param.ParseArgs(loopParams, []string{"addr=127.0.0.1:1", "protocol=http/2", "connections=1"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := parseLoad(p)
	if err != nil {
		t.Fatal(err)
	}
	ping := []byte("12345678")
	for _, c := range []struct {
		name, frames, reply string
		open                bool
		errors              int64
	}{
		{"PING", packet(frame.Ping, 0, 0, ping...), packet(frame.Ping, frame.Ack, 0, ping...), true, 0},
		{"GOAWAY", packet(frame.GoAway, 0, 0, make([]byte, 8)...), "", false, 0},
		{"a response", okFive, "", false, 1},
	} {
		w, err := newWorker(l, 0, new(atomic.Bool))
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(ends[1])
		s := &w.sockets[0]
		s.in.begin(w.list.next(), true)
		s.in.session.greeted, s.in.session.open, s.in.rest = true, false, nil // as if it had been answered
		s.fd = ends[0]
		if _, err := unix.Write(ends[1], []byte(c.frames)); err != nil {
			t.Fatal(err)
		}
		w.handleSocket(0, unix.EPOLLIN)
		b := make([]byte, 100)
		n, _ := unix.Read(ends[1], b)
		if got := string(b[:max(n, 0)]); got != c.reply || s.fd >= 0 != c.open ||
			w.tally.errors["malformed response"] != c.errors {
			t.Errorf("%s: reply %q, open %v, errors %v", c.name, got, s.fd >= 0, w.tally.errors)
		}
	}
}
