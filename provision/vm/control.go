package vm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/guest"
	"bakeoff/reach/wire"
)

// Stop says how a guest is ended.
type Stop struct {
	Force bool          `json:"force,omitempty"`
	Grace time.Duration `json:"grace_ns,omitempty"` // until it is ended by force; 0 is that of its brand
	// KeepAutoboot is for a host that stops: the guest starts again with it.
	KeepAutoboot bool `json:"-"`
}

// request is what a command asks the supervisor for.
type request struct {
	// Do is stop, reboot, kill, limit, resolvers, screen, resize, snapshot, drop-snapshot, finish or foresee.
	Do      string    `json:"do"`
	Stop    Stop      `json:"stop,omitzero"`
	Signal  int       `json:"signal,omitempty"`
	Name    string    `json:"name,omitempty"` // of a new snapshot; ID of one that is dropped
	limited           // the new limits
	live    *[]string // gets the paths of disks that change at once, for the answer
	// Boot and Grow are what the machine would start from, and the disks that would grow: as in next.
	Boot *Boot            `json:"boot,omitempty"`
	Grow map[string]int64 `json:"grow,omitempty"`
	// VNCPort and VNCPassword are those of the screen of a machine, as in its manifest.
	VNCPort     int       `json:"vnc_port,omitzero"`
	VNCPassword string    `json:"vnc_password,omitempty"`
	Resolvers   []string  `json:"resolvers,omitempty"`
	Size        wire.Size `json:"size,omitzero"` // of the terminal of the program of a container
}

// reply is the answer of the supervisor.
type reply struct {
	Live  []string   `json:"live,omitempty"` // the paths of disks that change at once
	Error string     `json:"error,omitempty"`
	Kind  fault.Kind `json:"kind,omitempty"`
}

// maxRequest bounds a request and its answer, in bytes.
const maxRequest = 64 << 10

// ask sends a request to the supervisor of the guest and waits for its answer.
func (g *Guest) ask(ctx context.Context, r request) error {
	_, err := g.askLive(ctx, r)
	return err
}

// askLive is ask, and returns the paths of disks that change at once.
func (g *Guest) askLive(ctx context.Context, r request) (live []string, _ error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", g.Path(socketCtl))
	if err != nil {
		return nil, fault.Op("the supervisor of guest "+g.UUID, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return nil, fault.Op("the supervisor of guest "+g.UUID, err)
	}
	var answer reply
	if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&answer); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fault.Op("the supervisor of guest "+g.UUID+" does not answer", err)
	}
	if answer.Error != "" {
		return nil, fault.New(answer.Kind, "%s", answer.Error)
	}
	return answer.Live, nil
}

// listenAt listens on a socket in the folder of a guest, in place of that of a process that
// has ended.
func listenAt(path string) (net.Listener, error) {
	if err := guest.CheckSocketDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// serveRequests hands the requests of commands to do until the listener is closed. do, or who
// gets the request from it, answers once. The answer is written when the call returns: a
// supervisor may end then.
func serveRequests(l net.Listener, do func(r request, answer func(error))) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var r request
			if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&r); err != nil {
				return
			}
			answered := make(chan struct{})
			r.live = new([]string)
			do(r, func(err error) {
				answer := reply{Live: *r.live}
				if err != nil {
					answer = reply{Error: err.Error(), Kind: fault.Of(err)}
				}
				_ = json.NewEncoder(c).Encode(answer) // a command that has ended needs no answer
				close(answered)
			})
			<-answered
		}()
	}
}

// end ends the guest if it runs, and waits until its supervisor has ended. Its caller holds
// the lock for changes.
func (g *Guest) end(ctx context.Context, how Stop) error {
	if lock.HeldBy(g.Path(fileLife)) == nil {
		return g.store.reap(ctx, g)
	}
	err := g.ask(ctx, request{Do: "stop", Stop: how})
	if err != nil && how.Force && ctx.Err() == nil {
		// A supervisor that does not answer is ended, and its guest with it.
		if held := lock.HeldBy(g.Path(fileLife)); held != nil && held.PID > 0 {
			err = signalProcess(held.PID, int(syscall.SIGKILL))
		} else {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return g.awaitEnd(ctx)
}

// awaitEnd waits until no supervisor holds the guest.
func (g *Guest) awaitEnd(ctx context.Context) error {
	held, err := lock.Wait(ctx, g.Path(fileLife))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the guest removes itself when it ends, and has done so
	}
	if err != nil {
		return fault.Op("the supervisor of guest "+g.UUID+" does not end", err)
	}
	held.Release()
	return g.store.reap(ctx, g)
}
