package vm

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/firecracker"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/service/build"
	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn"
)

// The files of a guest of Firecracker: its kernel as an ELF file, and which one that is.
const (
	fileELF   = "vmlinux"
	fileELFOf = "vmlinux.json"
)

// microVM is a guest that Firecracker runs.
type microVM struct {
	firecracker.API
	doors
	v       *supervisor
	process *guest.Process
	out     *terminal
}

// fitFirecracker refuses what QEMU's machine microvm has and Firecracker lacks.
func fitFirecracker(g manifest.Guest, tags Tags, add func(path string, value any, reason, allowed string)) {
	if g.VCPUs > firecracker.MaxCPUs {
		add("vcpus", g.VCPUs, "a guest of Firecracker has at most "+strconv.Itoa(firecracker.MaxCPUs)+" CPUs",
			"write fewer, or use driver qemu")
	}
	if least := int(firecracker.MinMemory / unit.MiB); g.RAM < least {
		add("ram", g.RAM, "it is too little for a guest of Firecracker", "write at least "+strconv.Itoa(least))
	}
	if g.Consoles > 0 {
		add("consoles", g.Consoles, "Firecracker has no virtio console", "remove it, or use driver qemu")
	}
	for i, d := range g.Disks {
		if d.BlockSize > 0 {
			add("disks."+strconv.Itoa(i)+".block_size", d.BlockSize, "Firecracker's disks are raw files, which have no blocks",
				"remove it, or use driver qemu")
		}
	}
	for i, n := range g.NICs {
		path := "nics." + strconv.Itoa(i) + "."
		switch {
		case tags(n.NicTag) == nil:
			add(path+"nic_tag", n.NicTag, "there is no such network, and Firecracker has no network of its own",
				"run `bakeoff vm network create "+n.NicTag+" --subnet 10.0.0.0/24`, or use driver qemu")
		case n.NicTag != g.NICs[0].NicTag:
			add(path+"nic_tag", n.NicTag, "Firecracker runs in one network, and nics.0 is in "+g.NICs[0].NicTag,
				"write the same network, or use driver qemu")
		}
		if n.Model != "" && n.Model != "virtio" {
			add(path+"model", n.Model, "Firecracker's only network card is virtio", "remove it, or use driver qemu")
		}
		if n.MTU != 0 {
			add(path+"mtu", n.MTU, "Firecracker does not pass an mtu to its guest", "remove it, or use driver qemu")
		}
	}
}

// The network of a guest of Firecracker that has ports and no NICs: a namespace with a bridge,
// at which there is only the guest. It has the addresses that QEMU gives to such a guest.
var (
	ownGateway = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 2, 2}), build.GuestAddr.Bits())
	ownMAC     = "02:b1:00:00:00:02"
)

func (v *supervisor) startFirecracker(ctx context.Context) (_ instance, err error) {
	g, b := v.g, v.boot
	dir := g.store.dirOf(g.UUID)
	if err := guest.CheckSocketDir(dir); err != nil {
		return nil, err
	}
	for _, socket := range []string{firecracker.SocketAPI, firecracker.SocketVsock} {
		if err := os.Remove(filepath.Join(dir, socket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	kernel, err := g.elf(ctx, g.file(b.Kernel))
	if err != nil {
		return nil, err
	}
	m := &firecracker.Machine{Label: g.UUID, Dir: dir, CPUs: max(1, g.VCPUs), Memory: unit.Bytes(g.RAM) * unit.MiB,
		Kernel: kernel, Initrd: g.file(b.Initrd), Append: b.Append, Cache: "Writeback", Engine: "Sync",
		Vsock: b.Agent}
	if b.Agent {
		m.Append += " bakeoff.port=vsock:" + strconv.Itoa(firecracker.AgentPort) // for the init process
	}
	for _, d := range b.Disks {
		m.Drives = append(m.Drives, firecracker.Drive{ID: d.Serial, Path: g.file(d.Path)})
	}
	out := &microVM{v: v, API: m.API(g.store.Host)}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.close(context.WithoutCancel(ctx)))
		}
	}()
	namespace, err := v.connectFirecracker(ctx, m, &out.doors)
	if err != nil {
		return nil, err
	}
	if out.out, err = openTerminal(g.ConsoleLog(), g.Path(qemu.SocketConsole)); err != nil {
		return nil, err
	}
	out.process = guest.StartProcess(ctx, netns.Within(g.store.Host, namespace), firecracker.Program, conn.Cmd{
		Argv: m.CommandLine(firecracker.Program), Dir: dir, Stdin: out.out.in, Stdout: out.out, Stderr: out.out}, nil)
	out.process.Why = func(exit conn.Exit, _ []byte) error {
		if exit.OK() {
			return fault.New(fault.Subject, "the guest ended")
		}
		return fault.New(fault.Lab, "Firecracker failed (%v); see `bakeoff vm logs %s`", exit, g.UUID)
	}
	if _, _, err = m.Start(ctx, g.store.Host, out.process); err != nil {
		return nil, err
	}
	return out, nil
}

