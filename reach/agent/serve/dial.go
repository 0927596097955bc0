package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/sleep"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn/channel"
)

// The pause between two attempts to reach a host doubles from redialPause to
// maxRedialPause.
const (
	redialPause    = 20 * time.Millisecond
	maxRedialPause = time.Second
)

// dialer reaches the host from inside the environment.
type dialer struct {
	network, address string
	// patience bounds the time without a host: before the first conversation,
	// and after each.
	patience time.Duration
}

// newDialer reads the address of a host.
func newDialer(at string, patience time.Duration) (dialer, error) {
	network, address, err := ParseDial(at)
	return dialer{network, address, patience}, err
}

// ParseDial reads the address of a host for net.Dial: HOST:PORT, which "tcp:" may precede, or
// unix:PATH.
func ParseDial(at string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(at, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return "", "", command.UsageError("serve: --dial %q: the path must be absolute", at)
		}
		return "unix", path, nil
	}
	address = strings.TrimPrefix(at, "tcp:")
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return "", "", command.UsageError("serve: invalid address --dial %q; write HOST:PORT or unix:PATH", at)
	}
	return "tcp", address, nil
}

// serve connects to the host and serves it, again and again, until ctx ends. It
// returns an error if no host has answered for the patience of d.
//
// A host that disappears without a word is noticed by the keep-alives of TCP,
// after about two minutes. A connection is not a host: the virtual network of
// QEMU accepts connections for a channel that nobody has opened. The agent
// then waits on the connection without a limit, as on every port.
func (d dialer) serve(ctx context.Context, o Options) error {
	pause, since := redialPause, time.Now()
	var reason error // of the last attempt that the deadline did not end
	for {
		talked, err := d.once(ctx, since.Add(d.patience), o)
		if reason == nil || !errors.Is(err, context.DeadlineExceeded) {
			reason = err
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case talked:
			pause, since = redialPause, time.Now()
		case time.Since(since) >= d.patience:
			return fmt.Errorf("serve: no host answered at %s for %v: %w", d.address, d.patience, reason)
		}
		if sleep.For(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, maxRedialPause)
	}
}

// once connects until the deadline, and serves a host until it is gone. talked
// says that there was one; otherwise err says why not.
func (d dialer) once(ctx context.Context, deadline time.Time, o Options) (talked bool, err error) {
	port, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, d.network, d.address)
	if err != nil {
		return false, err
	}
	defer port.Close()
	defer context.AfterFunc(ctx, func() { port.Close() })()
	r, err := channel.Answer(port)
	if err != nil {
		return false, fmt.Errorf("the connection ended before a host sent its greeting: %w", err)
	}
	return true, serveHost(ctx, r, port, o)
}
