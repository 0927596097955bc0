package qemu

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/qmp"
	"bakeoff/reach/agent"
	"bakeoff/reach/answer"
	"bakeoff/reach/conn"
	"bakeoff/reach/initramfs"
)

// The options of guests without an agent.
const (
	optAgent   = "agent"
	optReady   = "ready"
	agentYes   = "yes"
	agentNone  = "none"
	viaConsole = "console"
)

var (
	agentOption = param.Spec{Name: optAgent, Kind: param.Text, Default: agentYes, Enum: []string{agentYes, agentNone},
		Doc: "none is for a guest of the option disk or initrd that starts no agent. It is measured from outside: workload " +
			"boot. The option ready says when it is up."}
	readyOption = param.Spec{Name: optReady, Kind: param.Text,
		Doc: "When a guest without an agent is up: console:TEXT (its serial console has printed TEXT), tcp:PORT (a server " +
			"on that port has sent something), http:PORT/PATH (a GET of /PATH has the status 200) or ssh:PORT (a server on " +
			"that port has sent the banner of SSH). For a port the guest " +
			"gets a network card that leads nowhere else; its address is 10.0.2.15, also by DHCP. With clock: instructions " +
			"it is mark:NAME (the guest has run " + initramfs.Mark + " NAME); without it the boot ends at the first " +
			"userland instruction."}
)

// readiness is the option ready: a text of the console, or a server.
type readiness struct {
	text   string
	server answer.Server
}

// parseReady reads the option ready.
func parseReady(option string) (readiness, error) {
	if text, ok := strings.CutPrefix(option, viaConsole+":"); ok && strings.TrimSpace(text) != "" {
		return readiness{text: text}, nil
	}
	s, err := answer.Parse(option)
	if err != nil {
		return readiness{}, fault.New(fault.Invalid, "%s: write console:TEXT, %s (got %q)", optReady, answer.Forms, option)
	}
	return readiness{server: s}, nil
}

// readyArgs is the part of the command line with the network of a guest without agent.
func readyArgs(m machine) []string {
	if m.ready.server.Port == 0 && m.network == nil {
		return nil
	}
	netdev := "user,id=" + readyNetdev + ",restrict=on"
	if m.ready.server.Port > 0 {
		netdev += fmt.Sprintf(",hostfwd=tcp:%s:0-:%d", loopback, m.ready.server.Port)
	}
	return []string{"-netdev", netdev, "-device", card(m, readyNetdev)}
}

// readyNetdev is QEMU's name for the network of a guest without an agent.
const readyNetdev = "ready"

// loopback is the address at which ports of such a guest are reached: of the host, or of
// the experiment's network if there is one, in which QEMU then runs. The guest sees the
// connections come from the gateway of its own network and so needs no route; those to
// any other address would come from there.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// reach opens a connection to such an address.
func (in *Instance) reach(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
	n := in.Spec.Network
	if n == nil {
		return in.Host.Dial(ctx, "tcp", address.String())
	}
	within := conn.Prefix(in.Host, in.Spec.Agent, "enter", "--netns", n.Namespace, "--")
	return agent.DialBy(ctx, within, in.Spec.Agent, "tcp", address.String())
}

// card is a network card that boots nothing.
func card(m machine, netdev string) string {
	arg := "virtio-net-" + bus(m.kind) + ",netdev=" + netdev + ",mac=" + channelMAC
	if m.kind == machineQ35 {
		arg += ",romfile="
	}
	return arg
}

// await returns when the guest is ready as the lab file says.
func (in *Instance) await(ctx context.Context, p *guest.Process, m machine, timeout time.Duration) error {
	if m.ready.text != "" {
		err := in.Until(ctx, p, timeout, func() error {
			if bytes.Contains(p.Printed(), []byte(m.ready.text)) {
				return nil
			}
			return fault.New(fault.Subject, "its console has not printed %q", m.ready.text)
		})
		in.Saw(bootmodel.MarkService, fmt.Sprintf("the console had printed %q", m.ready.text), guest.Poll)
		return err
	}
	var address netip.AddrPort
	if err := in.Until(ctx, p, timeout, func() (err error) {
		address, err = in.forwarded(ctx, uint16(m.ready.server.Port))
		return err
	}); err != nil {
		return err
	}
	return in.knock(ctx, p, m.ready.server, address, timeout)
}