// elf is the ELF file of a kernel, which may be compressed: unpacking it takes longer than the
// boot, so that is done once.
func (g *Guest) elf(ctx context.Context, kernel string) (string, error) {
	info, err := os.Stat(kernel)
	if err != nil {
		return "", err
	}
	key := kernel + " " + strconv.FormatInt(info.Size(), 10) + " " + info.ModTime().UTC().Format(time.RFC3339Nano)
	var have string
	if err := readJSON(g.Path(fileELFOf), &have); err == nil && have == key {
		return g.Path(fileELF), nil
	}
	if err := os.RemoveAll(g.Path(fileELFOf)); err != nil {
		return "", err
	}
	if err := guest.UnpackKernel(ctx, g.store.Host, kernel, g.Path(fileELF)); err != nil {
		return "", err
	}
	return g.Path(fileELF), writeJSON(g.Path(fileELFOf), key)
}

// connectFirecracker makes the tap devices of the machine, publishes its ports, and returns the
// network namespace in which Firecracker finds the devices.
func (v *supervisor) connectFirecracker(ctx context.Context, m *firecracker.Machine, at *doors) (namespace string,
	err error) {
	g := v.g
	if len(g.NICs) == 0 {
		if len(v.boot.Ports) == 0 {
			return "", nil
		}
		return v.connectAlone(ctx, m, at)
	}
	if err := v.join(ctx); err != nil {
		return "", err
	}
	for i, c := range v.joined {
		namespace = c.Namespace()
		err := netns.IP(ctx, g.store.Host, namespace, "tuntap add dev "+c.link+" mode tap")
		if err == nil {
			err = c.attachTap(ctx)
		}
		if err != nil {
			return "", fault.Op("nics."+strconv.Itoa(i), err)
		}
		m.Cards = append(m.Cards, firecracker.Card{ID: "net" + strconv.Itoa(i), MAC: c.nic.MAC, Tap: c.link})
		for _, p := range c.addresses() {
			if i == 0 && p.Addr().Is4() {
				m.Append += " bakeoff.addr=" + p.String() + v.outward(c.nic) // for the init process of a service
				break
			}
		}
	}
	return namespace, v.publishAll(ctx, at)
}

// join brings the networks of all NICs up, for hypervisors without networks of their own.
func (v *supervisor) join(ctx context.Context) (err error) {
	if v.joined, err = v.g.ready(ctx); err == nil && len(v.joined) != len(v.g.NICs) {
		err = fault.WithFix(fault.New(fault.Unsupported, "a network of the guest no longer exists"),
			"run `bakeoff vm network list`")
	}
	return err
}

// publishAll forwards the published ports into the network of the primary NIC.
func (v *supervisor) publishAll(ctx context.Context, at *doors) error {
	for _, p := range v.boot.Ports {
		to := v.published()
		if to == nil {
			return fault.New(fault.Invalid, "publish %s: the guest has no primary NIC", p)
		}
		if err := v.publish(ctx, p, to, at); err != nil {
			return err
		}
	}
	return nil
}

