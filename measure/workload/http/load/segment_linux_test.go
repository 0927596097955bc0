package load

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openPair returns both ends of a TCP connection on the loopback interface.
func openPair(t *testing.T) (near, far int) {
	t.Helper()
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(listener, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	at, err := unix.Getsockname(listener)
	if err != nil {
		t.Fatal(err)
	}
	near, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Connect(near, at)
	}
	if err == nil {
		far, _, err = unix.Accept(listener)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(near); unix.Close(far) })
	return near, far
}

// A head that arrives alone wakes nobody, and a body does. Lowering the mark reports what
// has arrived in the meantime.
func TestHeadAloneIsNotReported(t *testing.T) {
	var p poller
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	near, far := openPair(t)
	s := socket{fd: near, lowWater: 1}
	if errno := p.add(near, 0); errno != 0 {
		t.Fatal(errno)
	}
	readable := func(patience int64) bool {
		for _, e := range p.wait(patience) {
			if e.Events&unix.EPOLLIN != 0 {
				return true
			}
		}
		return false
	}
	const second = 1_000_000_000
	readable(0) // the connection is open
	head, body := []byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"), bytes.Repeat([]byte("x"), 1000)
	write := func(b []byte) {
		if _, err := unix.Write(far, b); err != nil {
			t.Fatal(err)
		}
	}
	s.setLowWater(len(body))
	if s.lowWater != len(body) {
		t.Fatal("the kernel does not accept SO_RCVLOWAT")
	}
	write(head)
	if readable(0) {
		t.Error("the head alone was reported")
	}
	write(body)
	if !readable(10 * second) {
		t.Error("the body was not reported")
	}
	if n, errno := receive(near, make([]byte, 4096)); errno != 0 || n != len(head)+len(body) {
		t.Errorf("one read returned %d bytes, %v; want both segments, %d bytes", n, errno, len(head)+len(body))
	}
	write(head)
	if readable(0) {
		t.Error("the second head alone was reported")
	}
	s.setLowWater(1)
	if !readable(10 * second) {
		t.Error("lowering the mark did not report what had arrived")
	}
}

// Responses that are shorter than the body that the generator waits for count as what they
// are, and not as requests without a response.
func TestShorterResponsesAreCounted(t *testing.T) {
	long := strings.Repeat(hello, 400)
	addr, _ := serve(t, func(c net.Conn, n int64) bool {
		switch {
		case n < 20 || n%4 > 0:
			_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long)
			return err == nil
		case n%8 == 0:
			_, err := io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			return err == nil
		}
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
		return err == nil
	})
	r := generate(t, addr, besideOthers, "connections=4", "time=1s", fmt.Sprint("length=", len(long)),
		"sha256="+SumOf([]byte(long)))
	if r.Errors["status 503"] == 0 || r.Errors["short body"] == 0 || r.Errors["timeout"] > 0 {
		t.Errorf("errors are %v; want status 503 and short body, and no timeout", r.Errors)
	}
}

// The generator notices that the server has its CPU by where responses come from.
func TestServerOnTheSameCPU(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with its affinity
	var all, one, other unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("needs two CPUs")
	}
	for cpu := 0; one.Count() == 0 || other.Count() == 0; cpu++ {
		switch {
		case !all.IsSet(cpu):
		case one.Count() == 0:
			one.Set(cpu)
		default:
			other.Set(cpu)
		}
	}
	near, far := openPair(t)
	w := &worker{sockets: []socket{{fd: near}, {fd: -1}}}
	for _, c := range []struct {
		name         string
		server, self *unix.CPUSet
		want         bool
	}{{"same", &one, &one, true}, {"other", &other, &one, false}, {"any", &one, &all, false}} {
		if err := unix.SchedSetaffinity(0, c.server); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(far, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(0, c.self); err != nil {
			t.Fatal(err)
		}
		if n, errno := receive(near, make([]byte, 8)); n != 1 || errno != 0 {
			t.Fatal(n, errno)
		}
		if got := w.serverIsHere(); got != c.want {
			t.Errorf("%s CPU: %v, want %v", c.name, got, c.want)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	if !yieldToServer() {
		t.Skip("this thread has another scheduling class already")
	}
	if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_BATCH {
		t.Errorf("scheduling class %+v, %v; want SCHED_BATCH", a, err)
	}
}
