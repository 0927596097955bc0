package qemu

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/readiness"
)

// Ready is when a guest without an agent is ready: its console has printed Text, or
// Server has answered.
type Ready struct {
	Text   string
	Server readiness.Server
}

// ParseReady reads console:TEXT, or a server as readiness.Parse does.
func ParseReady(text string) (Ready, error) {
	if printed, ok := strings.CutPrefix(text, "console:"); ok && strings.TrimSpace(printed) != "" {
		return Ready{Text: printed}, nil
	}
	s, err := readiness.Parse(text)
	if err != nil {
		return Ready{}, fault.New(fault.Invalid, "write console:TEXT, %s (got %q)", readiness.Forms, text)
	}
	return Ready{Server: s}, nil
}

// forwardArgs is the part of the command line with the network of a guest without agent.
func (m *Machine) forwardArgs() []string {
	if m.Ready.Server.Port == 0 && !m.Forwards && m.Ports == nil {
		return nil
	}
	if len(m.Cards) > 0 {
		return m.cardArgs()
	}
	netdev := "user,id=" + readyNetdev
	if m.Ports == nil {
		netdev += ",restrict=on"
	}
	for _, p := range m.Ports {
		netdev += fmt.Sprintf(",hostfwd=tcp:%s:%d-:%d", p.Host.Addr(), p.Host.Port(), p.Guest)
	}
	if m.Ready.Server.Port > 0 {
		netdev += fmt.Sprintf(",hostfwd=tcp:%s:0-:%d", loopback, m.Ready.Server.Port)
	}
	return []string{"-netdev", netdev, "-device", m.cardArg(readyNetdev)}
}

// cardArgs is the part of the command line with network cards of their own.
func (m *Machine) cardArgs() (argv []string) {
	first := slices.IndexFunc(m.Cards, func(c Card) bool { return c.FD == 0 })
	boots := m.bootIndexes(cmp.Or(m.Once, m.Order))
	fromNetwork := strings.Contains(m.Order+m.Once, "n")
	for i, c := range m.Cards {
		id := fmt.Sprintf("nic%d", i)
		netdev := "user,id=" + id
		var at string
		if c.FD > 0 {
			netdev = fmt.Sprintf("tap,id=%s,fd=%d", id, c.FD)
		} else if c.Address.IsValid() {
			at = c.Address.Addr().String()
			gateway := c.Gateway
			if !gateway.IsValid() {
				gateway = c.otherAddress()
				netdev += ",restrict=on"
			}
			netdev += fmt.Sprintf(",net=%s,host=%s,dns=%s,dhcpstart=%s", c.Address.Masked(), gateway,
				c.otherAddress(gateway), at)
		}
		for _, p := range m.Ports {
			if i == first {
				netdev += fmt.Sprintf(",hostfwd=tcp:%s:%d-%s:%d", p.Host.Addr(), p.Host.Port(), at, p.Guest)
			}
		}
		device := cmp.Or(c.Model, "virtio-net-"+m.virtioSuffix()) + ",netdev=" + id + ",mac=" + c.MAC
		if c.MTU > 0 {
			device += fmt.Sprintf(",host_mtu=%d", c.MTU)
		}
		if m.Kind == Q35 && !fromNetwork { // the ROM starts the guest from the network
			device += ",romfile="
		}
		argv = append(argv, "-netdev", netdev, "-device", device+m.bootArg(deviceOfCard(i), boots))
	}
	return argv
}

// otherAddress is the first address of the card's network that neither the card nor one of
// these has. Such a network has at least 8 addresses.
func (c Card) otherAddress(taken ...netip.Addr) netip.Addr {
	a := c.Address.Masked().Addr().Next()
	for a == c.Address.Addr() || slices.Contains(taken, a) {
		a = a.Next()
	}
	return a
}

// readyNetdev is QEMU's name for the network of a guest without an agent.
const readyNetdev = "ready"

// loopback is the address at which ports of such a guest are reached: of the host, or of
// the experiment's network if there is one, in which QEMU then runs. The guest sees the
// connections come from the gateway of its own network and so needs no route; those to
// any other address would come from there.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// dialForwarded opens a connection to such an address.
func (g *Guest) dialForwarded(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	if g.Namespace == "" {
		return g.Host.Dial(ctx, "tcp", address.String())
	}
	within := conn.Prefix(g.Host, g.Agent, "enter", "--netns", g.Namespace, "--")
	return agent.DialBy(ctx, within, g.Agent, "tcp", address.String())
}

