package qemu

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/qmp"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Create creates a machine and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = validate(spec, o)
	}
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
	if o.onInstructions() {
		return counted{guest.WithoutAgent(m), in}, nil
	}
	if o.agent == agentNone {
		return guest.WithoutAgent(m), nil
	}
	return in, nil
}

func (in *Instance) create(ctx context.Context, o options) error {
	o, files, err := resolve(ctx, in.Host, in.Spec.Memo, o)
	if err != nil {
		return err
	}
	m, err := in.choose(ctx, o)
	if err != nil {
		return err
	}
	if m.noAgent = o.agent == agentNone; m.noAgent && !m.instructions {
		if m.ready, err = parseReady(o.ready); err != nil {
			return err
		}
	}
	m.bare = o.own() && !m.instructions && files.kernel.System != systemLinux
	if err := in.equip(ctx, &m, o, files); err != nil {
		return err
	}
	if o.form == formELF {
		if err := in.unpack(ctx, &m); err != nil {
			return err
		}
	}
	stderr := &conn.Tail{Limit: 8 << 10}
	in.Why = func(exit conn.Exit, console []byte) error { return explain(exit, stderr.Bytes(), console) }
	in.Details = func(context.Context) []byte {
		return fmt.Appendf(nil, "QEMU said:\n%s\n", safetext.Text(string(stderr.Bytes())))
	}
	said := in.watch(&m, stderr)
	p, err := in.Launch(ctx, conn.Cmd{Argv: commandLine(m), Env: []string{"TMPDIR=" + in.Spec.Dir}, Stderr: said})
	if err != nil {
		return err
	}
	if !m.instructions { // whose console is a file
		in.Console = p
	}
	switch {
	case m.instructions:
		in.counts, err = in.count(ctx, p, o)
	case m.noAgent:
		err = in.await(ctx, p, m, o.bootTimeout)
	default:
		err = in.meet(ctx, p, o)
	}
	if err != nil {
		return err
	}
	return in.describeAll(ctx, m, o, files)
}

// equip makes the RAM disk and the disks of the machine.
func (in *Instance) equip(ctx context.Context, m *machine, o options, files guestFiles) (err error) {
	switch {
	case m.instructions:
		return in.clockDisk(ctx, m, o, files)
	case o.own():
		m.disks = files.disks(o)
		return nil
	}
	if m.disks, err = in.storage(ctx, o); err != nil {
		return err
	}
	return guest.Initramfs(ctx, in.Host, wire.InitramfsRequest{Kernel: m.kernel, Modules: modulesDir(in.Spec, o),
		Wanted: wantedModules(*m), Agent: in.Spec.Agent, Config: initConfig(in.Spec), Out: m.initrd})
}

// meet connects to the agent.
func (in *Instance) meet(ctx context.Context, p *guest.Process, o options) error {
	var rw net.Conn
	if err := in.Until(ctx, p, o.bootTimeout, func() (err error) {
		rw, err = in.dial(ctx, socketChannel)
		return err
	}); err != nil {
		return err
	}
	if err := in.Meet(ctx, rw, p, o.bootTimeout); err != nil {
		return err
	}
	if o.own() {
		return in.Prepare(ctx, []string{"mkdir", "-p", guest.Scratch})
	}
	return nil
}

// describeAll sets the facts of the instance.
func (in *Instance) describeAll(ctx context.Context, m machine, o options, files guestFiles) error {
	if err := in.describe(ctx, m, o); err != nil {
		return err
	}
	maps.Copy(in.Properties.Facts, files.facts(o))
	maps.Copy(in.Properties.Facts, o.clockFacts())
	return nil
}

// dial connects to one of the machine's sockets.
func (in *Instance) dial(ctx context.Context, name string) (net.Conn, error) {
	return in.Host.Dial(ctx, "unix", path.Join(in.Spec.Dir, name))
}

// explain classifies the end of QEMU from its messages and the guest's console.
//
// QEMU ends with code 0 if the guest restarted, panicked or powered itself off:
// that is the subject's fault. If QEMU refuses its arguments it ends with
// another code: that is the lab's fault.
func explain(exit conn.Exit, stderr, console []byte) error {
	said := safetext.LastLines(string(stderr), 3)
	if said != "" {
		said = ": " + said
	}
	switch {
	case exit.OK():
		return fault.New(fault.Subject, "%s", cmp.Or(guest.Diagnose(console), "the guest powered itself off"))
	case exit.Signal != "":
		return fault.New(fault.Lab, "QEMU was killed by a signal: %s%s", exit.Signal, said)
	}
	return fault.New(fault.Lab, "QEMU failed (exit code %d)%s", exit.Code, said)
}

// choose determines the parameters of the machine.
func (in *Instance) choose(ctx context.Context, o options) (machine, error) {
	m := newMachine(in.Spec, o)
	e, err := examine(ctx, in.Host, m.program)
	if fault.Is(err, fault.NotFound) {
		return m, fault.WithFix(fault.Wrap(fault.Unsupported, "", err), "apt-get install qemu-system-x86")
	}
	if err != nil {
		return m, err
	}
	if !e.machines[m.kind] {
		return m, fault.New(fault.Unsupported, "this QEMU (%s) has no machine %s", e.version, m.kind)
	}
	kvm, err := guest.ProbeKVM(ctx, in.Host, in.Spec.Agent)
	if err != nil {
		return m, err
	}
	m.sandbox, m.tscKHz, m.version = e.sandbox, kvm.TSCKHz, e.version
	firmware, err := firmwareOf(m.kind, o.firmware)
	if err != nil {
		return m, err
	}
	if m.firmware, err = firmware.find(ctx, in.Host, m.program, o.firmware); err != nil {
		return m, err
	}
	m.accel, err = accelerator(o.accel, kvm)
	return m, err
}

// describe sets the facts of the instance from QEMU's answers.
func (in *Instance) describe(ctx context.Context, m machine, o options) error {
	maps.Copy(in.Properties.Facts, map[string]string{"machine": m.kind, "kernel": safetext.Line(in.Boot.Kernel),
		"cpu": cpuModel(m), "sandbox": fmt.Sprint(m.sandbox), "kernel.append": strings.TrimSpace(m.append)})
	maps.Copy(in.Properties.Facts, o.storageFacts(m.disks))
	maps.Copy(in.Properties.Facts, m.firmware.facts())
	if m.instructions {
		// Its command line names the accelerator, and a guest that has restarted has
		// ended QEMU.
		maps.Copy(in.Properties.Facts, map[string]string{driver.FactAccelerator: accelTCG, "qemu": m.version})
		return nil
	}
	return in.askMonitor(ctx, m)
}

// askMonitor reads from QEMU what runs the guest's instructions.
func (in *Instance) askMonitor(ctx context.Context, m machine) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	rw, err := in.dial(ctx, socketMonitor)
	if err != nil {
		return err
	}
	monitor, err := qmp.New(ctx, rw)
	if err != nil {
		return err
	}
	defer monitor.Close()
	var kvm struct{ Enabled bool }
	if err := monitor.Execute(ctx, "query-kvm", nil, &kvm); err != nil {
		return err
	}
	accel := map[bool]string{true: accelKVM, false: accelTCG}[kvm.Enabled]
	if accel != m.accel {
		return fault.New(fault.Lab, "QEMU runs with %s instead of %s", accel, m.accel)
	}
	maps.Copy(in.Properties.Facts, map[string]string{driver.FactAccelerator: accel,
		"qemu": monitor.Version().String()})
	return nil
}
