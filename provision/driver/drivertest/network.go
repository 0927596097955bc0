package drivertest

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
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
		addr := addrOf(2 + i)
		spec.Network, spec.Ports = on(place, gateway.Addr(), 2+i), []uint16{8080}
		in := s.create(spec)
		at, listen := in.Info().Addr, in.Info().Listen
		if at != addr && !s.o.Engine {
			s.Errorf("Info has address %v, want %v", at, addr)
		}
		if !listen.IsValid() {
			listen = at
		}
		program := in.Info().Agent
		s.exec(in, "sh", "-c", `"$0" subject serve "$1" "$2" >/dev/null 2>&1 &`, program, listen.String()+":8080", who)
		addrs = append(addrs, at.String()+":8080")
	}
	for i, who := range []string{"one", "two"} {
		s.until("the server to answer the generator", func() bool { return answer(ctx, generator, addrs[i]) == who })
	}
	if place.Namespace != "" && !s.o.Reachable {
		if got := answer(ctx, s.host, addrs[0]); got == "one" {
			s.Error("the host's own network reaches the environment")
		}
	}
	alone := s.create(s.spec("net-none"))
	if got := answer(ctx, alone, addrs[0]); got != "" {
		s.Errorf("an environment without a network got %q", got)
	}
}

// addrOf is the address of the environment with a number from 2 on.
func addrOf(number int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 251, byte(number)}) }

// on is the place of an environment on a network of the suite.
func on(place netns.Network, gateway netip.Addr, number int) *netns.Network {
	return &netns.Network{Namespace: place.Namespace, Bridge: place.Bridge, Addr: netip.PrefixFrom(addrOf(number), 24),
		Gateway: gateway, MAC: fmt.Sprintf("02:b0:00:00:fb:%02x", number)}
}

// carrier is what ip says of a bridge's ports: they come and go with other environments, and
// the kernel says that the last one has gone only some time afterwards.
var carrier = regexp.MustCompile(`NO-CARRIER,|state [A-Z]+ `)

// HostNetwork describes what container engines change in the network of this host: forwarding,
// the packet filter, bridges and the links of environments.
func HostNetwork(ctx context.Context) string {
	var out []string
	for _, argv := range [][]string{{"cat", "/proc/sys/net/ipv4/ip_forward"}, {"iptables-save"},
		{"ip", "-o", "link", "show", "type", "bridge"}, {"ip", "-o", "link", "show", "type", "veth"}} {
		said, err := conn.Output(ctx, local.Conn{}, argv...)
		if err != nil {
			continue // the host lacks the program, and with it what it would show
		}
		for line := range strings.Lines(string(said)) {
			// Comments have the time, and lines of chains count packets. Other environments come
			// and go.
			if strings.HasPrefix(line, "#") || strings.Contains(line, "veth") && !strings.Contains(line, ": boi") {
				continue
			}
			line, _, _ = strings.Cut(line, " [")
			out = append(out, strings.TrimSpace(carrier.ReplaceAllString(line, "")))
		}
	}
	return strings.Join(out, "\n")
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
