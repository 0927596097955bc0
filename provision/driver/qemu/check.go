package qemu

import (
	"context"
	"fmt"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn"
	"bakeoff/reach/readiness"
	"bakeoff/reach/wire"
)

// minMemory is what a kernel, its RAM disk and the agent need to come up.
const minMemory = 96 * unit.MiB

// Check tells whether QEMU works on host with these options.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	if a := guest.System(ctx, host, "Linux"); !a.OK {
		return a
	}
	a := driver.Availability{}
	unavailable := func(err error) driver.Availability {
		a.Reason, a.Fix = fault.Reason(err), fault.Fix(err)
		return a
	}
	o, err := decode(values)
	if err != nil {
		return unavailable(err)
	}
	for _, f := range o.hostFiles() {
		if f.path == "" {
			continue
		}
		_, there, err := guest.Ask(ctx, host, "test", "-r", f.path)
		if err != nil {
			return unavailable(err)
		}
		if !there {
			return unavailable(fault.WithFix(fault.New(fault.NotFound, "%s: %s does not exist on the host or is not readable",
				f.option, f.path), absolutePath))
		}
	}
	e, err := qemu.ExamineEmulator(ctx, host, o.program)
	if fault.Is(err, fault.NotFound) {
		a.Programs, a.Packages = []string{o.program}, []string{"qemu-system-x86"}
		err = fault.WithFix(fault.New(fault.NotFound, "%s is not installed", o.program), "apt-get install qemu-system-x86")
	}
	if err != nil {
		return unavailable(err)
	}
	a.Facts = map[string]string{"qemu": e.Version, "sandbox": fmt.Sprint(e.Sandbox)}
	if o, _, err = resolve(ctx, host, nil, o); err == nil {
		err = e.HasMachine(o.machine)
	}
	if err == nil {
		_, err = qemu.FindFirmware(ctx, host, o.program, o.machine, o.firmware)
	}
	if err == nil {
		err = o.validateStorage()
	}
	if err != nil {
		return unavailable(err)
	}
	kvm, err := guest.ProbeKVM(ctx, host, "")
	if err != nil {
		kvm = wire.KVMResult{Reason: "not probed: " + err.Error()}
	}
	a.Facts["kvm"] = "works"
	if !kvm.Works {
		a.Facts["kvm"] = kvm.Reason
	}
	if err != nil && o.accel != qemu.TCG {
		a.OK, a.Facts["accelerator"] = true, "not probed" // Create will know
		return a
	}
	accel, err := qemu.Accelerator(o.accel, kvm)
	if err != nil {
		return unavailable(err)
	}
	a.OK, a.Facts["accelerator"] = true, accel
	return a
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec)
	return err
}

// ValidateOn implements driver.HostValidator: the file of a kernel says what its system
// can be given.
func (Driver) ValidateOn(ctx context.Context, host conn.Conn, spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		o, _, err = resolve(ctx, host, nil, o)
	}
	if err != nil {
		return err
	}
	return o.refuseSetup(spec)
}

// System implements driver.Guest.
func (Driver) System(ctx context.Context, host conn.Conn, spec driver.Spec) string {
	o, err := decode(spec.Options)
	if err == nil && !o.bringsSystem() {
		return systemLinux
	}
	if err == nil {
		o, _, err = resolve(ctx, host, nil, o)
	}
	if err != nil || o.system == auto {
		return ""
	}
	return o.system
}

// validate decodes the options of spec, and refuses what no host could create.
func validate(spec driver.Spec) (options, error) {
	o, err := decode(spec.Options)
	if err != nil {
		return o, err
	}
	err = guest.Check((Driver{}).Doc(), spec, minMemory)
	for _, check := range []func(driver.Spec) error{o.validateRAMDisk, o.validateReady, o.validateSystem} {
		if err == nil {
			err = check(spec)
		}
	}
	if err == nil {
		err = guest.CheckSocketDir(spec.Dir)
	}
	if err == nil {
		err = o.validateStorage()
	}
	return o, err
}

// refuseOption returns the error of an option that does not fit.
func refuseOption(kind fault.Kind, option, fix, format string, args ...any) error {
	return fault.WithFix(fault.New(kind, "%s: "+format, append([]any{option}, args...)...), fix)
}

// validateSystem refuses what the kind of guest cannot give: on the instruction clock, a
// system that the user brings, or an image.
func (o options) validateSystem(spec driver.Spec) error {
	switch {
	case o.instructions:
		return o.validateClock(spec)
	case o.bringsSystem():
		return o.validateOwn(spec)
	case o.system != auto:
		return refuseOption(fault.Invalid, optSystem, "remove "+optSystem, "the guest of an image is Linux")
	case spec.Image.Disk == "":
		return fault.New(fault.Invalid, "a machine boots from an image or a disk; name one, such as image: debian:bookworm")
	case spec.Image.Kernel == "" && o.kernel == "":
		return fault.New(fault.Invalid, "the image has no kernel; name one with the option %s", optKernel)
	case o.channel == qemu.ChannelDial:
		return refuseOption(fault.Invalid, optChannel, "remove "+optChannel,
			"the agent of an image answers on a virtio port, not by %s", qemu.ChannelDial)
	}
	return nil
}

