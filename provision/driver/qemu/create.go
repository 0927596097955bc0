package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

const hypervisor = guest.Hypervisor("qemu")

// Instance is a machine whose agent answers. Freeze freezes QEMU's control
// group: the guest's clocks continue, so they stay correct.
type Instance struct {
	*guest.Hosted
	guest  *qemu.Guest
	counts []driver.Count // on the instruction clock
}

// Reap removes what a machine left on host.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return hypervisor.Reap(ctx, host, left, dryRun)
}

// Create creates a machine and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	o, err := validate(spec)
	if err != nil {
		return nil, fault.Op("qemu: create "+spec.Label, err)
	}
	m, err := hypervisor.New(ctx, d, host, spec)
	if err != nil {
		return nil, err
	}
	in := &Instance{Hosted: m}
	if err := in.create(ctx, o); err != nil {
		return nil, in.Abandon(ctx, err)
	}
	switch {
	case o.instructions:
		return counted{guest.WithoutAgent(m, nil), in}, nil
	case o.agentless && spec.Network == nil:
		return guest.WithoutAgent(m, nil), nil
	case o.agentless:
		return guest.WithoutAgent(m, in.guest.Forward), nil
	}
	return in, nil
}

func (in *Instance) create(ctx context.Context, o options) error {
	o, files, err := resolve(ctx, in.Host, in.Spec.Memo, o)
	if err == nil {
		err = o.refuseSetup(in.Spec)
	}
	if err != nil {
		return err
	}
	m := newMachine(in.Spec, o)
	if err := m.Choose(ctx, in.Host, in.Spec.Memo, in.Spec.Agent, o.accel, o.firmware); err != nil {
		return err
	}
	if err := in.makeFiles(ctx, &m, o, files); err != nil {
		return err
	}
	at := qemu.Place{Host: in.Host, Launch: in.Launch, Agent: in.Spec.Agent, Timeout: o.bootTimeout}
	if in.Spec.Network != nil {
		at.Namespace = in.Spec.Network.Namespace
	}
	in.NoTap = m.Tap == ""
	if in.guest, err = qemu.Start(ctx, at, m); err != nil {
		return err
	}
	in.Details = func(context.Context) []byte { return fmt.Appendf(nil, "QEMU said:\n%s\n", in.guest.Messages()) }
	if in.Spec.Watch {
		in.guest.ObserveBoot(in.Hosted)
	}
	if o.instructions { // its console is a file, and a guest that has restarted has ended QEMU
		if in.counts, err = in.guest.Counts(ctx, o.mark); err != nil {
			return err
		}
		for i := 1; i < len(in.counts) && o.initrd != ""; i++ {
			in.counts[i].Program = ownInit(o.append)
		}
		in.setFacts(o, files, m.Version)
		return nil
	}
	in.Console = in.guest.Process
	// QEMU answers while the guest boots.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		version string
		err     error
	}
	verified := make(chan answer, 1)
	go func() {
		version, err := in.guest.Verify(asking)
		verified <- answer{version, err}
	}()
	if err := in.awaitAnswer(ctx, o); err != nil {
		cancel()
		<-verified
		return err
	}
	a := <-verified
	in.setFacts(o, files, a.version)
	facts, err := in.ramDiskFacts(ctx, o)
	maps.Copy(in.Properties.Facts, facts)
	return errors.Join(a.err, err)
}

// newMachine describes the guest of a specification, but for its disks and what the host
// decides.
func newMachine(spec driver.Spec, o options) qemu.Machine {
	m := qemu.Machine{
		Program: o.program, Label: spec.Label, Kind: o.machine, CPUs: spec.CPUs, Memory: spec.Memory, Dir: spec.Dir,
		Kernel: cmp.Or(o.kernel, spec.Image.Kernel), Append: o.append, Initrd: path.Join(spec.Dir, fileInitramfs),
		Bare: o.bringsSystem() && !o.instructions && o.system != systemLinux, NoACPI: o.acpi == acpiOff,
		Sockets: o.acpi == acpiOff && spec.CPUs > 1,
		Windows: o.system == systemWindows, CardModel: o.card,
		Instructions: o.instructions, Channel: o.channel, Ready: o.ready, Watch: spec.Watch, DebugPort: o.debugPort,
	}
	if o.bringsSystem() && !o.instructions {
		m.Kernel, m.Initrd = o.kernel, o.initrd
	}
	switch {
	case o.agentless && !o.instructions:
		m.Channel, m.Forwards = "", spec.Network != nil
	case spec.Network != nil:
		m.Tap, m.MAC = netns.Tap(spec.Label), spec.Network.MAC
	}
	return m
}

