package vm

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"

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

// wantsVNC tells whether VNC clients see the screen.
func wantsVNC(g manifest.Guest) bool { return g.VNCPort > 0 || g.VNCPort == 0 && g.VNCPassword != "" }

// screen is the screen of a machine. One that starts a kernel has none unless VNC was asked
// for: its kernel prints to the serial line. VNC listens at loopback only, and only if a port
// or a password was written.
func (g *Guest) screen(b Boot) (*qemu.Screen, error) {
	vnc := wantsVNC(g.Guest)
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
		return fault.New(fault.Unsupported, "%s is a container: it takes signals only", g.UUID)
	}
	if g.Driver == manifest.DriverBhyve {
		return bhyve.Interrupt(ctx, g.store.Host, bhyveName(g.UUID))
	}
	return g.Monitor(ctx, "inject-nmi", nil, nil)
}

// Monitor executes a command of QEMU's monitor in a machine that runs.
func (g *Guest) Monitor(ctx context.Context, command string, arguments, result any) error {
	if g.Driver != manifest.QEMU {
		return fault.New(fault.Unsupported, "guest %s runs in %s; this needs the monitor of QEMU", g.name(),
			hypervisorOf(g.Driver))
	}
	return qemu.ExecuteAt(ctx, g.Path(""), command, arguments, result)
}
