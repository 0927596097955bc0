package vm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/atomicfile"
	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// The files of a guest of bhyve: what other users must not see of its command line, and the CD for
// cloud-init.
const (
	fileBhyve = "bhyve.conf"
	fileSeed  = "seed.iso"
)

// bhyveVM is a guest that bhyve runs.
type bhyveVM struct {
	doors
	v       *supervisor
	process *guest.Process
	exit    *conn.Exit // of bhyve, after result
	out     *terminal
	screen  string // where VNC shows it
}

// hypervisorOf is the name of a driver that runs machines.
func hypervisorOf(driver string) string {
	switch driver {
	case manifest.Firecracker:
		return "Firecracker"
	case manifest.DriverBhyve:
		return "bhyve"
	}
	return "QEMU"
}

// bhyveName is bhyve's name for the machine of a guest.
func bhyveName(uuid string) string { return "bakeoff-" + label(uuid) }

// bhyveDisks are bhyve's controllers for those of QEMU.
var bhyveDisks = map[string]string{"": bhyve.VirtioBlk, qemu.VirtioBlk: bhyve.VirtioBlk, qemu.AHCI: bhyve.AHCI,
	qemu.NVMe: bhyve.NVMe}

// bhyveCards are bhyve's models of network cards.
var bhyveCards = map[string]string{"": "virtio-net", "virtio": "virtio-net", "e1000": "e1000"}

var errBhyveKernel = fault.WithFix(fault.New(fault.Unsupported, "bhyve cannot start a kernel file: its "+
	"firmware starts the boot loader of a disk or of a CD"), "name disk:FILE or the ISO image of an installer, "+
	"or use driver qemu")

// checkBhyve refuses a machine that cannot run guests of bhyve.
func (s *Store) checkBhyve(ctx context.Context) error {
	if a := bhyve.Check(ctx, s.Host); !a.OK {
		return fault.WithFix(fault.New(fault.Unsupported, "driver bhyve: %s", a.Reason), a.Fix)
	}
	if err := cmp.Or(bhyve.CheckModem(ctx, s.Host), bhyve.CheckFiles(ctx, s.Host)); err != nil {
		return fault.Op("driver bhyve", err)
	}
	if _, _, err := guest.Ask(ctx, s.Host, "qemu-img", "--version"); fault.Is(err, fault.NotFound) {
		return fault.WithFix(fault.New(fault.Unsupported, "driver bhyve: qemu-img, which makes disks, is not installed"),
			"pkg install qemu-tools")
	}
	dir := s.dirOf(NewUUID())
	if !bhyve.PlainPath(dir) || len(dir)+len("/"+bhyve.SocketAgent) > bhyve.MaxPath {
		return fault.WithFix(fault.New(fault.Unsupported, "driver bhyve: the path %s is too long for a socket, or has a "+
			"comma or %%", dir), "set BAKEOFF_STATE to a short and plain path")
	}
	return nil
}

// fitBhyve refuses what QEMU has and bhyve lacks.
func fitBhyve(g manifest.Guest, tags Tags, add func(path string, value any, reason, allowed string)) {
	if least := int(bhyve.MinMemory / unit.MiB); g.RAM < least {
		add("ram", g.RAM, "it is too little for a guest of bhyve", "write at least "+strconv.Itoa(least))
	}
	for name, text := range map[string]string{"kernel": g.Kernel, "initrd": g.Initrd, "kernel_args": g.KernelArgs} {
		if text != "" {
			add(name, text, "bhyve cannot start a kernel file: its firmware starts the boot loader of a disk or of a CD",
				"remove it, or use driver qemu")
		}
	}
	if g.Bootrom == "bios" {
		add("bootrom", g.Bootrom, "the firmware of bhyve is UEFI", "write uefi, or remove it")
	}
	if g.Consoles > 0 {
		add("consoles", g.Consoles, "guests of bhyve have one console here", "remove it, or use driver qemu")
	}
	for i, f := range g.Filesystems {
		if f.Type == manifest.NFS {
			add("filesystems."+strconv.Itoa(i)+".type", f.Type, "bakeoff starts no NFS server on FreeBSD", "use 9p")
		}
	}
	for i, n := range g.NICs {
		path := "nics." + strconv.Itoa(i) + "."
		if tags(n.NicTag) == nil {
			add(path+"nic_tag", n.NicTag, "there is no such network, and bhyve has no network of its own",
				"run `bakeoff vm network create "+n.NicTag+" --subnet 10.0.0.0/24`")
		}
		if wantsAddress(n) {
			add(path+"ips", n.IPs, "networks on FreeBSD have no DHCP server", "write an address, such as 10.0.0.2/24")
		}
		if bhyveCards[n.Model] == "" {
			add(path+"model", n.Model, "bhyve has no such network card", "use virtio or e1000")
		}
	}
	for i, d := range g.Disks {
		path := "disks." + strconv.Itoa(i) + "."
		if d.BlockSize > 0 || d.GuestBlockSize != "" {
			add(path+"block_size", d.BlockSize, "bhyve's disks are raw files with blocks of 512 bytes",
				"remove block_size and guest_block_size, or use driver qemu")
		}
		if !d.Made() && !bhyve.PlainPath(d.Path) {
			add(path+"path", d.Path, "bhyve reads no path with a comma or %", "write another path")
		}
	}
	// The other devices are the disk of the image, the console, and the CD for cloud-init.
	if n := len(g.Disks) + len(g.NICs) + 3; n > bhyve.MaxDevices {
		add("disks", len(g.Disks), "with NICs, console and CD the guest has "+strconv.Itoa(n)+" devices",
			"remove disks or NICs: at most "+strconv.Itoa(bhyve.MaxDevices)+" devices fit")
	}
	for i, text := range g.Ports {
		if p, err := ParsePort(text); err == nil && len(g.NICs) == 0 && !p.Host.Addr().Is4() {
			add("ports."+strconv.Itoa(i), text, "without a NIC, bhyve publishes ports at IPv4 addresses only",
				"write an IPv4 address, or add a NIC")
		}
	}
}

