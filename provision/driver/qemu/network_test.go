//go:build linux

package qemu

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn/local"

	"golang.org/x/sys/unix"
)

// The network is the experiment's: the guest is reached at its address from
// the namespace, and it reaches nothing else.
func TestNetwork(t *testing.T) {
	spec := specOf(t, param.Values{optAccel: qemu.TCG})
	ctx := t.Context()
	ns := fmt.Sprintf("bo-q%d", os.Getpid())
	if err := netns.Create(ctx, local.Conn{}, ns, netip.MustParsePrefix("198.18.91.1/24")); err != nil {
		t.Fatal(err)
	}
	defer netns.Remove(context.Background(), local.Conn{}, ns)
	spec.Network = &netns.Network{Namespace: ns, Bridge: netns.Bridge, Addr: netip.MustParsePrefix("198.18.91.7/24"),
		Gateway: netip.MustParseAddr("198.18.91.1"), MAC: "02:b0:00:00:5b:07"}
	in := create(t, spec)
	if in.Info().Addr != spec.Network.Addr.Addr() {
		t.Errorf("address %v", in.Info().Addr)
	}
	l, err := peerListen(ns, "198.18.91.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "from "+c.RemoteAddr().String())
			c.Close()
		}
	}()
	c, err := in.Dial(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "from 198.18.91.7:") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := in.Dial(ctx, "tcp", "192.0.2.1:80"); !fault.Is(err, fault.Subject) {
		t.Errorf("elsewhere: %v", err)
	}
	if got := output(t, in, "cat", "/proc/net/route"); strings.Count(got, "\n") != 1 {
		t.Errorf("routes:\n%s", got)
	}
}

// peerListen listens inside a network namespace, as the generator does.
func peerListen(ns, address string) (net.Listener, error) {
	type result struct {
		l   net.Listener
		err error
	}
	ch := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		f, err := os.Open("/run/netns/" + ns)
		if err != nil {
			ch <- result{nil, err}
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			ch <- result{nil, err}
			return
		}
		l, err := net.Listen("tcp", address)
		ch <- result{l, err}
	}()
	r := <-ch
	return r.l, r.err
}
