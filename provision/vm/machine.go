package vm

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/sleep"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm/manifest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// monitorStart bounds the time until QEMU's monitor answers.
const monitorStart = time.Minute

// machine is a guest that QEMU runs.
type machine struct {
	*qemu.Guest
	doors
	v      *supervisor
	screen string        // where VNC shows it
	group  *cgroup.Group // of QEMU; nil without limits
}

// Machines places the machines of a store where it has more to say than the manifest.
type Machines interface {
	// Place completes the description of a machine and says where it starts.
	Place(ctx context.Context, m *qemu.Machine) (qemu.Place, error)
	// Await returns when the machine, which has started, is ready for use.
	Await(ctx context.Context, g *qemu.Guest) error
}

// Choice is what depends on the emulator and on this machine: found once for all guests.
type choice struct {
	Key      string        `json:"key"`
	Accel    string        `json:"accel"`
	Sandbox  bool          `json:"sandbox"`
	TSCKHz   int64         `json:"tsc_khz"`
	Version  string        `json:"version"`
	Firmware qemu.Firmware `json:"firmware"`
}

// choose sets what depends on the emulator and on this machine. Asking takes as long as a
// twentieth of a boot, so the answer is kept until QEMU, the kernel's boot or the agent
// changes.
func (s *Store) choose(ctx context.Context, m *qemu.Machine, accel, firmware string) error {
	key := strings.Join([]string{fileKey(qemu.Program), fileKey(s.Agent), bootID(), m.Kind, accel, firmware}, " ")
	name := "emulator-" + m.Kind
	if firmware == qemu.OVMFCode {
		name += ".uefi"
	}
	file := filepath.Join(s.Dir(), name+".json")
	var c choice
	if err := readJSON(file, &c); err == nil && c.Key == key {
		m.Accel, m.Sandbox, m.TSCKHz, m.Version, m.Firmware = c.Accel, c.Sandbox, c.TSCKHz, c.Version, c.Firmware
		return nil
	}
	if err := m.Choose(ctx, s.Host, nil, s.Agent, accel, firmware); err != nil {
		return err
	}
	return writeJSON(file, choice{key, m.Accel, m.Sandbox, m.TSCKHz, m.Version, m.Firmware})
}

// firmwareOf is the firmware that the manifest wants; "" if it wants none.
func firmwareOf(g manifest.Guest) string {
	if g.Bootrom == "uefi" && g.Driver != manifest.DriverBhyve {
		return qemu.OVMFCode
	}
	return ""
}

func (v *supervisor) startMachine(ctx context.Context) (_ instance, err error) {
	g, b := v.g, v.boot
	dir := g.store.dirOf(g.UUID)
	if err := guest.CheckSocketDir(dir); err != nil {
		return nil, err
	}
	m := qemu.Machine{Program: qemu.Program, Label: g.UUID, Kind: b.Machine, CPUs: max(1, g.VCPUs),
		Memory: unit.Bytes(g.RAM) * unit.MiB, Dir: dir, Kernel: g.file(b.Kernel), Initrd: g.file(b.Initrd),
		Append: b.Append, Bare: b.Bare,
		NoACPI: b.NoACPI, Reboots: b.Reboots, ConsoleLog: g.ConsoleLog(), Ports: []qemu.Port{},
		Metadata: hasMetadataPort(g.Guest), Consoles: g.Consoles, Shares: g.shared(b)}
	if b.Agent {
		m.Channel = qemu.ChannelVirtio
	}
	m.Slots = b.Slots
	for _, d := range slices.Concat(b.Disks, v.extra.Disks) {
		m.Disks = append(m.Disks, v.diskOf(g.Guest, d))
	}
	if firmwareOf(g.Guest) != "" {
		if m.Variables, err = g.makeVariables(ctx); err != nil {
			return nil, err
		}
	}
	m.Order, m.Once = ordersOf(cmp.Or(v.extra.Boot, g.Boot))
	if hasSeed(g.Guest) {
		m.Disks = append(m.Disks, qemu.Disk{Serial: "seed", Path: g.Path(dirSeed), Folder: seedLabel})
	}
	if v.joined, err = g.ready(ctx); err != nil {
		return nil, err
	}
	for i, n := range g.NICs {
		card, err := v.cardOf(n)
		if err != nil {
			return nil, fault.Op("nics."+strconv.Itoa(i), err)
		}
		m.Cards = append(m.Cards, card)
		if i == 0 && card.Address.IsValid() && b.Kernel != "" && !b.Bare {
			m.Append += " bakeoff.addr=" + card.Address.String() + v.outward(n) // for the init process of a service
		}
	}
	memory, err := g.resumes()
	if err != nil {
		return nil, err
	}
	if memory != "" {
		m.Once = "" // it does not boot
	}
	m.Paused = memory != "" || m.Once != ""
	if m.Screen, err = g.screen(b); err != nil {
		return nil, err
	}
	out := &machine{v: v}
	for _, p := range b.Ports {
		if p, err = p.free(); err != nil {
			return nil, err
		}
		if to := v.published(); to != nil {
			if err := v.publish(ctx, p, to, &out.doors); err != nil {
				return nil, errors.Join(err, out.close(context.WithoutCancel(ctx)))
			}
			continue
		}
		m.Ports = append(m.Ports, qemu.Port{Host: p.Host, Guest: p.Guest})
		out.ports = append(out.ports, p.String())
	}
	at, err := v.place(ctx, &m)
	if err == nil {
		err = v.serveFolders(ctx)
	}
	if err == nil {
		var words string
		words, err = v.virtiofs(ctx, &m)
		m.Append += words
	}
	if err == nil {
		out.Guest, err = qemu.Start(ctx, at, m)
	}
	if err != nil {
		return nil, errors.Join(err, out.close(context.WithoutCancel(ctx)))
	}
	out.watchDaemons(context.WithoutCancel(ctx))
	var status struct{ Status string }
	if err = out.Execute(ctx, "query-status", nil, &status); err != nil {
		err = out.whyEnded(ctx, err)
	}
	if err == nil && g.store.Machines == nil {
		err = out.limit(ctx, limitsOf(g.Guest))
	}
	for _, c := range v.joined {
		if err == nil {
			err = c.attachTap(ctx)
		}
	}
	if err == nil && m.Metadata {
		err = out.startMetadata(ctx)
	}
	if err == nil {
		out.screen, err = out.ScreenAt(ctx)
	}
	if err == nil && memory != "" {
		err = out.resume(ctx, memory)
	} else if err == nil && m.Once != "" {
		err = out.BootOnce(ctx)
	}
	if err == nil && g.store.Machines != nil {
		err = g.store.Machines.Await(ctx, out.Guest)
	}
	if err != nil {
		return nil, errors.Join(err, out.close(context.WithoutCancel(ctx)))
	}
	return out, nil
}

