package vm

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/wire"
)

// usualSize is the size of a terminal until a command at a terminal sets that of its own.
var usualSize = wire.Size{Rows: 24, Columns: 80}

// keyboard makes messages for the terminal of a program of what clients of its console type.
type keyboard struct {
	*io.PipeReader
	to *io.PipeWriter
	mu sync.Mutex // a message at a time
}

func newKeyboard(typed io.Reader) *keyboard {
	k := &keyboard{}
	k.PipeReader, k.to = io.Pipe()
	k.mu.Lock() // the first message is a size
	go func() {
		err := wire.WriteSize(k.to, usualSize)
		k.mu.Unlock()
		for buf := make([]byte, 4096); err == nil; {
			n, rerr := typed.Read(buf)
			k.mu.Lock()
			err = errors.Join(wire.WriteKeys(k.to, buf[:n]), rerr)
			k.mu.Unlock()
		}
		k.to.Close()
	}()
	return k
}

// resize gives the terminal another size. It waits while the program reads nothing.
func (k *keyboard) resize(s wire.Size) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return wire.WriteSize(k.to, s)
}

// Resize gives the terminal of the program of a container a size.
func (g *Guest) Resize(ctx context.Context, s wire.Size) error {
	if !g.TTY {
		return fault.New(fault.Unsupported, "the program of guest %s has no terminal", g.name())
	}
	return g.ask(ctx, request{Do: "resize", Size: s})
}

// clientTime bounds the time that a program waits for the console of the command that starts it.
const clientTime = 10 * time.Second

// awaitClient waits until a client has connected.
func (t *terminal) awaitClient(ctx context.Context) {
	select {
	case <-t.arrived:
	case <-time.After(clientTime):
	case <-ctx.Done():
	}
}
