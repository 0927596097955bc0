package guests

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// A guest with a firewall reaches others and hears their answers, and nobody else reaches it but
// by ICMP. Updates of the firewall take effect at once, and others keep its connections.
func TestFirewall(t *testing.T) {
	h := networkHome(t)
	dir := box(t, h, "box", sleeps)
	do(t, h, "network", "create", "back", "--subnet", "10.9.0.0/24", "--subnet", "fd00:9::/64")
	do(t, h, "create", "-f", file(t, "f.yaml", fmt.Sprintf(`
- {brand: docker, alias: a, image: %[1]s, ram: 64, nics: [{nic_tag: back, ips: [10.9.0.10/24, 'fd00:9::a/64']}]}
- {brand: docker, alias: b, image: %[1]s, ram: 64, firewall_enabled: true,
   nics: [{nic_tag: back, ips: [10.9.0.11/24, 'fd00:9::b/64'], mac: '02:00:00:00:00:0b'}]}
`, dir)))
	world, wall := "bo-vm-"+guest(t, h, "a").UUID, "bo-vm-"+guest(t, h, "b").UUID
	listen := func(ns string) net.Listener {
		return within(t, ns, func() (net.Listener, error) { return net.Listen("tcp", ":80") })
	}
	at, behind := listen(world), listen(wall)
	defer at.Close()
	defer behind.Close()
	dial := func(ns, address string, wait time.Duration) (c net.Conn, err error) {
		inside(t, ns, func() { c, err = net.DialTimeout("tcp", address, wait) })
		return c, err
	}
	reaches := func(ns, address string) net.Conn {
		t.Helper()
		c, err := dial(ns, address, time.Minute)
		if err != nil {
			t.Fatalf("%s does not reach %s: %v", ns, address, err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	blocked := func() {
		t.Helper()
		for _, address := range []string{"10.9.0.11:80", "[fd00:9::b]:80"} {
			if c, err := dial(world, address, time.Second); err == nil {
				c.Close()
				t.Errorf("%s answers behind the firewall", address)
			}
		}
	}
	blocked()
	eventually(t, h, "a", "ping", "-c", "1", "-W", "1", "10.9.0.11")
	eventually(t, h, "a", "ping6", "-c", "1", "-W", "1", "fd00:9::b")
	eventually(t, h, "b", "nslookup", "a", "10.9.0.1")
	eventually(t, h, "b", "udhcpc", "-i", "net0", "-n", "-q", "-f", "-s", "/bin/busybox")
	var ours, theirs []net.Conn
	for _, address := range []string{"10.9.0.10:80", "[fd00:9::a]:80"} {
		c := reaches(wall, address)
		peer, err := at.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		ours, theirs = append(ours, c), append(theirs, peer)
	}
	hears := func() {
		t.Helper()
		for i := range ours {
			send(t, theirs[i], ours[i])
		}
	}
	hears()

	// An answer of UDP passes, and only from the port that was asked.
	asked := within(t, world, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.9.0.10:5001") })
	other := within(t, world, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.9.0.10:5002") })
	asks := within(t, wall, func() (net.PacketConn, error) { return net.ListenPacket("udp4", "10.9.0.11:5000") })
	for _, c := range []net.PacketConn{asked, other, asks} {
		defer c.Close()
	}
	datagram(t, other, asks, "early", "")
	datagram(t, asks, asked, "question", "question")
	datagram(t, other, asks, "unasked", "")
	datagram(t, asked, asks, "answer", "answer")

	filter := `{"update_nics": [{"mac": "02:00:00:00:00:0b", "blocked_outgoing_ports": [25]}]}`
	do(t, h, "update", "b", "-f", file(t, "u.json", filter))
	hears() // before it sends anything
	blocked()
	do(t, h, "update", "b", "firewall_enabled=false")
	reaches(world, "10.9.0.11:80")
	reaches(world, "[fd00:9::b]:80")
	hears()
	do(t, h, "update", "b", "firewall_enabled=true")
	blocked()
	for i := range ours { // it continues a connection when it sends
		send(t, ours[i], theirs[i])
	}
	hears()
	do(t, h, "reboot", "b")
	behind = listen("bo-vm-" + guest(t, h, "b").UUID)
	defer behind.Close()
	blocked()
	removeNetworks(t, h)
}

// within opens something in a network namespace.
func within[T any](t *testing.T, ns string, open func() (T, error)) (out T) {
	t.Helper()
	var err error
	inside(t, ns, func() { out, err = open() })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// send asserts that a byte arrives.
func send(t *testing.T, from, to net.Conn) {
	t.Helper()
	buf := []byte{7}
	_, err := from.Write(buf)
	if err == nil {
		err = to.SetReadDeadline(time.Now().Add(2 * time.Minute))
	}
	if err == nil {
		_, err = io.ReadFull(to, buf)
	}
	if err != nil {
		t.Errorf("%s to %s: %v", from.LocalAddr(), to.LocalAddr(), err)
	}
}

// datagram sends one, and asserts that the next one that arrives is want; "" asserts nothing.
func datagram(t *testing.T, from, to net.PacketConn, text, want string) {
	t.Helper()
	_, err := from.WriteTo([]byte(text), to.LocalAddr())
	if err != nil || want == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	buf := make([]byte, 100)
	n := 0
	if err = to.SetReadDeadline(time.Now().Add(time.Minute)); err == nil {
		n, _, err = to.ReadFrom(buf)
	}
	if err != nil || string(buf[:n]) != want {
		t.Errorf("%q arrives instead of %q: %v", buf[:n], want, err)
	}
}
