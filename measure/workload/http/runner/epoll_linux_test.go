package runner

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"bakeoff/base/param"

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
		s.state, s.began = busy, now()
		s.in.begin(w.list.next(), true)
		s.in.rest = nil // as if it had been sent
		if _, err := unix.Write(ends[1], piece); err != nil {
			t.Fatal(err)
		}
	}
	w.phase, w.start = timed, now()
	began := now()
	w.turn(began, 0)
	took, sent := now()-began, idle-w.queue.n
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
