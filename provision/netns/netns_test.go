package netns

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/agent"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

func TestNamesFit(t *testing.T) {
	for _, label := range []string{"a", "0123456789abcdef0123456789abcdef01234567"} {
		for _, name := range []string{Outer(label), Tap(label)} {
			if len(name) > 15 {
				t.Errorf("%s has %d bytes; the kernel takes 15", name, len(name))
			}
		}
	}
	if Outer("a-1") == Outer("a-2") || Outer("a") == Tap("a") {
		t.Error("two links share a name")
	}
}

var host = local.Conn{}

// network makes one for real, or skips.
func network(t *testing.T) (context.Context, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	if err := Check(ctx, host); err != nil {
		t.Skip("needs ", err)
	}
	name := fmt.Sprintf("bo-t%d", os.Getpid())
	if err := Create(ctx, host, name, netip.MustParsePrefix("198.18.77.1/24")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Remove(context.Background(), host, name); err != nil {
			t.Error(err)
		}
		if have, err := Exists(context.Background(), host, name); err != nil || have {
			t.Errorf("%s is still there (%v)", name, err)
		}
	})
	return ctx, name
}

func place(name string, last byte) *Network {
	return &Network{Namespace: name, Bridge: Bridge,
		Addr: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 77, last}), 24),
		MAC:  fmt.Sprintf("02:b0:00:00:00:%02x", last)}
}

// As the process that attach starts, this test binary is the agent and no test.
func init() {
	if os.Getenv("NETNS_TEST_AGENT") != "" {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil))
	}
}

// attach makes an environment's own namespace.
func attach(ctx context.Context, n *Network, label string) error {
	own, err := Describe(n, label, 0)
	if err != nil {
		return err
	}
	cmd, err := setup.Command(wire.Setup{Network: &own}, os.Args[0])
	if err != nil {
		return err
	}
	cmd.Env = []string{"NETNS_TEST_AGENT=1"}
	_, err = conn.OutputOf(ctx, host, cmd)
	return err
}

// serve answers "hello" on addr inside a namespace until the test ends, by a
// process of this test binary.
func serve(t *testing.T, namespace, addr string) {
	t.Helper()
	ready, out := io.Pipe()
	go func() {
		_, err := local.Conn{Netns: namespace}.Exec(t.Context(), conn.Cmd{
			Argv: []string{os.Args[0], "-test.run=^TestServer$"}, Env: []string{"NETNS_TEST_SERVE=" + addr}, Stdout: out})
		out.CloseWithError(err)
	}()
	if _, err := io.ReadFull(ready, make([]byte, 5)); err != nil {
		t.Fatal("the server did not start:", err)
	}
	go io.Copy(io.Discard, ready)
}

// TestServer is the server's process.
func TestServer(t *testing.T) {
	addr := os.Getenv("NETNS_TEST_SERVE")
	if addr == "" {
		return
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Print("ready")
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "hello")
		c.Close()
	}
}

// hello reads from a server on addr, as seen from a namespace.
func hello(ctx context.Context, from, addr string) string {
	return helloWithin(ctx, time.Minute, from, addr)
}

func helloWithin(ctx context.Context, most time.Duration, from, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	c, err := local.Conn{Netns: from}.Dial(ctx, "tcp", addr)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(most))
	b, _ := io.ReadAll(c)
	return string(b)
}

// The generator reaches two environments that listen on the same port, they
// reach each other, and the host's own network reaches neither.
func TestReaches(t *testing.T) {
	ctx, name := network(t)
	label := name[3:] + "-x"
	for i, who := range []string{"-a", "-b"} {
		n := place(name, byte(2+i))
		if err := attach(ctx, n, label+who); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for range 2 { // a second time finds nothing and is fine
				if err := DetachOwn(context.Background(), host, label+who); err != nil {
					t.Error(err)
				}
			}
		})
		serve(t, Own(label+who), n.Addr.Addr().String()+":8080")
	}
	for from, addr := range map[string]string{name: "198.18.77.2:8080", Own(label + "-b"): "198.18.77.2:8080",
		Own(label + "-a"): "198.18.77.3:8080"} {
		if got := hello(ctx, from, addr); got != "hello" {
			t.Errorf("from %s, %s says %q", from, addr, got)
		}
	}
	// A gateway of the host may answer for any address; it is not our server.
	if got := helloWithin(ctx, 3*time.Second, "", "198.18.77.2:8080"); got == "hello" {
		t.Error("the host's own network reaches an environment")
	}
	if err := attach(ctx, nil, label+"-a"); err == nil {
		t.Error("a second environment of that name")
	}
	if got := hello(ctx, name, "198.18.77.2:8080"); got != "hello" {
		t.Errorf("the refused second has hurt the first: %q", got)
	}
}

func TestLinksGo(t *testing.T) {
	ctx, name := network(t)
	label := name[3:] + "-x"
	if err := AttachTap(ctx, host, *place(name, 4), label); err != nil {
		t.Fatal(err)
	}
	if have, err := HasLink(ctx, host, name, Tap(label)); err != nil || !have {
		t.Errorf("no tap (%v)", err)
	}
	if err := attach(ctx, place(name, 5), label); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := DetachTap(ctx, host, name, label); err != nil {
			t.Error(err)
		}
		if err := DetachOwn(ctx, host, label); err != nil {
			t.Error(err)
		}
	}
	// A namespace's end takes its links away a moment later.
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		tap, err := HasLink(ctx, host, name, Tap(label))
		outer, err2 := HasLink(ctx, host, name, Outer(label))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !tap && !outer {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after a minute: tap %v, outer end %v", tap, outer)
		}
	}
}

