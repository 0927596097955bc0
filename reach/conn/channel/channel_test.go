package channel

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"

	"github.com/hashicorp/yamux"
)

func FuzzReadFrame(f *testing.F) {
	f.Add(AppendFrame(nil, FrameOutput, []byte("hello")))
	f.Add(AppendFrame(AppendFrame(nil, FrameEOF, nil), FrameFault, []byte(`{"kind":"subject"}`)))
	f.Add([]byte{FrameInput, 0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{FrameInput, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var again, buf []byte
		for {
			kind, payload, grown, err := ReadFrame(r, buf)
			if len(grown) > MaxPayload {
				t.Fatalf("%d bytes were held", len(grown))
			}
			if err != nil {
				if len(again) == len(data) && err != io.EOF {
					t.Fatalf("whole frames ended with %v", err)
				}
				break
			}
			buf = grown
			again = AppendFrame(again, kind, payload)
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("%x was read as %x", data, again)
		}
	})
}

// Whatever comes from the other end, looking for it ends, and finds it where
// it is.
func FuzzScanner(f *testing.F) {
	nonce := []byte("12345678")
	f.Add([]byte("junk"), true)
	f.Add(append(bytes.Clone(markPong), "1234567"...), true)
	f.Add(append(bytes.Clone(markPing), nonce...), false)
	f.Add(append(append(bytes.Clone(markPing), nonce...), markStart...), false)
	f.Fuzz(func(t *testing.T, junk []byte, follows bool) {
		s := &scanner{r: bytes.NewReader(junk)}
		for s.fill() == nil {
			s.greeting()
		}
		line := bytes.Clone(junk)
		if follows {
			line = append(append(append(line, markStarted...), nonce...), "rest"...)
		}
		s = &scanner{r: bytes.NewReader(line)}
		err := s.find(markStarted, nonce)
		if want := bytes.Contains(line, append(bytes.Clone(markStarted), nonce...)); want != (err == nil) {
			t.Fatalf("found: %v, want %v", err, want)
		}
		if follows && err == nil && !bytes.HasSuffix(line, s.buf) {
			t.Fatalf("%q is not the end of what came", s.buf)
		}
	})
}

// talk is an agent that answers each request with fixed bytes.
func talk(t testing.TB, answer []byte) *Conn {
	t.Helper()
	host, guest := net.Pipe()
	go func() {
		r, err := Answer(guest)
		if err != nil {
			return
		}
		session, err := yamux.Server(Link(r, guest), Config(8, time.Minute))
		if err != nil {
			return
		}
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				ReadFrame(stream, nil)
				stream.Write(answer)
				stream.Close()
			}()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := Open(ctx, host, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A guest may send anything at all: requests end, with the guest's fault.
func FuzzAnswer(f *testing.F) {
	f.Add(AppendFrame(nil, FrameResult, []byte(`{"code":3}`)))
	f.Add(AppendFrame(nil, FrameFault, []byte(`{"kind":"lab","message":"\u001b[2J"}`)))
	f.Add(AppendFrame(nil, FrameOutput, []byte("text")))
	f.Add(AppendFrame(nil, FrameResult, []byte(`{`)))
	f.Add(AppendFrame(nil, FrameAsk, nil))
	f.Add([]byte{'?', 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := talk(t, answer)
		var out bytes.Buffer
		_, err := c.Exec(t.Context(), conn.Cmd{Argv: []string{"x"}, Stdout: &out})
		if err != nil && fault.Of(err) == fault.Lab {
			t.Errorf("%q was taken for the laboratory's fault: %v", answer, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\x00") {
			t.Errorf("%q reaches the terminal", err)
		}
		if out.Len() > len(answer) {
			t.Errorf("%d bytes came from %d", out.Len(), len(answer))
		}
		if p, err := c.Dial(t.Context(), "tcp", "x:1"); err == nil {
			io.Copy(io.Discard, p)
			p.Close()
		}
	})
}

// A guest that never answers is given up when ctx ends, and the stream to it
// is closed.
func TestNobodyAnswers(t *testing.T) {
	host, guest := net.Pipe()
	go io.Copy(io.Discard, guest)
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := Open(ctx, host, Options{})
	if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.Subject) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := host.Write([]byte("x")); err == nil {
		t.Error("the stream is still open")
	}
}

// Requests fail with the reason for which the way broke.
func TestFailGivesTheReason(t *testing.T) {
	c := talk(t, nil)
	c.Fail(fault.New(fault.Subject, "the machine is gone"))
	c.Fail(fault.New(fault.Lab, "later"))
	for range 2 {
		_, err := c.Exec(t.Context(), conn.Command("true"))
		if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "the machine is gone") {
			t.Errorf("got %v", err)
		}
	}
}

// Small writes of the multiplexer leave as few large ones.
func TestLinkGathersWrites(t *testing.T) {
	w := &countingWriter{gate: make(chan struct{})}
	l := newLink(strings.NewReader(""), w)
	for range 1000 {
		if _, err := l.Write([]byte("0123456789")); err != nil {
			t.Fatal(err)
		}
	}
	close(w.gate)
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.idle:
	default: // it waits only so long, and a busy machine may keep the writer waiting
		if took := time.Since(began); took < closeTime {
			t.Errorf("Close left data behind after %v", took)
		}
		<-l.idle
	}
	if w.bytes != 10000 || w.writes > 10 {
		t.Errorf("%d bytes in %d writes", w.bytes, w.writes)
	}
	if _, err := l.Write([]byte("x")); err == nil {
		t.Error("a closed link takes more")
	}
}

type countingWriter struct {
	gate          chan struct{}
	writes, bytes int
}

func (w *countingWriter) Read([]byte) (int, error) { return 0, io.EOF }
func (w *countingWriter) Close() error             { return nil }
func (w *countingWriter) Write(p []byte) (int, error) {
	<-w.gate
	w.writes++
	w.bytes += len(p)
	return len(p), nil
}
