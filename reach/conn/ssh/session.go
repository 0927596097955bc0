package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/safetext"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// session is a session with one agent.
type session struct {
	*channel.Conn
	site    site
	agent   string // its path on the other side
	machine channel.Machine
	ended   chan struct{} // closed when ssh has ended
	err     error         // how; read it after ended
	silence time.Duration // of Options
	stop    context.CancelFunc
}

// The bounds of a session.
const (
	greetTime = 30 * time.Second
	// pulse is how often the controller sends a message. After Options.Silence
	// without one, the agent assumes that its controller is gone.
	pulse = 25 * time.Second
	// endTime is how long the agent may take to end with its input.
	endTime = 10 * time.Second
)

// connect copies the agent to the other side and starts it. was is the expected
// machine; nil accepts any.
func (c *client) connect(ctx context.Context, was *channel.Machine, has held) (*session, error) {
	where, err := c.askSite(ctx)
	if err != nil {
		return nil, err
	}
	program, err := c.pushAgent(ctx, where)
	if err != nil {
		return nil, err
	}
	s, err := c.serve(ctx, where, program)
	if err != nil {
		return nil, err
	}
	if err := s.introduce(ctx, was, has); err != nil {
		s.close()
		return nil, fault.Op("host "+c.o.Name, err)
	}
	go s.sendPulse()
	return s, nil
}

// introduce asks the agent for its machine, and refuses an unexpected one.
func (s *session) introduce(ctx context.Context, was *channel.Machine, has held) (err error) {
	if s.machine, err = s.Machine(ctx); err != nil {
		return err
	}
	if was != nil {
		if by, why := was.Hardware.Same(s.machine.Hardware); by == "" && !strings.HasPrefix(why, "neither") {
			return fault.New(fault.Unsupported, "a different machine answers at this address: %s", why)
		}
	}
	for path, owner := range has.locks {
		if err := (channel.Files{Conn: s.Conn}).Lock(ctx, path, owner); err != nil {
			return err
		}
	}
	// CPU numbers of another system on this machine may differ.
	if len(has.cpus) > 0 && (was == nil || was.GOOS == s.machine.GOOS) {
		return s.Settle(ctx, has.cpus)
	}
	return nil
}

// serve starts the agent and greets it.
func (c *client) serve(ctx context.Context, where site, program string) (*session, error) {
	argv := []string{program, "host", "--silence", c.o.Silence.String()}
	alive, stop := context.WithCancel(context.Background())
	s := &session{site: where, agent: program, silence: c.o.Silence, ended: make(chan struct{}), stop: stop}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		defer close(s.ended)
		errs := &conn.Tail{Limit: 2048}
		exit, err := c.runOn(alive, where, argv, inR, outW, errs)
		s.err = ending(c.o.Name, exit, err, string(errs.Bytes()))
		inR.CloseWithError(io.ErrClosedPipe)
		outW.Close()
	}()
	gctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	var err error
	s.Conn, err = channel.Open(gctx, &pipes{outR, inW}, channel.Options{Patience: c.o.Silence, Reason: s.reason})
	if err == nil {
		return s, nil
	}
	// ssh reports more precisely than the channel why there is no answer.
	select {
	case <-s.ended:
		err = s.err
	case <-time.After(2 * time.Second):
	}
	stop()
	return nil, fault.Wrap(kindOf(err), "host "+c.o.Name, err)
}

// kindOf is the kind of an error of a host: nothing there is a subject.
func kindOf(err error) fault.Kind {
	if k := fault.Of(err); k != fault.Subject {
		return k
	}
	return fault.Lab
}

// ending returns why a session ended.
func ending(name string, exit conn.Exit, err error, said string) error {
	said = safetext.Line(strings.TrimPrefix(strings.TrimSpace(said), "bakeoff-agent: host: "))
	if err != nil {
		return fault.New(kindOf(err), "lost the connection to %s: %w", name, err)
	}
	return fault.New(fault.Lab, "bakeoff-agent on %s has ended: %s: %s", name, exit, said)
}

// reason returns why the connection broke.
func (s *session) reason() error {
	select {
	case <-s.ended:
		return fault.Wrap(fault.Lab, "", s.err)
	case <-time.After(2 * time.Second):
		return fault.New(fault.Lab, "lost the connection")
	}
}

// gone reports whether the session has ended.
func (s *session) gone() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.Broken() != nil
	}
}

// close ends the session: the agent ends when its input ends. An ssh process
// that does not end is killed.
func (s *session) close() {
	s.Conn.Close()
	select {
	case <-s.ended:
	case <-time.After(endTime):
	}
	s.stop()
}

// sendPulse sends the agent a message at intervals.
func (s *session) sendPulse() {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), s.silence)
			_, _ = s.Clock(ctx) // whoever uses a broken connection notices
			cancel()
		}
	}
}

// pipes are the agent's output and input as one stream.
type pipes struct {
	*io.PipeReader
	in *io.PipeWriter
}

func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *pipes) Close() error {
	return errors.Join(p.in.Close(), p.PipeReader.Close())
}

// channel returns the channel to the agent, and reconnects if it broke.
func (c *Conn) channel(ctx context.Context) (*channel.Conn, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Lab, "host "+c.o.Name, ctx.Err())
	}
	defer func() { <-c.turn }()
	if c.closed {
		return nil, fault.New(fault.Lab, "host %s: the connection was closed", c.o.Name)
	}
	if !c.s.gone() {
		return c.s.Conn, nil
	}
	s, err := c.reconnect(ctx)
	if err != nil {
		return nil, err
	}
	c.s = s
	c.count++
	return s.Conn, nil
}

// Pauses between attempts to connect: a restart of sshd takes a second, a boot
// a minute or more.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 5 * time.Second
)

// reconnect reconnects until it succeeds, patience has passed, or an error is
// final.
func (c *Conn) reconnect(ctx context.Context) (*session, error) {
	c.s.close()
	began := time.Now()
	wctx, cancel := context.WithTimeout(ctx, c.o.Patience)
	defer cancel()
	c.o.reportProgress("lost the connection to %s; reconnecting for up to %v", c.o.Name, c.o.Patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c.client.hangUp() // ssh would share what is left of the old connection
		s, err := c.client.connect(wctx, &c.s.machine, c.held)
		if err == nil {
			if s.machine.Boot != c.s.machine.Boot {
				c.o.reportProgress("%s rebooted and is back after %v", c.o.Name, time.Since(began).Round(time.Second))
			}
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fault.Wrap(fault.Lab, "host "+c.o.Name, ctx.Err())
		}
		// The old agent may hold the lock until it notices that its
		// controller is gone.
		if fault.Is(err, fault.Unsupported) && !lock.Refused(err) {
			return nil, err
		}
		if sleep.For(wctx, pause) != nil {
			if ctx.Err() != nil {
				return nil, fault.Wrap(fault.Lab, "host "+c.o.Name, ctx.Err())
			}
			return nil, fault.Wrap(
				fault.Lab,
				fmt.Sprintf("host %s did not come back within %v", c.o.Name, c.o.Patience),
				err,
			)
		}
	}
}
