package qemu

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"bakeoff/base/fault"
)

// Screen is the screen of a machine with PCI. QEMU makes pictures of it, and shows it by VNC.
type Screen struct {
	Adapter string // QEMU's name of the graphics adapter
	// VNC tells that a server listens at an address of the host. Port 0 is any from 5900 on;
	// another one is at least 5900.
	VNC bool
	At  netip.AddrPort
	// Secret is a file with the password of the server; "" is none.
	Secret string
}

// firstVNC is the port of VNC's display 0 (RFC 6143).
const firstVNC = 5900

// args is the part of the command line with the screen.
func (s *Screen) args() []string {
	if s == nil {
		return nil
	}
	argv := []string{"-device", s.Adapter}
	if !s.VNC {
		return argv
	}
	display, more := int(s.At.Port())-firstVNC, ""
	if s.At.Port() == 0 {
		display, more = 0, ",to=9999"
	}
	if s.Secret != "" {
		argv = append(argv, "-object", "secret,id=vnc,file="+escapeCommas(s.Secret))
		more += ",password-secret=vnc"
	}
	return append(argv, "-vnc", net.JoinHostPort(s.At.Addr().String(), strconv.Itoa(display))+more)
}

// ScreenAt is where VNC shows the screen: ADDRESS:PORT; "" if it does not.
func (g *Guest) ScreenAt(ctx context.Context) (string, error) {
	if g.Screen == nil || !g.Screen.VNC {
		return "", nil
	}
	var v struct {
		Enabled       bool
		Host, Service string
	}
	if err := g.Execute(ctx, "query-vnc", nil, &v); err != nil {
		return "", err
	}
	if !v.Enabled {
		return "", fault.New(fault.Lab, "QEMU does not serve VNC")
	}
	return net.JoinHostPort(v.Host, v.Service), nil
}