// cardOf is the network card of a NIC: at the tap device in its network, or in a network of
// its own.
func (v *supervisor) cardOf(n manifest.NIC) (qemu.Card, error) {
	i := slices.IndexFunc(v.joined, func(c connection) bool { return c.nic.MAC == n.MAC })
	if i < 0 {
		return cardOf(n)
	}
	c := qemu.Card{MAC: n.MAC, Model: nicModels[n.Model], MTU: n.MTU, FD: firstTap + i}
	for _, p := range v.joined[i].addresses() {
		if p.Addr().Is4() && !c.Address.IsValid() {
			c.Address = p
		}
	}
	return c, nil
}

// outward are the words for the init process of a service with the router and the name servers of
// a NIC.
func (v *supervisor) outward(n manifest.NIC) (words string) {
	gateways, resolvers := n.Gateways, v.g.Resolvers
	for _, c := range v.joined {
		if c.nic.MAC != n.MAC {
			continue
		}
		gateways = nil
		if len(c.member.Routers) > 0 {
			gateways = []string{c.member.Routers[0].String()}
		}
		if len(resolvers) == 0 && n.Primary && n.VLAN == 0 && c.Gateway().IsValid() {
			resolvers = []string{c.Gateway().String()}
		}
	}
	if len(gateways) > 0 {
		words = " bakeoff.gateway=" + gateways[0]
	}
	if len(resolvers) > 0 && n.Primary {
		words += " bakeoff.resolvers=" + strings.Join(resolvers, ",")
	}
	return words
}

// firstTap is the number of the first tap device that the agent opens for QEMU.
const firstTap = 3

// place chooses what depends on this machine, and where QEMU runs: behind the agent, which
// opens its tap devices.
func (v *supervisor) place(ctx context.Context, m *qemu.Machine) (qemu.Place, error) {
	if v.g.store.Machines != nil {
		return v.g.store.Machines.Place(ctx, m)
	}
	at := qemu.Place{Host: v.g.store.Host, Timeout: monitorStart}
	if err := v.g.store.choose(ctx, m, v.boot.Accel, cmp.Or(firmwareOf(v.g.Guest), v.boot.Wants)); err != nil {
		return at, err
	}
	if len(v.joined) > 0 {
		agent := slices.Concat([]string{v.g.store.Agent, "tap"}, taps(v.joined), []string{"--"})
		behind := conn.Prefix(v.g.store.Host, agent...)
		at.Launch = func(ctx context.Context, cmd conn.Cmd) (*guest.Process, error) {
			return guest.StartProcess(ctx, behind, "qemu", cmd, nil), nil
		}
	}
	return at, nil
}

// published is the NIC to which published ports lead, if that is in a network: the primary one.
func (v *supervisor) published() *connection {
	for i, c := range v.joined {
		if c.nic.Primary {
			return &v.joined[i]
		}
	}
	return nil
}

