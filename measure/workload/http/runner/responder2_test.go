package runner

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"testing"
	"time"

	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
)

// The responder answers the native generator over HTTP/2, on kept and on new
// connections, with pages that need several frames. The generator verifies every byte.
func TestResponderOverHTTP2(t *testing.T) {
	for _, x := range []struct {
		size      int64
		keepalive bool
	}{{webroot.MinPage, true}, {webroot.MinPage, false}, {3*maxFrame + 5, true}} {
		page := webroot.Page(x.size).Home().Body
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			respond(l, time.Now().Add(5*time.Minute), answerOf(http.Two, page), answerFrames)
		}()
		r := generate(t, l.Addr().String(), "protocol="+http.Two, "time=100ms", "connections=4", "timeout=1m",
			fmt.Sprintf("keepalive=%v", x.keepalive), fmt.Sprintf("length=%d", len(page)),
			fmt.Sprintf("sha256=%x", sha256.Sum256(page)))
		if why := http.Failed(r); why != "" || r.Work < 4 || len(r.Errors) > 0 {
			t.Errorf("%d bytes, keepalive %v: %q, %g responses, errors %v", len(page), x.keepalive, why, r.Work, r.Errors)
		}
		l.Close()
		<-ended
	}
}

// scripted is a connection with what a client sends.
type scripted struct {
	*bytes.Reader
	bytes.Buffer
}

func (c *scripted) Read(b []byte) (int, error)  { return c.Reader.Read(b) }
func (c *scripted) Write(b []byte) (int, error) { return c.Buffer.Write(b) }

// The responder acknowledges settings and pings, answers each stream under its own
// identifier, and ignores what it need not know.
func TestResponderFrames(t *testing.T) {
	c := &scripted{Reader: bytes.NewReader([]byte(clientPreface + settings + settled +
		frame(framePing, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8) + headers(flagEndStream, 1, ":method", "GET") +
		frame(frameWindow, 0, 0, 0, 0, 0, 1) + headers(flagEndStream, 3, ":method", "GET")))}
	answerFrames(c, fixedFrames([]byte("hello")))
	var got []string
	for _, f := range framesOf(c.Buffer.Bytes()) {
		got = append(got, fmt.Sprintf("%d/%d on %d", f.kind, f.flags, f.stream))
	}
	want := "[4/0 on 0 4/1 on 0 6/1 on 0 1/4 on 1 0/1 on 1 1/4 on 3 0/1 on 3]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func FuzzAnswerFrames(f *testing.F) {
	f.Add([]byte(clientPreface + settings + headers(flagEndStream, 1, ":method", "GET")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	response := fixedFrames([]byte("hello"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := &scripted{Reader: bytes.NewReader(sent)}
		answerFrames(c, response)
		if n := c.Buffer.Len(); n > frameHead+len(sent)*(len(response)+frameHead) {
			t.Errorf("%d bytes answer %d", n, len(sent))
		}
	})
}
