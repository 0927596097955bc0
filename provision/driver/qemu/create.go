package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"strings"
	"time"

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
		return counted{guest.WithoutAgent(m, nil), in}, nil
	}
	if o.agent == agentNone {
		if spec.Network == nil {
			return guest.WithoutAgent(m, nil), nil
		}
		return guest.WithoutAgent(m, in.Forward), nil
	}
	return in, nil
}

func (in *Instance) create(ctx context.Context, o options) error {
	o, files, err := resolve(ctx, in.Host, in.Spec.Memo, o)
	if err == nil {
		err = o.unable(in.Spec)
	}
	if err != nil {
		return err
	}
	m, err := in.choose(ctx, o)
	if err != nil {
		return err
	}
	if m.noAgent = o.agent == agentNone; m.noAgent && !m.instructions {
		in.NoTap = true
		if m.ready, err = parseReady(o.ready); err != nil {
			return err
		}
	}
	m.bare = o.own() && !m.instructions && o.system != systemLinux
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
	if err := in.listen(ctx, p, m, o.bootTimeout); err != nil {
		return err
	}
	if m.instructions { // its console is a file, and a guest that has restarted has ended QEMU
		if in.counts, err = in.count(ctx, p, o); err == nil {
			in.describe(m, o, files, monitored{version: m.version})
		}
		return err
	}
	in.Console = p
	// QEMU answers while the guest boots.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	answer := make(chan monitored, 1)
	go func() { answer <- in.interrogate(asking, p, m, o.bootTimeout) }()
	if m.noAgent {
		err = in.await(ctx, p, m, o.bootTimeout)
	} else {
		err = in.meet(ctx, p, o)
	}
	if err != nil {
		cancel()
		<-answer
		return err
	}
	q := <-answer
	in.describe(m, o, files, q)
	facts, err := in.ramDiskFacts(ctx, o)
	maps.Copy(in.Properties.Facts, facts)
	return errors.Join(q.err, err)
}

// equip makes the RAM disk and the disks of the machine.
func (in *Instance) equip(ctx context.Context, m *machine, o options, files guestFiles) (err error) {
	if m.instructions {
		return in.clockDisk(ctx, m, o, files)
	}
	if m.disks, err = in.storage(ctx, o, files); err != nil || o.own() {
		return err
	}
	q, err := in.initialRAMDisk(ctx, *m, o)
	if err != nil {
		return err
	}
	return guest.Initramfs(ctx, in.Host, q)
}

// meet connects to the agent, which sets up a guest that the user brings.
func (in *Instance) meet(ctx context.Context, p *guest.Process, o options) error {
	var rw net.Conn
	if err := in.Until(ctx, p, o.bootTimeout, func() (err error) {
		rw, err = in.dial(ctx, socketChannel)
		return err
	}); err != nil {
		return err
	}
	if err := in.Meet(ctx, rw, p, o.bootTimeout); err != nil || !o.own() {
		return err
	}
	return in.settle(ctx, o)
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
	m, memo := newMachine(in.Spec, o), in.Spec.Memo
	// Nothing of this changes during a run, and asking takes as long as a twentieth of a
	// boot.
	e, err := driver.Remember(memo, "qemu: emulator "+m.program, func() (emulator, error) {
		return examine(ctx, in.Host, m.program)
	})
	if fault.Is(err, fault.NotFound) {
		return m, fault.WithFix(fault.Wrap(fault.Unsupported, "", err), "apt-get install qemu-system-x86")
	}
	if err != nil {
		return m, err
	}
	if !e.machines[m.kind] {
		return m, fault.New(fault.Unsupported, "this QEMU (%s) has no machine %s", e.version, m.kind)
	}
	kvm, err := driver.Remember(memo, "qemu: KVM", func() (wire.KVMResult, error) {
		return guest.ProbeKVM(ctx, in.Host, in.Spec.Agent)
	})
	if err != nil {
		return m, err
	}
	m.sandbox, m.tscKHz, m.version = e.sandbox, kvm.TSCKHz, e.version
	order, err := firmwareOf(m.kind, o.firmware)
	if err != nil {
		return m, err
	}
	if m.firmware, err = driver.Remember(memo, fmt.Sprint("qemu: firmware ", m.kind, o.firmware, m.program),
		func() (firmware, error) { return order.find(ctx, in.Host, m.program, o.firmware) }); err != nil {
		return m, err
	}
	m.accel, err = accelerator(o.accel, kvm)
	return m, err
}

// monitored is what QEMU's monitor says about the machine.
type monitored struct {
	version string
	err     error
}

// interrogate asks QEMU's monitor, as soon as QEMU listens. It is an error if something
// else than the accelerator of m runs the guest's instructions.
func (in *Instance) interrogate(ctx context.Context, p *guest.Process, m machine, timeout time.Duration) (q monitored) {
	ctx, cancel := context.WithTimeout(ctx, timeout+monitorTime)
	defer cancel()
	var rw net.Conn
	if q.err = in.Until(ctx, p, timeout, func() (err error) {
		rw, err = in.dial(ctx, socketMonitor)
		return err
	}); q.err != nil {
		return q
	}
	monitor, err := qmp.New(ctx, rw)
	if err != nil {
		q.err = err
		return q
	}
	defer monitor.Close()
	q.version = monitor.Version().String()
	var kvm struct{ Enabled bool }
	q.err = monitor.Execute(ctx, "query-kvm", nil, &kvm)
	if accel := map[bool]string{true: accelKVM, false: accelTCG}[kvm.Enabled]; q.err == nil && accel != m.accel {
		q.err = fault.New(fault.Lab, "QEMU runs with %s instead of %s", accel, m.accel)
	}
	return q
}

// describe sets the facts of the instance.
func (in *Instance) describe(m machine, o options, files guestFiles, q monitored) {
	for _, facts := range []map[string]string{
		{"machine": m.kind, "kernel": safetext.Line(in.Boot.Kernel), "cpu": cpuModel(m),
			"sandbox": fmt.Sprint(m.sandbox), "kernel.append": strings.TrimSpace(m.append),
			driver.FactAccelerator: m.accel, "qemu": q.version},
		o.storageFacts(m.disks), m.firmware.facts(), files.facts(o), o.clockFacts(),
	} {
		maps.Copy(in.Properties.Facts, facts)
	}
}
