package fake_test

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"bakeoff/provision/driver/fake"
)

// A guest has ended when nothing runs in it any more: what it starts later is left behind.
func TestServeWaitsForTheGuest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket := filepath.Join(t.TempDir(), "s")
	var ended atomic.Bool
	greeted, served := make(chan struct{}), make(chan error, 1)
	go func() {
		call := &fake.Call{Ctx: ctx}
		served <- call.Serve(ctx, socket, fake.Place{}, func(net.Conn, *bufio.Reader) error {
			close(greeted)
			<-ctx.Done()
			time.Sleep(50 * time.Millisecond)
			ended.Store(true)
			return ctx.Err()
		})
	}()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			defer c.Close()
			break
		}
		select {
		case err := <-served:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	<-greeted
	cancel()
	if <-served; !ended.Load() {
		t.Error("the guest has ended, and a program in it still runs")
	}
}
