package env

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"bakeoff/reach/conn/local"
)

// The other end is inside the experiment's network, with its connections too:
// outside of it the same address may be anybody's.
func TestThePeerDialsInsideTheNetwork(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it makes a network namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip: apt-get install iproute2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m, err := Open(ctx, Config{StateDir: t.TempDir(), CacheDir: t.TempDir(), Host: local.Conn{}, Agent: "/nonexistent",
		Run: "test"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Network(ctx); err != nil {
		t.Fatal(err)
	}
	p, _, _ := m.Peer([]int{0})
	// Nobody listens at the gateway: inside, where it lives, that is refused
	// at once.
	c, err := p.Dial(ctx, "tcp", Subnet.Addr().Next().String()+":9")
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial inside: %v, want connection refused", err)
	}
}