// validateRAMDisk refuses options that do not fit together.
func (o options) validateRAMDisk(driver.Spec) error {
	switch {
	case o.ramDisk == "" && o.partition != "":
		return refuseOption(fault.Invalid, optPartition, "name the disk with "+optRAMDisk, "there is no %s", optRAMDisk)
	case o.ramDisk != "" && (o.bringsSystem() || o.instructions):
		return refuseOption(fault.Invalid, optRAMDisk, "remove "+optRAMDisk,
			"bakeoff makes no initial RAM disk for this guest")
	}
	return nil
}

// validateReady refuses an option ready that does not fit.
func (o options) validateReady(driver.Spec) error {
	const agentNone = optAgent + ": " + none
	switch {
	case o.instructions: // see validateClock
	case !o.agentless && o.readyText == "":
	case !o.agentless:
		return refuseOption(fault.Invalid, optReady, "remove "+optReady+", or write "+agentNone,
			"a guest with an agent is up when the agent answers")
	case !o.bringsSystem():
		return refuseOption(fault.Invalid, agentNone, "name your own guest with "+optDisk+" or "+optInitrd,
			"the guests of images have an agent")
	case o.channel == qemu.ChannelDial:
		return refuseOption(fault.Invalid, optChannel, "remove "+optChannel, "a guest without an agent has no channel")
	case o.readyText == "":
		return refuseOption(fault.Invalid, agentNone, "write "+optReady+": console:TEXT, "+readiness.Forms,
			"nothing says when the guest is up")
	}
	return nil
}

// validateClock refuses what would make boots on the instruction clock differ from each
// other.
func (o options) validateClock(spec driver.Spec) error {
	const clock = optClock + ": " + clockInstructions
	switch {
	case o.debugPort != "":
		return refuseOption(fault.Unsupported, optDebugPort, "remove "+optDebugPort+"; a guest reports moments with ready: "+
			"mark:NAME", "reading a port would change the instructions of the clock %s", clockInstructions)
	case o.accel == qemu.KVM:
		return refuseOption(fault.Unsupported, clock, "remove "+optAccel, "only an emulated processor counts instructions")
	case spec.CPUs != 1:
		return refuseOption(fault.Unsupported, clock, "write cpus: 1",
			"the order of the instructions of several CPUs changes (cpus is %d)", spec.CPUs)
	case o.firmware == qemu.OVMF:
		return refuseOption(fault.Unsupported, clock, "measure it on the clock "+clockHost,
			"%s: with %s, a boot on this clock takes many minutes", optFirmware, qemu.OVMF)
	case o.disk != "":
		return refuseOption(fault.Unsupported, clock, "put the files into "+optInitrd, "the host decides when a disk answers")
	case spec.Image.Disk == "" && o.kernel == "":
		return refuseOption(fault.Invalid, clock, "name an image or a "+optKernel, "there is no kernel")
	case o.modules != "":
		return refuseOption(fault.Invalid, clock, "remove "+optModules, "bakeoff loads no modules")
	case len(spec.Volumes) > 0:
		return refuseOption(fault.Unsupported, clock, "remove volumes", "the host decides when a disk answers")
	case spec.Network != nil:
		return refuseOption(fault.Unsupported, clock, "remove the workloads that need a network",
			"the host decides when a packet arrives")
	case len(spec.Tuning) > 0:
		return refuseOption(fault.Unsupported, clock, "remove tuning", "bakeoff cannot change settings in this guest")
	case o.channel == qemu.ChannelDial:
		return refuseOption(fault.Invalid, clock, "remove "+optChannel,
			"a channel to the host would change how many instructions the guest executes")
	}
	return nil
}

// validateOwn refuses what a guest that the user brings cannot give.
func (o options) validateOwn(spec driver.Spec) error {
	name := optDisk
	if o.disk == "" {
		name = optInitrd
	}
	switch {
	case spec.Image.Disk != "":
		return refuseOption(fault.Invalid, name, "remove image", "the guest has its own system, so an image has no effect")
	case o.initrd != "" && o.kernel == "":
		return refuseOption(fault.Invalid, name, "name it with "+optKernel, "an initial RAM disk needs a kernel")
	case o.append != "" && o.kernel == "":
		return refuseOption(fault.Invalid, name, "remove "+optAppend+", or name a kernel with "+optKernel,
			"%s has no effect where the boot loader of the disk starts the kernel", optAppend)
	case o.unpack && o.kernel == "":
		return refuseOption(fault.Invalid, name, "remove "+optForm+", or name a kernel with "+optKernel,
			"%s has no effect where the boot loader of the disk starts the kernel", optForm)
	case o.kernel == "" && o.machine != qemu.Q35:
		return refuseOption(fault.Unsupported, name, "write machine: "+qemu.Q35+", or name a kernel with "+optKernel,
			"%s has no firmware that starts the boot loader of a disk", o.machine)
	case o.modules != "":
		return refuseOption(fault.Invalid, name, "remove "+optModules, "bakeoff makes no initial RAM disk for modules")
	}
	return o.refuseSetup(spec)
}
