package isolation

import (
	"bytes"
	"context"
	"sync"

	"bakeoff/base/fault"
	agentcontainer "bakeoff/reach/agent/container"
	"bakeoff/reach/conn"
)

// holder is a program outside the environment that keeps it alive: when it
// ends, the environment ends.
type holder struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when it has ended
	result error         // why, from then on
	up     chan struct{} // closed when ready has said so
	once   sync.Once
	ready  func(out, errs []byte) bool

	mu        sync.Mutex
	out, errs []byte
}

// maxSaid bounds what is kept of each stream of a holder.
const maxSaid = 16 << 10

// Hold starts the program that keeps the environment alive, on host, and returns
// its output once ready accepts it. ready is called whenever there is more output.
// The program ends with the environment.
func (e *Env) Hold(ctx context.Context, host conn.Conn, cmd conn.Cmd,
	ready func(out, errs []byte) bool) (out, errs []byte, err error) {
	// The program outlives ctx.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &holder{cancel: cancel, ended: make(chan struct{}), up: make(chan struct{}), ready: ready}
	e.held = h
	cmd.Stdout, cmd.Stderr = said{h, &h.out}, said{h, &h.errs}
	go func() {
		defer close(h.ended)
		exit, err := agentcontainer.Entered(cmd, func(c conn.Cmd) (conn.Exit, error) {
			return host.Exec(life, c)
		})
		if err == nil {
			_, errs := h.said()
			err = fault.New(fault.Lab, "the process that holds the environment ended with %v: %s", exit, bytes.TrimSpace(errs))
		}
		h.result = err
	}()
	select {
	case <-h.up:
		out, errs = h.said()
		return out, errs, nil
	case <-h.ended:
		return nil, nil, h.result
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// said is one stream of a holder.
type said struct {
	h    *holder
	text *[]byte
}

func (s said) Write(p []byte) (int, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	*s.text = append(*s.text, p[:min(len(p), maxSaid-len(*s.text))]...)
	if s.h.ready(s.h.out, s.h.errs) {
		s.h.once.Do(func() { close(s.h.up) })
	}
	return len(p), nil
}

func (h *holder) said() (out, errs []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.out), bytes.Clone(h.errs)
}

// release ends the holder. It kills the group first, which also ends a frozen
// environment.
func (e *Env) release(ctx context.Context) error {
	h := e.held
	if h == nil {
		return nil
	}
	var err error
	if e.Group != nil {
		err = e.Group.Kill(ctx)
	}
	h.cancel()
	select {
	case <-h.ended:
	case <-ctx.Done():
		return fault.Op("stop what holds "+e.Spec.Label, ctx.Err())
	}
	return err
}