// An environment without a network has a loopback interface, and no other.
func TestAlone(t *testing.T) {
	ctx, name := network(t)
	if err := attach(ctx, nil, name[3:]+"-x"); err != nil {
		t.Fatal(err)
	}
	defer DetachOwn(context.Background(), host, name[3:]+"-x")
	out, err := conn.Output(ctx, local.Conn{Netns: Own(name[3:] + "-x")}, "ip", "-o", "link")
	// With tunnel modules the kernel creates more links in every new namespace.
	fresh, ferr := conn.Output(ctx, host, "unshare", "--net", "ip", "-o", "link")
	if ferr != nil {
		t.Fatal(ferr)
	}
	if err != nil || strings.Count(string(out), "\n") != strings.Count(string(fresh), "\n") ||
		!strings.Contains(string(out), "LOOPBACK,UP") {
		t.Errorf("%s%v", out, err)
	}
}

// An interface that is taken is a port of the bridge, and the kernel's to give
// back; one that has an address is refused, and so is none.
func TestTake(t *testing.T) {
	ctx, name := network(t)
	link, other := fmt.Sprintf("bou%d", os.Getpid()), fmt.Sprintf("bow%d", os.Getpid())
	if err := ip(ctx, host, "", "link add "+link+" type veth peer name "+other,
		"addr add 203.0.113.9/24 dev "+link); err != nil {
		t.Fatal(err)
	}
	defer func() { run(context.Background(), host, "ip", "link", "delete", other) }()
	if err := Take(ctx, host, name, Bridge, link); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "203.0.113.9/24") {
		t.Errorf("one with an address: %v", err)
	}
	if err := Take(ctx, host, name, Bridge, "bo-none"); !fault.Is(err, fault.Unsupported) {
		t.Errorf("one that is not there: %v", err)
	}
	if have, err := HasLink(ctx, host, "", link); err != nil || !have {
		t.Errorf("it is not where it was: %v, %v", have, err)
	}
	if err := ip(ctx, host, "", "addr flush dev "+link); err != nil {
		t.Fatal(err)
	}
	if err := Take(ctx, host, name, link, link); !fault.Is(err, fault.Unsupported) ||
		!strings.Contains(err.Error(), "the name of the bridge") {
		t.Errorf("one with the name of the bridge: %v", err)
	}
	if err := Take(ctx, host, name, Bridge, link); err != nil {
		t.Fatal(err)
	}
	out, err := conn.Output(ctx, host, "ip", "-n", name, "link", "show", "dev", link)
	if err != nil || !strings.Contains(string(out), "master "+Bridge) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestInvalid(t *testing.T) {
	ctx := t.Context()
	for _, name := range []string{"", "a b", "-x", "../x", "x;y"} {
		if err := Create(ctx, host, name, netip.MustParsePrefix("198.18.0.1/24")); !fault.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if err := Create(ctx, host, "bo-x", netip.MustParsePrefix("198.18.0.0/24")); !fault.Is(err, fault.Invalid) {
		t.Errorf("the network's own address: %v", err)
	}
	bad := place("bo-x", 2)
	bad.MAC += " up\nlink del br0"
	if err := AttachTap(ctx, host, *bad, "x"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a MAC that says more: %v", err)
	}
	for _, link := range []string{"", "-x", "eth0 up", "a/b", "sixteen-letters-x"} {
		if err := Unused(ctx, host, link); !fault.Is(err, fault.Invalid) {
			t.Errorf("interface %q: %v", link, err)
		}
	}
	if _, err := Describe(nil, "x y", 0); !fault.Is(err, fault.Invalid) {
		t.Errorf("a label with a blank: %v", err)
	}
}

// Lacks reports what a namespace does not have of its own without writing it.
func TestLacks(t *testing.T) {
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	lacks, err := Lacks(t.Context(), local.Conn{}, []string{"net.core.somaxconn", "net.ipv4.ip_default_ttl",
		"net.core.nosuchthing", "net.ipv4.tcp_mem"})
	if err != nil {
		t.Fatal(err)
	}
	if lacks["net.core.somaxconn"] != "" || lacks["net.ipv4.ip_default_ttl"] != "" {
		t.Errorf("a namespace has these of its own: %v", lacks)
	}
	// tcp_mem is of the whole kernel (net/ipv4/sysctl_net_ipv4.c, ipv4_table).
	if lacks["net.core.nosuchthing"] == "" || lacks["net.ipv4.tcp_mem"] == "" {
		t.Errorf("no namespace has these: %v", lacks)
	}
}

// meanwhile deletes a link just before the program that is to delete it starts.
type meanwhile struct {
	local.Conn
	namespace, link string
}

func (m meanwhile) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if slices.Contains(cmd.Argv, "-batch") {
		if err := run(ctx, m.Conn, "ip", "-n", m.namespace, "link", "delete", m.link); err != nil {
			return conn.Exit{}, err
		}
	}
	return m.Conn.Exec(ctx, cmd)
}

// The kernel destroys the links of a process that has ended while bakeoff removes them.
func TestLinkThatDisappears(t *testing.T) {
	ctx, name := network(t)
	for _, host := range []conn.Conn{host, meanwhile{namespace: name, link: "gone0"}} {
		if err := IP(ctx, local.Conn{}, name, "link add gone0 type veth peer name gone1"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it does not exist
			if err := DeleteLink(ctx, host, name, "gone0"); err != nil {
				t.Error(err)
			}
		}
		if have, err := HasLink(ctx, host, name, "gone0"); err != nil || have {
			t.Errorf("the link exists: %v, %v", have, err)
		}
	}
}