// knockStep is the time between two attempts to reach a server: the resolution of the
// moment at which the guest is ready. QEMU accepts a connection before the guest has an
// address. More attempts disturb an emulated guest: with one every 20 ms and 256 at the
// same time, one was up after 17 s instead of 6.
const knockStep = 100 * time.Millisecond

// knock returns when one attempt to reach the server was answered.
func (in *Instance) knock(ctx context.Context, p *guest.Process, s answer.Server, address netip.AddrPort,
	timeout time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answered struct {
		at   time.Time
		late time.Duration
		err  error
	}
	done := make(chan answered, 1)
	go func() {
		k := answer.Knock{Step: knockStep, Forwarded: true, Dial: func(ctx context.Context) (net.Conn, error) {
			return in.reach(ctx, address)
		}}
		at, late, err := k.Wait(ctx, s)
		done <- answered{at, late, err}
	}()
	waiting := fault.New(fault.Subject, "nothing answers at %s", s)
	return in.Until(ctx, p, timeout, func() error {
		select {
		case a := <-done:
			in.Seen.List = append(in.Seen.List, driver.Moment{Name: bootmodel.MarkService, At: a.at.Add(-a.late / 2),
				Uncertainty: a.late / 2, How: "the server answered at " + s.String()})
			return a.err
		default:
			return waiting
		}
	})
}

// forwarded asks QEMU for the port of the host that leads to a port of the guest.
func (in *Instance) forwarded(ctx context.Context, port uint16) (netip.AddrPort, error) {
	var n int
	text, err := in.human(ctx, "info usernet")
	if err == nil {
		if n = parseUsernet(text, int(port)); n == 0 {
			err = fault.New(fault.Lab, "QEMU forwards no port to port %d of the guest", port)
		}
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(loopback, uint16(n)), nil
}

// Forward implements driver.Forwarder for a guest without an agent.
func (in *Instance) Forward(ctx context.Context, port uint16) (netip.AddrPort, error) {
	if at, err := in.forwarded(ctx, port); err == nil {
		return at, nil
	}
	said, err := in.human(ctx, fmt.Sprintf("hostfwd_add %s tcp:%s:0-:%d", readyNetdev, loopback, port))
	if err == nil && strings.TrimSpace(said) != "" {
		err = fault.New(fault.Lab, "QEMU forwards no port to port %d of the guest: %s", port, safetext.Line(said))
	}
	if err != nil {
		return netip.AddrPort{}, err
	}
	return in.forwarded(ctx, port)
}

// human executes a command of QEMU's monitor for people.
func (in *Instance) human(ctx context.Context, command string) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	rw, err := in.dial(ctx, socketMonitor)
	if err != nil {
		return "", err
	}
	monitor, err := qmp.New(ctx, rw)
	if err != nil {
		return "", err
	}
	defer monitor.Close()
	err = monitor.Execute(ctx, "human-monitor-command", map[string]string{"command-line": command}, &said)
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

// validateReady refuses an option ready that does not fit.
func (o options) validateReady() error {
	switch {
	case o.onInstructions():
		return nil // see validateClock
	case o.agent != agentNone && o.ready == "":
		return nil
	case o.agent != agentNone:
		return fault.WithFix(fault.New(fault.Invalid, "%s: a guest with an agent is up when the agent answers", optReady),
			"remove "+optReady+", or write "+optAgent+": "+agentNone)
	case !o.own():
		return fault.WithFix(fault.New(fault.Invalid, "%s: %s: the guests of images have an agent", optAgent, agentNone),
			"name your own guest with "+optDisk+" or "+optInitrd)
	case o.channel == channelDial:
		return fault.WithFix(fault.New(fault.Invalid, "%s: a guest without an agent has no channel", optChannel),
			"remove "+optChannel)
	case o.ready == "":
		return fault.WithFix(fault.New(fault.Invalid, "%s: %s: nothing says when the guest is up", optAgent, agentNone),
			"write "+optReady+": console:TEXT, "+answer.Forms)
	}
	_, err := parseReady(o.ready)
	return err
}