func (v *supervisor) startBhyve(ctx context.Context) (_ instance, err error) {
	g, host := v.g, v.g.store.Host
	dir := g.store.dirOf(g.UUID)
	for _, name := range []string{bhyve.SocketAgent, fileSeed} { // bhyve leaves its socket
		if err := os.Remove(g.Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	m := &bhyve.Machine{Name: bhyveName(g.UUID), CPUs: max(1, g.VCPUs), Memory: unit.Bytes(g.RAM) * unit.MiB,
		Firmware: bhyve.FirmwareCode, Devices: v.bhyveDisks()}
	var line string
	m.Second, line = nullModem(g.UUID)
	if m.Variables, err = g.makeVariables(ctx); err != nil {
		return nil, err
	}
	if hasSeed(g.Guest) {
		if err := guest.Run(ctx, host, "makefs", "-t", "cd9660", "-o", "rockridge", "-o", "label="+seedLabel,
			g.Path(fileSeed), g.Path(dirSeed)); err != nil {
			return nil, fault.Op("the CD for cloud-init", err)
		}
		m.Devices = append(m.Devices, bhyve.Disk(bhyve.CD, g.Path(fileSeed)))
	}
	out := &bhyveVM{v: v}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.close(context.WithoutCancel(ctx)))
		}
	}()
	if err := v.connectBhyve(ctx, m, &out.doors); err != nil {
		return nil, err
	}
	m.Devices = append(m.Devices, bhyve.Agent(dir))
	for _, s := range g.shared(v.boot) {
		share := "virtio-9p," + s.Tag + "=" + s.Path
		if s.ReadOnly {
			share += ",ro"
		}
		m.Devices = append(m.Devices, share)
	}
	if len(m.Devices) > bhyve.MaxDevices {
		return nil, fault.New(fault.Invalid, "the guest has %d devices, and a machine of bhyve has slots for %d",
			len(m.Devices), bhyve.MaxDevices)
	}
	if m.Config, out.screen, err = g.bhyveScreen(); err != nil {
		return nil, err
	}
	if out.out, err = openTerminal(g.ConsoleLog(), g.Path(qemu.SocketConsole)); err != nil {
		return nil, err
	}
	out.process = guest.StartProcess(ctx, host, bhyve.Program, conn.Cmd{Argv: m.CommandLine(), Dir: dir,
		Stdin: out.out.in, Stdout: out.out}, nil)
	out.process.Why = func(exit conn.Exit, _ []byte) error {
		out.exit = &exit
		return fault.New(fault.Subject, "%s (%v)", bhyve.Why(exit), exit)
	}
	err = out.process.Until(ctx, monitorStart, func() error { // bhyve makes it when it starts
		_, err := os.Stat(g.Path(bhyve.SocketAgent))
		return err
	})
	if err != nil {
		return nil, err
	}
	requests, err := openModem(line)
	if err != nil {
		return nil, fault.Op("the serial line for metadata", err)
	}
	v.answerMetadata(ctx, requests, out.process.Ended())
	return out, nil
}

// bhyveDisks are the disks of the machine, first the one that it starts from: firmware tries disks
// in this order.
func (v *supervisor) bhyveDisks() (out []string) {
	disks := slices.Clone(v.boot.Disks)
	slices.SortStableFunc(disks, func(a, b qemu.Disk) int {
		switch {
		case a.Boots == b.Boots:
			return 0
		case a.Boots:
			return -1
		}
		return 1
	})
	for _, d := range disks {
		controller := bhyveDisks[d.Controller]
		if d.CDROM {
			controller = bhyve.CD
		}
		out = append(out, bhyve.Disk(controller, v.g.file(d.Path)))
	}
	return out
}