// publish forwards a port of this machine into the network of a NIC.
func (v *supervisor) publish(ctx context.Context, p Port, to *connection, at *doors) error {
	address := to.AddressOf(to.member)
	if !address.IsValid() || to.nic.VLAN != 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "publish %s: this machine reaches no address of %s in network %s",
			p, v.g.name(), to.Name), "create the network with --subnet, and give the primary NIC an address in it")
	}
	return at.open(ctx, p, v.g.store.in(to.Namespace()), address)
}

// free returns the port with a number, if it has none, and refuses one that is in use: QEMU
// would only say that it could not set up its network.
func (p Port) free() (Port, error) {
	l, err := net.Listen("tcp", p.Host.String())
	if err != nil {
		return p, portInUse(p, err)
	}
	defer l.Close()
	p.Host = netip.AddrPortFrom(p.Host.Addr(), uint16(l.Addr().(*net.TCPAddr).Port))
	return p, nil
}

func portInUse(p Port, err error) error {
	return fault.WithFix(fault.Wrap(fault.Unsupported, "publish "+p.String(), err),
		"publish another port, or leave it out (-p "+strconv.Itoa(int(p.Guest))+") for any free one")
}

func (m *machine) describe(t *Transition) {
	t.Ports, t.Accelerator, t.VNC = m.ports, m.Accel, m.screen
}

func (m *machine) ended() <-chan struct{} { return m.Process.Ended() }

// result says why QEMU has ended.
func (m *machine) result(ctx context.Context) (Transition, error) {
	if err := m.failedDaemon(); err != nil {
		return Transition{}, err
	}
	err := m.Process.Until(ctx, time.Second, func() error { return errors.New("it runs") })
	if !fault.Is(err, fault.Subject) {
		return Transition{}, err
	}
	if why := guest.Diagnose([]byte(tailOf(m.ConsoleLog, 16<<10))); why != "" {
		return Transition{State: Failed, Why: why}, nil
	}
	return Transition{State: Stopped, Why: "the guest powered itself off"}, nil
}

// whyEnded is what QEMU said when it ended, which says more than err; or err.
func (m *machine) whyEnded(ctx context.Context, err error) error {
	select {
	case <-m.Process.Ended():
		return m.Process.Until(ctx, time.Second, func() error { return err })
	case <-time.After(time.Second):
		return err
	}
}

func (m *machine) stop(ctx context.Context) error { return m.Guest.Stop(ctx) }

var errMachineSignal = fault.WithFix(fault.New(fault.Unsupported,
	"a machine takes only the signals TERM (its power button) and KILL"), "name one of these, or use `bakeoff vm console`")

func (m *machine) signal(ctx context.Context, number int) error {
	if number != int(syscall.SIGKILL) && number != int(syscall.SIGTERM) {
		return errMachineSignal
	}
	if number == int(syscall.SIGTERM) {
		return m.Execute(ctx, "system_powerdown", nil, nil)
	}
	return m.Guest.Kill(ctx)
}

func (m *machine) close(ctx context.Context) (err error) {
	m.shut()
	if m.Guest != nil {
		err = m.Guest.Kill(ctx)
	}
	if m.group != nil {
		err = errors.Join(err, m.group.Remove(ctx))
	}
	return errors.Join(err, m.v.endDaemons(ctx), volume.CloseServers(ctx, m.v.g.store.Host, m.v.g.Path("")),
		m.v.g.store.detach(ctx, m.v.joined))
}

// awaitMachine waits until a machine has ended whose supervisor was killed. The kernel kills the
// hypervisor with its supervisor, but a large guest takes a while to go.
func (s *Store) awaitMachine(ctx context.Context, g *Guest) error {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	dir := s.dirOf(g.UUID)
	lives := func() bool { return qemu.ExecuteAt(ctx, dir, "quit", nil, nil) == nil }
	switch g.Driver {
	case manifest.Firecracker:
		lives = func() bool { return s.firecrackerAnswers(ctx, dir) }
	case manifest.DriverBhyve:
		if err := s.destroyBhyve(ctx, g.UUID); err != nil {
			return err
		}
		lives = func() bool { return s.bhyveLives(ctx, g.UUID) }
	}
	for lives() {
		if sleep.For(ctx, guest.Poll) != nil {
			return fault.New(fault.Lab, "the virtual machine of a killed supervisor does not end: %w", ctx.Err())
		}
	}
	return nil
}

// fileKey changes when a program is replaced.
func fileKey(program string) string {
	name, err := findProgram(program)
	if err != nil {
		return program
	}
	info, err := os.Stat(name)
	if err != nil {
		return program
	}
	return name + " " + strconv.FormatInt(info.Size(), 10) + " " + info.ModTime().UTC().Format(time.RFC3339Nano)
}

// bootID changes with every boot of this machine.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
