package channel

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"
)

// How both ends find each other: the host sends pings until one is answered. It
// then sends start with a fresh number and discards everything until it reads
// started with that number. The session follows. An agent that is still in an
// earlier session reads a ping as a broken yamux header (its first byte is no
// version of yamux), ends that session, and answers the next ping.
const (
	markSize  = 8
	nonceSize = 8
	helloSize = markSize + nonceSize
)

var (
	markPing    = []byte("\xb5BAKEOF?")
	markPong    = []byte("\xb5BAKEOF!")
	markStart   = []byte("\xb5BAKEOF>")
	markStarted = []byte("\xb5BAKEOF<")
)

const (
	pingEvery = 100 * time.Millisecond
	// After slowRounds pings without an answer, the agent may be inside the
	// body of a frame of an earlier session. From then on each round sends
	// twice as many pings, up to maxBurst, until that body is full.
	slowRounds = 100
	maxBurst   = 256
)

// maxSkipped bounds what is discarded while searching for the answer. The
// windows of an earlier session are far below it.
const maxSkipped = 64 << 20

// Greet finds the agent at the other end of rw. It returns a reader of what the
// agent sends from then on; writes go to rw. When ctx ends, Greet gives up and
// closes rw, because a read of it may still be in progress.
func Greet(ctx context.Context, rw io.ReadWriteCloser) (io.Reader, error) {
	stop := context.AfterFunc(ctx, func() { rw.Close() })
	r, err := greet(ctx, rw)
	if !stop() && err == nil {
		err = ctx.Err() // rw was closed just now
	}
	if err != nil {
		rw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("channel: no answer from the agent: %w", err)
	}
	return r, nil
}

func greet(ctx context.Context, rw io.ReadWriter) (io.Reader, error) {
	var nonces [2 * nonceSize]byte
	if _, err := rand.Read(nonces[:]); err != nil {
		return nil, err
	}
	ping, start := nonces[:nonceSize], nonces[nonceSize:]
	ponged := make(chan struct{})
	pinged := make(chan error, 1)
	go func() { pinged <- sendPings(ctx, rw, ping, ponged) }()
	s := &scanner{r: rw}
	err := s.find(markPong, ping)
	close(ponged)
	// Pings and start must not be written at the same time.
	if perr := <-pinged; err == nil {
		err = perr
	}
	if err != nil {
		return nil, err
	}
	if _, err := rw.Write(append(bytes.Clone(markStart), start...)); err != nil {
		return nil, err
	}
	if err := s.find(markStarted, start); err != nil {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(s.buf), rw), nil
}

func sendPings(ctx context.Context, w io.Writer, nonce []byte, done <-chan struct{}) error {
	ping := append(bytes.Clone(markPing), nonce...)
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for round := 0; ; round++ {
		burst := 1
		if round > slowRounds {
			burst = min(maxBurst, 1<<min(round-slowRounds, 16))
		}
		if _, err := w.Write(bytes.Repeat(ping, burst)); err != nil {
			select {
			case <-done: // already answered: the next write reports the error
				return nil
			default:
				return err
			}
		}
		select {
		case <-tick.C:
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// scanner finds greetings in a stream of any bytes.
type scanner struct {
	r       io.Reader
	buf     []byte // read and not yet searched
	skipped int
}

// fill reads more.
func (s *scanner) fill() error {
	chunk := make([]byte, 4<<10)
	n, err := s.r.Read(chunk)
	s.buf = append(s.buf, chunk[:n]...)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// drop forgets n bytes.
func (s *scanner) drop(n int) error {
	s.buf = s.buf[n:]
	if s.skipped += n; s.skipped > maxSkipped {
		return errors.New("the serial line carries other data")
	}
	return nil
}

// find discards everything up to and including mark and nonce.
func (s *scanner) find(mark, nonce []byte) error {
	want := append(bytes.Clone(mark), nonce...)
	for {
		if i := bytes.Index(s.buf, want); i >= 0 {
			s.buf = s.buf[i+len(want):]
			return nil
		}
		// The last bytes may be the beginning of mark.
		if n := len(s.buf) - len(want) + 1; n > 0 {
			if err := s.drop(n); err != nil {
				return err
			}
		}
		if err := s.fill(); err != nil {
			return err
		}
	}
}

// Answer waits at the agent's end of rw for a host, and returns when the
// session begins. The error io.EOF says that there is no host.
func Answer(rw io.ReadWriter) (io.Reader, error) {
	s := &scanner{r: rw}
	for {
		mark, nonce := s.greeting()
		switch {
		case bytes.Equal(mark, markStart):
			_, err := rw.Write(append(bytes.Clone(markStarted), nonce...))
			return io.MultiReader(bytes.NewReader(s.buf), rw), err
		case bytes.Equal(mark, markPing):
			if _, err := rw.Write(append(bytes.Clone(markPong), nonce...)); err != nil {
				return nil, err
			}
		default:
			if err := s.fill(); err != nil {
				return nil, err
			}
			s.skipped = 0 // an agent waits without limit
		}
	}
}

// greeting removes the next start, or the last ping before it, from what was
// read. One answer is enough for many pings.
func (s *scanner) greeting() (mark, nonce []byte) {
	for {
		i := bytes.Index(s.buf, markPing[:markSize-1])
		if i < 0 {
			s.buf = s.buf[max(0, len(s.buf)-markSize+2):]
			return mark, nonce
		}
		if s.buf = s.buf[i:]; len(s.buf) < helloSize {
			return mark, nonce
		}
		m := s.buf[:markSize]
		if bytes.Equal(m, markPing) || bytes.Equal(m, markStart) {
			mark, nonce = m, s.buf[markSize:helloSize]
			s.buf = s.buf[helloSize:]
			if bytes.Equal(m, markStart) {
				return mark, nonce
			}
			continue
		}
		s.buf = s.buf[1:]
	}
}
