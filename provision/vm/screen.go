package vm

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
)

// fileSecret is the file with the password of the screen, and fileScreen a picture of it.
const (
	fileSecret = "vnc.secret"
	fileScreen = "screen"
)

// adapters are QEMU's names of the graphics adapters.
var adapters = map[string]string{"": "VGA", "std": "VGA", "cirrus": "cirrus-vga", "vmware": "vmware-svga"}

// fitScreen checks what a manifest says about the screen.
func fitScreen(g manifest.Guest, add func(path string, value any, reason, allowed string)) {
	if g.Brand == manifest.MicroVM {
		if g.VNCPort > 0 {
			add("vnc_port", g.VNCPort, "the machine microvm has no screen", "remove it, or use brand kvm")
		}
		if g.VNCPassword != "" {
			add("vnc_password", g.VNCPassword, "the machine microvm has no screen", "remove it, or use brand kvm")
		}
	}
	if g.VNCPort > 0 && g.VNCPort < 5900 {
		add("vnc_port", g.VNCPort, "QEMU's displays begin at port 5900", "write 5900 to 65535")
	}
	if adapters[g.VGA] == "" {
		add("vga", g.VGA, "QEMU's machine has no such adapter here", "write std, cirrus or vmware")
	}
}

// screen is the screen of a machine. One that starts a kernel has none unless VNC was asked
// for: its kernel prints to the serial line. VNC listens at loopback only, and only if a port
// or a password was written.
func (g *Guest) screen(b Boot) (*qemu.Screen, error) {
	vnc := g.ServesVNC()
	if b.Machine == qemu.MicroVM || g.VNCPort < 0 || b.Kernel != "" && !vnc {
		return nil, nil
	}
	s := &qemu.Screen{Adapter: adapters[g.VGA], VNC: vnc, At: netip.AddrPortFrom(loopback, uint16(g.VNCPort))}
	if !vnc || g.VNCPassword == "" {
		return s, os.RemoveAll(g.Path(fileSecret))
	}
	s.Secret = g.Path(fileSecret)
	return s, atomicfile.Write(s.Secret, []byte(g.VNCPassword), 0o600)
}

// applyScreen gives the screen of a machine that runs the port and the password of its manifest, if they
// differ from those of an old one.
func (g *Guest) applyScreen(ctx context.Context, old manifest.Guest) error {
	if g.State != Running || g.VNC == "" || !manifest.ScreenLive(old, g.Guest) || g.VNCPort == old.VNCPort &&
		g.VNCPassword == old.VNCPassword {
		return nil
	}
	return g.ask(ctx, request{Do: "screen", VNCPort: g.VNCPort, VNCPassword: g.VNCPassword})
}

// changeScreen lets VNC clients of a machine that runs connect to a port, 0 for the one that it has, with a
// password, unless it is "". QEMU gives up the old port first, so it gets it again if it cannot have the
// new one.
func (m *machine) changeScreen(ctx context.Context, port int, password string) error {
	at, err := netip.ParseAddrPort(m.screen)
	if err != nil {
		return fault.New(fault.Unsupported, "the machine has no screen for VNC clients until its next start")
	}
	if password != "" {
		args := map[string]any{"protocol": "vnc", "password": password}
		if err := m.Execute(ctx, "set_password", args, nil); err != nil {
			return fault.Wrap(fault.Unsupported, "vnc_password", err)
		}
	}
	if port == 0 || port == int(at.Port()) {
		return nil
	}
	listen := func(ctx context.Context, port int) error {
		return m.Execute(ctx, "display-update", map[string]any{"type": "vnc", "addresses": []any{map[string]any{
			"type": "inet", "host": at.Addr().String(), "port": strconv.Itoa(port)}}}, nil)
	}
	if err := listen(ctx, port); err != nil {
		return errors.Join(fault.WithFix(fault.Wrap(fault.Unsupported, "vnc_port", err), "write another port"),
			listen(context.WithoutCancel(ctx), int(at.Port())))
	}
	m.screen = netip.AddrPortFrom(at.Addr(), uint16(port)).String()
	return nil
}

// Screenshot makes a picture of the screen, in the format png or ppm, and returns its file in
// the folder of the guest.
func (g *Guest) Screenshot(ctx context.Context, format string) (string, error) {
	if err := g.mustRun(); err != nil {
		return "", err
	}
	if !g.Brand.Machine() {
		return "", fault.New(fault.Unsupported, "%s is a container: it has no screen", g.UUID)
	}
	file := g.Path(filepath.Base(fileScreen + "." + format))
	args := map[string]any{"filename": file, "format": format}
	if err := g.Monitor(ctx, "screendump", args, nil); err != nil {
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "screenshot", err),
			"a machine has a screen if it starts a boot loader, or has vnc_port or vnc_password")
	}
	return file, nil
}

// Interrupt sends a machine an interrupt that cannot be masked.
func (g *Guest) Interrupt(ctx context.Context) error {
	if err := g.mustRun(); err != nil {
		return err
	}
	if !g.Brand.Machine() {
		return fault.New(fault.Unsupported, "%s is a container: it accepts only signals", g.UUID)
	}
	if g.Driver == manifest.DriverBhyve {
		return bhyve.Interrupt(ctx, g.store.Host, bhyveName(g.UUID))
	}
	return g.Monitor(ctx, "inject-nmi", nil, nil)
}

// Monitor executes a command of QEMU's monitor in a machine that runs.
func (g *Guest) Monitor(ctx context.Context, command string, arguments, result any) error {
	if g.Driver != manifest.QEMU {
		return fault.New(fault.Unsupported, "guest %s runs in %s; this command needs the monitor of QEMU", g.name(),
			hypervisorOf(g.Driver))
	}
	return qemu.ExecuteAt(ctx, g.Path(""), command, arguments, result)
}