// AwaitReady returns when the guest is ready as its description says, with that moment.
func (g *Guest) AwaitReady(ctx context.Context) (driver.Moment, error) {
	if text := g.Ready.Text; text != "" {
		err := g.Process.Until(ctx, g.Timeout, func() error {
			if bytes.Contains(g.Process.Printed(), []byte(text)) {
				return nil
			}
			return fault.New(fault.Subject, "the guest has not printed %q on its console", text)
		})
		return serviceMoment(time.Now(), guest.Poll, fmt.Sprintf("the console had printed %q", text)), err
	}
	var address netip.AddrPort
	if err := g.Process.Until(ctx, g.Timeout, func() (err error) {
		address, err = g.forwarded(ctx, uint16(g.Ready.Server.Port))
		return err
	}); err != nil {
		return driver.Moment{}, err
	}
	return g.awaitServer(ctx, g.Ready.Server, address)
}

// serviceMoment is the moment of a service that was seen at a time, at most late after it.
func serviceMoment(at time.Time, late time.Duration, how string) driver.Moment {
	return driver.Moment{Name: bootmodel.MarkService, At: at.Add(-late / 2), Uncertainty: late / 2, How: how}
}

// KnockStep is the time between two attempts to reach a server: the resolution of the
// moment at which the guest is ready. QEMU accepts a connection before the guest has an
// address. More attempts disturb an emulated guest: with one every 20 ms and 256 at the
// same time, one was up after 17 s instead of 6.
const KnockStep = 100 * time.Millisecond

// awaitServer returns when one attempt to reach the server was answered.
func (g *Guest) awaitServer(
	ctx context.Context,
	s readiness.Server,
	address netip.AddrPort,
) (m driver.Moment, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answered struct {
		at   time.Time
		late time.Duration
		err  error
	}
	done := make(chan answered, 1)
	go func() {
		k := readiness.Knock{Step: KnockStep, Forwarded: true, Dial: func(ctx context.Context) (net.Conn, error) {
			return g.dialForwarded(ctx, address)
		}}
		at, late, err := k.Wait(ctx, s)
		done <- answered{at, late, err}
	}()
	waiting := fault.New(fault.Subject, "nothing answers at %s", s)
	err = g.Process.Until(ctx, g.Timeout, func() error {
		select {
		case a := <-done:
			m = serviceMoment(a.at, a.late, "the server answered at "+s.String())
			return a.err
		default:
			return waiting
		}
	})
	return m, err
}

// forwarded asks QEMU for the port of the host that leads to a port of the guest.
func (g *Guest) forwarded(ctx context.Context, port uint16) (netip.AddrPort, error) {
	var n int
	text, err := g.executeText(ctx, "info usernet")
	if err == nil {
		if n = parseUsernet(text, int(port)); n == 0 {
			err = fault.New(fault.Lab, "QEMU forwards no port of the host to port %d of the guest", port)
		}
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(loopback, uint16(n)), nil
}

// Forward returns where a port of a guest without an agent is reached, on Host or in
// Namespace.
func (g *Guest) Forward(ctx context.Context, port uint16) (netip.AddrPort, error) {
	if at, err := g.forwarded(ctx, port); err == nil {
		return at, nil
	}
	said, err := g.executeText(ctx, fmt.Sprintf("hostfwd_add %s tcp:%s:0-:%d", readyNetdev, loopback, port))
	if err == nil && strings.TrimSpace(said) != "" {
		err = fault.New(fault.Lab, "QEMU forwards no port of the host to port %d of the guest: %s", port, safetext.Line(said))
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return g.forwarded(ctx, port)
}

// executeText executes a command of QEMU's monitor for people.
func (g *Guest) executeText(ctx context.Context, command string) (said string, err error) {
	err = g.Execute(ctx, "human-monitor-command", map[string]string{"command-line": command}, &said)
	return said, err
}

// parseUsernet finds the port of the host in the output of `info usernet`: a line has
// protocol and state, descriptor, address and port of the host, address and port of the
// guest, and the lengths of two queues. It returns 0 if there is none.
func parseUsernet(text string, port int) int {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "TCP[HOST_FORWARD]" || f[5] != strconv.Itoa(port) {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil && n > 0 && n < 1<<16 {
			return n
		}
	}
	return 0
}
