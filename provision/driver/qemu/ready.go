package qemu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/guest"
	"bakeoff/provision/qmp"
)

// The options of guests without an agent.
const (
	optAgent   = "agent"
	optReady   = "ready"
	agentYes   = "yes"
	agentNone  = "none"
	viaConsole = "console"
	viaTCP     = "tcp"
	viaHTTP    = "http"
)

var (
	agentOption = param.Spec{Name: optAgent, Kind: param.Text, Default: agentYes, Enum: []string{agentYes, agentNone},
		Doc: "none is for a guest of the option disk or initrd that starts no agent. It is measured from outside: workload " +
			"boot. The option ready says when it is up."}
	readyOption = param.Spec{Name: optReady, Kind: param.Text,
		Doc: "When a guest without an agent is up: console:TEXT (its serial console has printed TEXT), tcp:PORT (a server " +
			"on that port has sent something) or http:PORT/PATH (a GET of /PATH has the status 200). For a port the guest " +
			"gets a network card that leads nowhere else; its address is 10.0.2.15, also by DHCP."}
)

// readiness is the option ready.
type readiness struct {
	via, text string // of the console
	port      int
	path      string
}

// parseReady reads the option ready.
func parseReady(text string) (readiness, error) {
	via, rest, _ := strings.Cut(text, ":")
	r := readiness{via: via, text: rest}
	number := rest
	if via == viaHTTP {
		var found bool
		if number, r.path, found = strings.Cut(rest, "/"); !found {
			via = ""
		}
		r.path = "/" + r.path
	}
	switch via {
	case viaConsole:
		if strings.TrimSpace(rest) != "" {
			return r, nil
		}
	case viaTCP, viaHTTP:
		n, err := strconv.Atoi(number)
		plain := !strings.ContainsFunc(r.path, func(c rune) bool { return c <= ' ' || c > '~' })
		if r.port = n; err == nil && n > 0 && n < 1<<16 && plain && strconv.Itoa(n) == number {
			r.text = ""
			return r, nil
		}
	}
	return readiness{}, fault.New(fault.Invalid, "%s: write console:TEXT, tcp:PORT or http:PORT/PATH (got %q)", optReady,
		text)
}

// readyArgs is the part of the command line with the network of a guest without agent.
func readyArgs(m machine) []string {
	if m.ready.port == 0 {
		return nil
	}
	return append([]string{"-netdev", fmt.Sprintf("user,id=ready,restrict=on,hostfwd=tcp:127.0.0.1:0-:%d", m.ready.port)},
		"-device", card(m, "ready"))
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
	if m.ready.via == viaConsole {
		return in.Until(ctx, p, timeout, func() error {
			if bytes.Contains(p.Printed(), []byte(m.ready.text)) {
				return nil
			}
			return fault.New(fault.Subject, "its console has not printed %q", m.ready.text)
		})
	}
	var address string
	if err := in.Until(ctx, p, timeout, func() (err error) {
		address, err = in.forwarded(ctx, m.ready.port)
		return err
	}); err != nil {
		return err
	}
	return in.knock(ctx, p, m.ready, address, timeout)
}

// knockStep is the time between two attempts to reach a server: the resolution of the
// moment at which the guest is ready. QEMU accepts a connection before the guest has an
// address, so an attempt may be open for long, and does not hold up the next one. More
// attempts disturb an emulated guest: with one every 20 ms and 256 at the same time, one
// was up after 17 s instead of 6.
const (
	knockStep  = 100 * time.Millisecond
	knockLimit = 5 * time.Second
	knockMost  = 64 // attempts at the same time
)

// knock returns when one attempt to reach the server was answered.
func (in *Instance) knock(ctx context.Context, p *guest.Process, r readiness, address string,
	timeout time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan struct{}, 1)
	slots := make(chan struct{}, knockMost)
	last := fault.New(fault.Subject, "nothing answers at %s:%d%s", r.via, r.port, r.path)
	next := time.Now()
	return in.Until(ctx, p, timeout, func() error {
		select {
		case <-answered:
			return nil
		default:
		}
		if time.Now().Before(next) {
			return last
		}
		select {
		case slots <- struct{}{}:
			next = time.Now().Add(knockStep)
			go func() {
				defer func() { <-slots }()
				if in.ask(ctx, r, address) == nil {
					select {
					case answered <- struct{}{}:
					default:
					}
				}
			}()
		default:
		}
		return last
	})
}

// ask makes one attempt.
func (in *Instance) ask(ctx context.Context, r readiness, address string) error {
	ctx, cancel := context.WithTimeout(ctx, knockLimit)
	defer cancel()
	c, err := in.Host.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return answer(c, r)
}

// answer reads what the server of a guest says first.
func answer(c net.Conn, r readiness) error {
	if r.via == viaHTTP {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\nHost: guest\r\n\r\n", r.path); err != nil {
			return err
		}
		status := make([]byte, len("HTTP/1.1 200"))
		if _, err := io.ReadFull(c, status); err != nil {
			return err
		}
		if s := string(status); !strings.HasPrefix(s, "HTTP/1.") || !strings.HasSuffix(s, " 200") {
			return fault.New(fault.Subject, "the server answers %q", s)
		}
		return nil
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// forwarded asks QEMU for the port of the host that leads to a port of the guest.
func (in *Instance) forwarded(ctx context.Context, port int) (address string, err error) {
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
	var text string
	err = monitor.Execute(ctx, "human-monitor-command", map[string]string{"command-line": "info usernet"}, &text)
	if err != nil {
		return "", err
	}
	if n := parseUsernet(text, port); n > 0 {
		return fmt.Sprintf("127.0.0.1:%d", n), nil
	}
	return "", fault.New(fault.Lab, "QEMU forwards no port to port %d of the guest", port)
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
			"write "+optReady+": console:TEXT, tcp:PORT or http:PORT/PATH")
	}
	_, err := parseReady(o.ready)
	return err
}
