package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn"
)

// guestFiles are what the files of the options say.
type guestFiles struct {
	kernel           qemu.KernelFile
	format           string // of the disk
	diskSum, ramdisk string // sha256
}

// resolve reads the files of the options on host and replaces the defaults that depend
// on them. It changes nothing there.
func resolve(ctx context.Context, host conn.Conn, memo *driver.Memo, o options) (options, guestFiles, error) {
	var f guestFiles
	var err error
	sum := func(file string) (string, error) {
		if memo == nil { // only an environment that exists is described
			return "", nil
		}
		return qemu.FileSHA256(ctx, host, memo, file)
	}
	if o.kernel != "" {
		if f.kernel, err = qemu.ReadKernelFile(ctx, host, memo, o.kernel); err == nil {
			err = errors.Join(f.kernel.CheckLoads(o.kernel), o.withoutRoot(f.kernel))
		}
		err = fault.Op(optKernel, err)
	}
	if err == nil && o.disk != "" {
		f.format, err = qemu.DiskFormat(ctx, host, memo, o.disk)
		if err == nil {
			f.diskSum, err = sum(o.disk)
		}
		err = fault.Op(optDisk, err)
	}
	if err == nil && o.initrd != "" {
		f.ramdisk, err = sum(o.initrd)
	}
	if err != nil {
		return o, f, err
	}
	if err := o.nameSystem(f.kernel); err != nil {
		return o, f, err
	}
	netbsd := o.system == systemNetBSD
	if err := o.refuseForSystem(f.kernel); err != nil {
		return o, f, err
	}
	if o.acpi == auto {
		o.acpi = acpiOn
		if netbsd && o.machine == qemu.MicroVM {
			o.acpi = acpiOff
		}
	}
	if o.firmware == "" && netbsd && o.machine == qemu.MicroVM {
		o.firmware = qemu.SeaBIOS // it needs the MP table, which qboot does not make
	}
	if o.channel == auto {
		o.channel = channelOf(o.system)
	}
	return o, f, nil
}

// refuseForSystem refuses options with which a guest of a system that is not Linux does not
// boot, or with which its agent is not reached.
//
// Source: tests with a kernel of NetBSD 10.99; sys/dev/virtio/arch/x86 of NetBSD.
func (o options) refuseForSystem(k qemu.KernelFile) error {
	netbsd := o.system == systemNetBSD
	minimal := netbsd && o.machine == qemu.MicroVM && o.kernel != ""
	refuse := func(option, fix, format string, args ...any) error {
		return refuseOption(fault.Unsupported, option, fix, format, args...)
	}
	switch {
	case o.system == systemWindows && o.kernel != "":
		return refuse(optSystem, "remove "+optKernel+", and write machine: "+qemu.Q35,
			"only the boot loader of a disk can start Windows; QEMU cannot")
	case o.instructions && k.System != "" && k.System != systemLinux:
		return refuse(optClock+": "+clockInstructions, "measure it on the clock "+clockHost,
			"only Linux reports its moments on this clock (%s)", k.Version)
	case o.channel == qemu.ChannelVirtio && (netbsd || o.system == systemOpenBSD):
		return refuse(optChannel, "remove "+optChannel, "the virtio console of %s has no ports with names", o.system)
	case minimal && o.firmware == qemu.QBoot:
		return refuse(optFirmware, "remove "+optFirmware, "a NetBSD kernel hangs with %s, which makes no MP table",
			qemu.QBoot)
	case minimal && o.acpi == acpiOn:
		return refuse(optACPI, "remove "+optACPI, "a NetBSD kernel finds its devices on its command line, where QEMU "+
			"lists them only without ACPI")
	case minimal && k.System == systemNetBSD && !k.DeviceWords:
		return refuse(optKernel, "name a kernel of the kind MICROVM, or write machine: "+qemu.Q35,
			"%s does not read virtio_mmio.device= from its command line, so it would find neither disk nor network (%s)",
			o.kernel, k.Version)
	case netbsd && o.machine == qemu.Q35 && o.kernel != "" && k.Kind == "MICROVM":
		return refuse(optKernel, "write machine: "+qemu.MicroVM, "a NetBSD kernel of the kind MICROVM has no PCI, and so "+
			"finds no device of the machine %s", qemu.Q35)
	}
	return nil
}

// channelOf is the channel of a guest with a system; "" is one that nobody named. NetBSD
// and OpenBSD have no ports of a virtio console with names. A port of FreeBSD is a
// terminal that drops input when its queue is full: a file that bakeoff pushes would
// arrive with holes.
//
// Source: vtcon_port_in in sys/dev/virtio/console/virtio_console.c of FreeBSD, which
// ignores that ttydisc_rint took nothing.
func channelOf(system string) string {
	switch system {
	case systemFreeBSD, systemNetBSD, systemOpenBSD:
		return qemu.ChannelDial
	}
	return qemu.ChannelVirtio
}

// withoutRoot refuses a kernel of another system with the root of an image: only Linux
// starts the agent from bakeoff's RAM disk.
func (o options) withoutRoot(k qemu.KernelFile) error {
	if o.bringsSystem() || k.System == systemLinux || k.System == "" {
		return nil
	}
	fix := "replace image with the disk of that system: " + optDisk + ": FILE"
	if o.ramDisk != "" && k.System == systemNetBSD {
		fix = fmt.Sprintf("replace %s with %s: FILE and %s: root=md0a: the kernel takes a file system as its RAM disk",
			optRAMDisk, optInitrd, optAppend)
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s is a kernel of another system (%s), and cannot start from an image",
		o.kernel, k.Version), fix)
}

// rootDisks is the disk with the system of the guest; none if that is in a RAM disk.
func (f guestFiles) rootDisks(image driver.Image, o options) []qemu.Disk {
	root := qemu.Disk{Serial: qemu.RootSerial, Path: image.Disk, Snapshot: true, Controller: qemu.VirtioBlk,
		Format: formatRaw}
	switch {
	case o.disk != "":
		root.Path, root.Controller, root.Format, root.Boots = o.disk, o.controller, f.format, o.kernel == ""
	case o.bringsSystem() || o.ramDisk != "":
		return nil
	}
	return []qemu.Disk{root}
}

// bootFacts says what was booted, and over which channel the agent answers.
func (f guestFiles) bootFacts(o options) map[string]string {
	facts := map[string]string{"channel": o.channel}
	if o.agentless {
		facts["channel"], facts["ready"] = "none", o.readyText
		if o.ready.Text == "" {
			facts["ready.resolution"] = qemu.KnockStep.String()
		}
	}
	maps.Copy(facts, f.kernel.Facts())
	if !o.bringsSystem() {
		return facts
	}
	facts["acpi"], facts["boot"], facts["system"] = o.acpi, "kernel", cmp.Or(o.system, "unknown")
	if o.kernel == "" {
		facts["boot"] = "the boot loader of the disk"
	}
	facts["root"] = "the initial RAM disk of the lab file"
	if o.disk != "" {
		facts["root"] = o.controller + ", the disk of the lab file, changes in a temporary file"
		facts["disk.format"], facts["disk.sha256"] = f.format, cmp.Or(f.diskSum, "unavailable")
	}
	if o.initrd != "" {
		facts["initrd.sha256"] = cmp.Or(f.ramdisk, "unavailable")
	}
	return facts
}