// connectBhyve gives the machine its network cards, and publishes its ports. Without NICs, its card
// is in a network of bhyve, in which there is only the guest.
func (v *supervisor) connectBhyve(ctx context.Context, m *bhyve.Machine, at *doors) (err error) {
	g, host := v.g, v.g.store.Host
	if len(g.NICs) == 0 {
		var rules []string
		for _, p := range v.boot.Ports {
			if p, err = p.free(); err != nil {
				return err
			}
			rules = append(rules, "tcp:"+p.Host.String()+"-"+netip.AddrPortFrom(build.GuestAddr.Addr(), p.Guest).String())
			at.ports = append(at.ports, p.String())
		}
		if len(rules) > 0 {
			m.Devices = append(m.Devices, "virtio-net,slirp,mac="+qemu.CardMAC+",hostfwd="+strings.Join(rules, ";"))
		}
		return nil
	}
	if err := v.join(ctx); err != nil {
		return err
	}
	for i, c := range v.joined {
		_, err := guest.CreateLink(ctx, host, "tap", c.link)
		if err == nil {
			err = c.attachTap(ctx)
		}
		if err != nil {
			return fault.Op("nics."+strconv.Itoa(i), err)
		}
		m.Devices = append(m.Devices, bhyve.Card(bhyveCards[c.nic.Model], c.link, c.nic.MAC, c.nic.MTU))
	}
	return v.publishAll(ctx, at)
}

// bhyveScreen is the file of bhyve's options with the screen of the guest, and where VNC shows it;
// "" if it has none. VNC listens at loopback only, and only if a port or a password was written.
func (g *Guest) bhyveScreen() (file, at string, err error) {
	if err := os.RemoveAll(g.Path(fileBhyve)); err != nil || !g.ServesVNC() {
		return "", "", err
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(loopback, uint16(g.VNCPort)).String())
	if err != nil {
		return "", "", fault.WithFix(fault.Wrap(fault.Unsupported, "vnc_port", err),
			"write another port, or only vnc_password")
	}
	s := bhyve.Screen{At: l.Addr().(*net.TCPAddr).AddrPort(), Password: g.VNCPassword}
	l.Close()
	return g.Path(fileBhyve), s.At.String(), atomicfile.Write(g.Path(fileBhyve), []byte(s.Config()), 0o600)
}

// destroyBhyve removes the machine of a supervisor that was killed.
func (s *Store) destroyBhyve(ctx context.Context, uuid string) error {
	sweep := guest.Sweep{Host: s.Host}
	bhyve.Destroy(ctx, &sweep, bhyveName(uuid))
	return sweep.Err()
}

// bhyveLives tells whether a bhyve runs the guest.
func (s *Store) bhyveLives(ctx context.Context, uuid string) bool {
	lives, _ := bhyve.Lives(ctx, s.Host, bhyveName(uuid))
	return lives
}

func (m *bhyveVM) describe(t *Transition) { t.Ports, t.VNC = m.ports, m.screen }

func (m *bhyveVM) ended() <-chan struct{} { return m.process.Ended() }

// result says why bhyve has ended. A guest that restarts ends bhyve, and starts again.
func (m *bhyveVM) result(ctx context.Context) (Transition, error) {
	err := m.process.Until(ctx, time.Second, func() error { return errors.New("it runs") })
	if m.exit == nil || m.exit.Signal != "" {
		return Transition{}, err
	}
	t := Transition{State: Stopped, Why: bhyve.Why(*m.exit)}
	switch m.exit.Code {
	case bhyve.Restarted:
		t.State = Ready
	case bhyve.PoweredOff, bhyve.Halted:
	case bhyve.TripleFault:
		t.State = Failed
	default:
		return Transition{}, err
	}
	return t, nil
}

// stop presses the power button, and waits until the guest has ended.
func (m *bhyveVM) stop(ctx context.Context) error {
	if err := m.signal(ctx, int(syscall.SIGTERM)); err != nil {
		return err
	}
	return m.process.Await(ctx)
}

func (m *bhyveVM) signal(ctx context.Context, number int) error {
	switch syscall.Signal(number) {
	case syscall.SIGTERM:
		return bhyve.PressPower(ctx, m.v.g.store.Host, bhyveName(m.v.g.UUID))
	case syscall.SIGKILL:
		return m.process.End(ctx)
	}
	return errMachineSignal
}

func (m *bhyveVM) saveSnapshot(context.Context, string, string) (bool, error) {
	return false, fault.New(fault.Unsupported, "bakeoff makes no snapshots of running guests of bhyve, because "+
		"bhyve's snapshot format is not stable")
}

func (m *bhyveVM) dropSnapshot(context.Context, string) error { return nil }

// close ends bhyve and removes what it used.
func (m *bhyveVM) close(ctx context.Context) (err error) {
	m.shut()
	if m.process != nil {
		err = m.process.End(ctx)
	}
	if m.out != nil {
		err = errors.Join(err, m.out.close())
	}
	g := m.v.g
	return errors.Join(err, g.store.destroyBhyve(ctx, g.UUID), g.store.detach(ctx, m.v.joined))
}
