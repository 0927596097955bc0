// Package readiness knocks at a server from outside until it answers.
package readiness

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
)

// The ways in which a server answers.
const (
	TCP  = "tcp"
	HTTP = "http"
	SSH  = "ssh"
)

// Server is a server and what counts as its answer.
type Server struct {
	Via  string // TCP, HTTP or SSH
	Port int
	Path string // of HTTP, from the first slash on
}

// Forms lists what Parse reads, for messages.
const Forms = "tcp:PORT, http:PORT/PATH or ssh:PORT"

// Parse reads tcp:PORT, http:PORT/PATH or ssh:PORT.
func Parse(text string) (Server, error) {
	via, number, _ := strings.Cut(text, ":")
	s := Server{Via: via}
	known := via == TCP || via == SSH || via == HTTP
	if via == HTTP {
		var path string
		number, path, known = strings.Cut(number, "/")
		s.Path = "/" + path
	}
	n, err := strconv.Atoi(number)
	plain := !strings.ContainsFunc(s.Path, func(c rune) bool { return c <= ' ' || c > '~' })
	if s.Port = n; known && err == nil && n > 0 && n < 1<<16 && plain && strconv.Itoa(n) == number {
		return s, nil
	}
	return Server{}, fault.New(fault.Invalid, "write %s (got %q)", Forms, text)
}

// String is what Parse reads.
func (s Server) String() string { return fmt.Sprintf("%s:%d%s", s.Via, s.Port, s.Path) }

// Read reads the answer of the server from a connection that was accepted. forwarded
// tells that something else accepts connections before the server does. A server of TCP
// must then send a byte.
func (s Server) Read(c net.Conn, forwarded bool) error {
	switch s.Via {
	case HTTP:
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\nHost: guest\r\n\r\n", s.Path); err != nil {
			return err
		}
		status := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(c, status); err != nil {
			return err
		}
		if got := string(status); !strings.HasPrefix(got, "HTTP/1.") || !strings.HasSuffix(got, " 200") {
			return fault.New(fault.Subject, "the server answers %q instead of HTTP status 200", got)
		}
	case SSH:
		banner := make([]byte, len("SSH-"))
		if _, err := io.ReadFull(c, banner); err != nil {
			return err
		}
		if got := string(banner); got != "SSH-" {
			return fault.New(fault.Subject, "the server begins with %q instead of SSH-", got)
		}
	default:
		if !forwarded {
			return nil
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	return nil
}

// Knock is how a server is asked whether it is there.
type Knock struct {
	// Dial opens a connection to the server.
	Dial func(ctx context.Context) (net.Conn, error)
	// Forwarded is that of Read.
	Forwarded bool
	// Step is the time between two attempts: the resolution. An attempt may stay open for
	// long and does not hold up the next one: a guest without an address drops what it
	// gets.
	Step time.Duration
}

const (
	patience = 5 * time.Second // of one attempt
	mostOpen = 64              // attempts at the same time
	// mostSSH is the same for sshd, which by default drops connections when ten have not
	// logged in (MaxStartups).
	mostSSH = 8
)

// atOnce is how many attempts may be open at the same time. A network that swallows them
// would soon have most, and nobody would knock until the first of them end: beyond few, they
// are slow apart.
func (s Server) atOnce() (few, most int, slow time.Duration) {
	most = mostOpen
	if s.Via == SSH {
		most = mostSSH
	}
	return most / 2, most, patience / time.Duration(most/2)
}

// Wait returns when the server answered. It was ready at most late before: the time
// between two attempts. If ctx ends first, the error says what the last attempt saw.
func (k Knock) Wait(ctx context.Context, s Server) (at time.Time, late time.Duration, err error) {
	attempts, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	tick := time.NewTicker(k.Step)
	defer tick.Stop()
	last := fault.New(fault.Subject, "nothing answers at %s", s)
	few, most, slow := s.atOnce()
	open, began := 0, time.Time{}
	for {
		if now := time.Now(); open < few || open < most && now.Sub(began) >= slow {
			gap := k.Step
			if !began.IsZero() {
				gap = max(gap, now.Sub(began))
			}
			began = now
			open++
			go func() {
				err := k.knockOnce(attempts, s)
				select {
				case results <- result{time.Now(), gap, err}:
				case <-attempts.Done():
				}
			}()
		}
		for waiting := true; waiting; {
			select {
			case r := <-results:
				if r.err == nil {
					return r.at, r.gap, nil
				}
				open--
				last = fault.New(fault.Subject, "nothing answers at %s: %w", s, r.err)
			case <-tick.C:
				waiting = false
			case <-ctx.Done():
				return time.Time{}, 0, last
			}
		}
	}
}

// Each calls seen for answers of the server until ctx ends. After each it waits for rest, so
// as not to disturb a server that answers. The server was ready at most late before at.
func (k Knock) Each(ctx context.Context, s Server, rest time.Duration, seen func(at time.Time, late time.Duration)) {
	for slack := k.Step; ; slack = rest {
		began := time.Now()
		at, late, err := k.Wait(ctx, s)
		if err != nil {
			return
		}
		if at.Sub(began) <= slack { // perhaps the first attempt after the rest
			late = max(late, slack)
		}
		seen(at, late)
		if sleep.For(ctx, rest) != nil {
			return
		}
	}
}

// result is that of one attempt.
type result struct {
	at  time.Time
	gap time.Duration // since the attempt before began
	err error
}

func (k Knock) knockOnce(ctx context.Context, s Server) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := k.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return s.Read(c, k.Forwarded)
}