// makeFiles makes the RAM disk and the disks of the machine, and unpacks its kernel.
func (in *Instance) makeFiles(ctx context.Context, m *qemu.Machine, o options, files guestFiles) (err error) {
	if o.instructions {
		err = in.clockDisk(ctx, m.Initrd, o, files)
	} else if m.Disks, err = in.makeDisks(ctx, o, files); err == nil && !o.bringsSystem() {
		var q wire.InitramfsRequest
		if q, err = in.initialRAMDisk(ctx, m, o); err == nil {
			err = guest.Initramfs(ctx, in.Host, q)
		}
	}
	if err != nil || !o.unpack {
		return err
	}
	file := m.Kernel
	m.Kernel = path.Join(in.Spec.Dir, fileELF)
	return guest.UnpackKernel(ctx, in.Host, file, m.Kernel)
}

// awaitAnswer returns when the guest answers: its agent, which sets up a guest that the user
// brings, or what the option ready says.
func (in *Instance) awaitAnswer(ctx context.Context, o options) error {
	if o.agentless {
		ready, err := in.guest.AwaitReady(ctx)
		in.Seen.List = append(in.Seen.List, ready)
		return err
	}
	rw, err := in.guest.DialAgent(ctx)
	if err == nil {
		err = in.hintConsole(in.Meet(ctx, rw, in.guest.Process, o.bootTimeout), o)
	}
	if err == nil {
		err = in.checkCPUs()
	}
	if err != nil || !o.bringsSystem() {
		return err
	}
	return in.setUp(ctx, o)
}

// hintConsole adds to the error of a guest that printed nothing how its kernel prints.
func (in *Instance) hintConsole(err error, o options) error {
	if err == nil || fault.Fix(err) != "" || !in.guest.Process.FirstOutput().IsZero() || o.system != systemNetBSD ||
		o.kernel == "" || strings.Contains(o.append, "console=") {
		return err
	}
	return fault.WithFix(err, "add console=com to "+optAppend+", so that the kernel's messages are seen")
}

// checkCPUs refuses a guest whose kernel found fewer CPUs than the machine has. Agents of
// older releases do not say how many there are.
func (in *Instance) checkCPUs() error {
	if n := in.Boot.CPUs; n > 0 && n < in.Spec.CPUs {
		return fault.WithFix(fault.New(fault.Unsupported, "the kernel of the guest found only %d of the %d CPUs",
			n, in.Spec.CPUs),
			fmt.Sprintf("write cpus: %d, or boot a kernel that supports several CPUs", n))
	}
	return nil
}

// setFacts sets the facts of the instance. version is QEMU's.
func (in *Instance) setFacts(o options, files guestFiles, version string) {
	m := in.guest.Machine
	for _, facts := range []map[string]string{
		{"machine": m.Kind, "kernel": safetext.Line(in.Boot.Kernel), "cpu": m.CPUModel(),
			"sandbox": fmt.Sprint(m.Sandbox), "kernel.append": strings.TrimSpace(m.Append),
			driver.FactAccelerator: m.Accel, "qemu": version},
		o.cardFacts(), o.storageFacts(m.Disks), m.Firmware.Facts(), files.bootFacts(o), o.clockFacts(),
	} {
		maps.Copy(in.Properties.Facts, facts)
	}
}

// counted is a machine that was measured on the instruction clock.
type counted struct {
	guest.Outside
	in *Instance
}

var _ driver.Counted = counted{}

// Counts are the reports of the guest.
func (c counted) Counts() []driver.Count { return c.in.counts }

// Console is the end of what the guest has printed.
func (c counted) Console(ctx context.Context) ([]byte, error) { return c.in.guest.Console(ctx) }

// cardFacts names a network card that is not the usual one, and a system that no run has shown.
func (o options) cardFacts() map[string]string {
	facts := map[string]string{}
	if o.card != qemu.VirtioNet {
		facts["network-card"] = o.card
	}
	if o.system == systemWindows {
		facts["unproven"] = "guests with Windows: no test has started one"
	}
	return facts
}

// clockFacts says which clock the guest has.
func (o options) clockFacts() map[string]string {
	if !o.instructions {
		return nil
	}
	return map[string]string{driver.FactClock: clockInstructions, "channel": "none", "ready": o.mark,
		"root": "the initial RAM disk"}
}
