package drivertest

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// network: the generator reaches two environments that listen on the same port,
// nobody else does, and an environment without a network has none.
func (s *runner) network() {
	ctx, cancel := context.WithTimeout(s.Context(), 4*s.o.Timeout)
	defer cancel()
	gateway := netip.MustParsePrefix("198.18.251.1/24")
	place, generator := s.experiment(ctx, gateway)
	var addrs []string
	for i, who := range []string{"one", "two"} {
		spec := s.spec("net-" + who)
		addr := netip.AddrFrom4([4]byte{198, 18, 251, byte(2 + i)})
		spec.Network = &netns.Network{Namespace: place.Namespace, Bridge: place.Bridge, Addr: netip.PrefixFrom(addr, 24),
			Gateway: gateway.Addr(), MAC: fmt.Sprintf("02:b0:00:00:fb:%02x", 2+i)}
		in := s.create(spec)
		if in.Info().Addr != addr {
			s.Errorf("Info has address %v, want %v", in.Info().Addr, addr)
		}
		program := in.Info().Agent
		s.exec(in, "sh", "-c", `"$0" subject serve "$1" "$2" >/dev/null 2>&1 &`, program, addr.String()+":8080", who)
		addrs = append(addrs, addr.String()+":8080")
	}
	for i, who := range []string{"one", "two"} {
		s.until("the server to answer the generator", func() bool { return answer(ctx, generator, addrs[i]) == who })
	}
	if place.Namespace != "" {
		if got := answer(ctx, s.host, addrs[0]); got == "one" {
			s.Error("the host's own network reaches the environment")
		}
	}
	alone := s.create(s.spec("net-none"))
	if got := answer(ctx, alone, addrs[0]); got != "" {
		s.Errorf("an environment without a network got %q", got)
	}
}

// experiment creates a network with a bridge and returns it with a connection
// to the place of the generator: a namespace of its own on Linux; the host
// itself on FreeBSD, which has none. On other systems the test is skipped.
func (s *runner) experiment(ctx context.Context, gateway netip.Prefix) (netns.Network, conn.Conn) {
	s.Helper()
	switch runtime.GOOS {
	case "linux":
		name := "bo-" + s.label("net")
		if err := netns.Create(ctx, s.host, name, gateway); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() {
			if err := netns.Remove(context.Background(), s.host, name); err != nil {
				s.Error(err)
			}
		})
		return netns.Network{Namespace: name, Bridge: netns.Bridge}, local.Conn{Netns: name}
	case "freebsd":
		out, err := conn.Output(ctx, s.host, "ifconfig", "bridge", "create")
		bridge := strings.TrimSpace(string(out))
		if err != nil || !strings.HasPrefix(bridge, "bridge") {
			s.Fatalf("a bridge %q: %v", bridge, err)
		}
		s.Cleanup(func() {
			if _, err := conn.Output(context.Background(), s.host, "ifconfig", bridge, "destroy"); err != nil {
				s.Error(err)
			}
		})
		if _, err := conn.Output(ctx, s.host, "ifconfig", bridge, "inet", gateway.String(), "up"); err != nil {
			s.Fatal(err)
		}
		return netns.Network{Bridge: bridge}, s.host
	}
	s.Skip("cannot create a bridge on " + runtime.GOOS)
	panic("not reached")
}

// answer connects and returns what the server sends; "" if there is none.
func answer(ctx context.Context, from conn.Conn, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := from.Dial(ctx, "tcp", addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	buf := make([]byte, 16)
	n, _ := c.Read(buf)
	return string(buf[:n])
}