// connectAlone publishes the ports of a guest without NICs.
func (v *supervisor) connectAlone(ctx context.Context, m *firecracker.Machine, at *doors) (namespace string,
	err error) {
	host, name := v.g.store.Host, label(v.g.UUID)
	namespace = netns.Own(name)
	if err := netns.Create(ctx, host, namespace, ownGateway); err != nil {
		return "", err
	}
	err = netns.AttachTap(ctx, host, netns.Network{Namespace: namespace, Bridge: netns.Bridge, Addr: build.GuestAddr,
		Gateway: ownGateway.Addr(), MAC: ownMAC}, name)
	if err != nil {
		return "", err
	}
	m.Cards = []firecracker.Card{{ID: "net0", MAC: ownMAC, Tap: netns.Tap(name)}}
	for _, p := range v.boot.Ports {
		if err := at.open(ctx, p, v.g.store.in(namespace), build.GuestAddr.Addr()); err != nil {
			return "", err
		}
	}
	return namespace, nil
}

// removeOwnNetwork removes what connectAlone has made.
func (s *Store) removeOwnNetwork(ctx context.Context, g *Guest) error {
	if g.Driver != manifest.Firecracker {
		return nil
	}
	return netns.Remove(ctx, s.Host, netns.Own(label(g.UUID)))
}

// firecrackerAnswers tells whether a Firecracker listens in the folder of a guest.
func (s *Store) firecrackerAnswers(ctx context.Context, dir string) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", filepath.Join(dir, firecracker.SocketAPI))
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func (m *microVM) describe(t *Transition) { t.Ports, t.Accelerator = m.ports, qemu.KVM }

func (m *microVM) ended() <-chan struct{} { return m.process.Ended() }

// result says why Firecracker has ended.
func (m *microVM) result(ctx context.Context) (Transition, error) {
	err := m.process.Until(ctx, time.Second, func() error { return errors.New("it runs") })
	if !fault.Is(err, fault.Subject) {
		return Transition{}, err
	}
	if why := guest.Diagnose([]byte(tailOf(m.v.g.ConsoleLog(), 16<<10))); why != "" {
		return Transition{State: Failed, Why: why}, nil
	}
	return Transition{State: Stopped, Why: "the guest restarted, which ends Firecracker"}, nil
}

// dialFirecracker connects to the agent as soon as it listens, or returns the last error when ctx
// ends or the guest has ended.
func (g *Guest) dialFirecracker(ctx context.Context) (io.ReadWriteCloser, error) {
	for {
		rw, err := firecracker.DialAgent(ctx, g.store.Host, g.store.dirOf(g.UUID))
		now := *g
		if err == nil || now.refresh() != nil || now.State != Running {
			return rw, err
		}
		if sleep.For(ctx, endStep) != nil {
			return nil, err
		}
	}
}

// stop presses Ctrl, Alt and Del, and waits until the guest has ended.
func (m *microVM) stop(ctx context.Context) error {
	if err := m.PressCtrlAltDel(ctx); err != nil {
		return err
	}
	return m.process.Await(ctx)
}

func (m *microVM) signal(ctx context.Context, number int) error {
	switch syscall.Signal(number) {
	case syscall.SIGTERM:
		return m.PressCtrlAltDel(ctx)
	case syscall.SIGKILL:
		return m.process.End(ctx)
	}
	return errMachineSignal
}

func (m *microVM) saveSnapshot(context.Context, string, string) (bool, error) {
	return false, fault.WithFix(fault.New(fault.Unsupported,
		"bakeoff makes no snapshots of running guests of Firecracker"), "use driver qemu")
}

func (m *microVM) dropSnapshot(context.Context, string) error { return nil }

// close ends Firecracker and removes what it used.
func (m *microVM) close(ctx context.Context) (err error) {
	m.shut()
	if m.process != nil {
		err = m.process.End(ctx)
	}
	if m.out != nil {
		err = errors.Join(err, m.out.close())
	}
	return errors.Join(err, m.v.g.store.removeOwnNetwork(ctx, m.v.g), m.v.g.store.detach(ctx, m.v.joined))
}
