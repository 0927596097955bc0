package qemu

import (
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
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/netns"
	"bakeoff/provision/qmp"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/wire"
)

// Create creates a machine and returns when its agent answers.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	op := "qemu: create " + spec.Label
	o, err := decode(spec.Options)
	if err == nil {
		err = validate(spec, o)
	}
	if err != nil {
		return nil, fault.Op(op, err)
	}
	in := &Instance{host: host, spec: spec, console: newConsole(consoleLimit), stderr: newConsole(8 << 10),
		ended: make(chan struct{})}
	if err := in.create(ctx, o); err != nil {
		// Remove what was created even if ctx has ended.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		return nil, fault.Op(op, errors.Join(err, in.Close(clean)))
	}
	return in, nil
}

func (in *Instance) create(ctx context.Context, o options) error {
	m, err := in.choose(ctx, o)
	if err != nil {
		return err
	}
	if err := hypervisor.RememberTap(ctx, in.host, in.spec); err != nil {
		return err
	}
	if m.disks, err = in.storage(ctx, o); err != nil {
		return err
	}
	err = guest.Initramfs(ctx, in.host, wire.InitramfsRequest{Kernel: m.kernel, Modules: modulesDir(in.spec, o),
		Wanted: wantedModules(m), Agent: in.spec.Agent, Config: initConfig(in.spec),
		Out: path.Join(in.spec.Dir, fileInitramfs)})
	if err != nil {
		return err
	}
	layout, err := cgroup.Detect(ctx, in.host)
	if err != nil {
		return err
	}
	if in.group, err = layout.Create(ctx, in.host, in.spec.Label, guest.GroupLimits(in.spec)); err != nil {
		return err
	}
	if n := in.spec.Network; n != nil {
		in.tap = true
		if err := netns.AttachTap(ctx, in.host, *n, in.spec.Label); err != nil {
			return err
		}
	}
	in.start(ctx, commandLine(m))
	boot, cancel := context.WithTimeout(ctx, o.bootTimeout)
	defer cancel()
	if err := in.meet(boot); err != nil {
		return in.notUp(ctx, boot, o.bootTimeout, err)
	}
	return in.describe(ctx, m, o)
}

// choose determines the parameters of the machine.
func (in *Instance) choose(ctx context.Context, o options) (machine, error) {
	m := newMachine(in.spec, o)
	e, err := examine(ctx, in.host, m.program)
	if fault.Is(err, fault.NotFound) {
		return m, fault.WithFix(fault.Wrap(fault.Unsupported, "", err), "apt-get install qemu-system-x86")
	}
	if err != nil {
		return m, err
	}
	if !e.machines[m.kind] {
		return m, fault.New(fault.Unsupported, "this QEMU (%s) has no machine %s", e.version, m.kind)
	}
	kvm, err := guest.ProbeKVM(ctx, in.host, in.spec.Agent)
	if err != nil {
		return m, err
	}
	m.sandbox, m.tscKHz = e.sandbox, kvm.TSCKHz
	firmware, err := firmwareOf(m.kind, o.firmware)
	if err != nil {
		return m, err
	}
	if m.firmware, err = firmware.find(ctx, in.host, m.program, o.firmware); err != nil {
		return m, err
	}
	m.accel, err = accelerator(o.accel, kvm)
	return m, err
}

// start runs QEMU in the control group and, if there is a network, in its
// namespace. The process outlives ctx.
func (in *Instance) start(ctx context.Context, argv []string) {
	enter := append([]string{in.spec.Agent, "enter"}, in.group.EnterArgs()...)
	if n := in.spec.Network; n != nil {
		enter = append(enter, "--netns", n.Namespace)
	}
	enter = append(enter, "--dir", in.spec.Dir, "--")
	live, kill := context.WithCancel(context.WithoutCancel(ctx))
	in.kill = kill
	cmd := conn.Cmd{Argv: append(enter, argv...), Env: []string{"TMPDIR=" + in.spec.Dir}, Stdout: in.console,
		Stderr: in.stderr}
	go func() {
		defer close(in.ended)
		in.ending.exit, in.ending.err = in.host.Exec(live, cmd)
	}()
}

// meet opens the channel to the agent and asks for its boot report.
func (in *Instance) meet(ctx context.Context) error {
	rw, err := in.dial(ctx, socketChannel)
	if err != nil {
		return err
	}
	greet, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // a machine that ends will not answer
		select {
		case <-in.ended:
			cancel()
		case <-greet.Done():
		}
	}()
	c, err := channel.Open(greet, rw, channel.Options{Reason: in.reason})
	if err != nil {
		return err
	}
	in.Conn = c
	if err := c.Call(ctx, "boot", nil, &in.boot); err != nil {
		return err
	}
	if in.boot.Error != "" {
		return fault.New(fault.Subject, "its init failed: %s", safetext.Line(in.boot.Error))
	}
	return nil
}

// reason returns why the machine is gone. Its sockets close a moment before its
// process has ended.
func (in *Instance) reason() error {
	select {
	case <-in.ended:
	case <-time.After(endTime):
		return nil
	}
	return fault.Op("qemu: "+in.spec.Label, explain(in.ending, in.stderr.Bytes(), in.console.Bytes()))
}

// dial connects to one of the machine's sockets, which appear a moment after
// its start.
func (in *Instance) dial(ctx context.Context, name string) (net.Conn, error) {
	for {
		c, err := in.host.Dial(ctx, "unix", path.Join(in.spec.Dir, name))
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-in.ended:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// notUp returns why the guest did not come up. If ctx has ended, that is the
// reason.
func (in *Instance) notUp(ctx, boot context.Context, timeout time.Duration, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// The end of the process explains more than that of the channel. It follows
	// soon, on a busy machine later.
	patience := 50 * time.Millisecond
	if boot.Err() == nil {
		patience = 5 * time.Second
	}
	select {
	case <-in.ended:
		return fault.Op("the guest did not come up", explain(in.ending, in.stderr.Bytes(), in.console.Bytes()))
	case <-time.After(patience):
	}
	if boot.Err() != nil {
		why := fmt.Sprintf("its agent did not answer within %v", timeout)
		if said := diagnose(in.console.Bytes()); said != "" {
			why += "; " + said
		}
		err = fault.New(fault.Subject, "%s", why)
	}
	return fault.Op("the guest did not come up", withConsole(err, in.console.Bytes()))
}

// describe sets the Info of the instance from QEMU's answers.
func (in *Instance) describe(ctx context.Context, m machine, o options) error {
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
	in.info = driver.Info{
		Agent: wire.GuestAgent, Scratch: wire.GuestScratch, Volumes: volumesInside(in.spec), HostCache: in.hostCache,
		Limits: guest.MachineLimits(in.group, in.spec), OwnKernel: true,
		Facts: map[string]string{
			driver.FactAccelerator: accel, "machine": m.kind, "qemu": monitor.Version().String(),
			"kernel": safetext.Line(in.boot.Kernel), "cpu": cpuModel(m.accel), "sandbox": fmt.Sprint(m.sandbox),
			"kernel.append": strings.TrimSpace(m.append),
		},
	}
	maps.Copy(in.info.Facts, o.storageFacts(m.disks))
	maps.Copy(in.info.Facts, m.firmware.facts())
	if n := in.spec.Network; n != nil {
		in.info.Addr = n.Addr.Addr()
	}
	return nil
}
