// Package qemu creates virtual machines with QEMU: the minimal machine
// "microvm", and "q35", a complete PC.
//
// The guest boots a kernel directly. bakeoff-agent is its process 1 and answers
// on a virtio port, so a guest needs neither a shell nor a network. Its root is
// the image's file system on a virtio disk; changes go to an unnamed temporary
// file of QEMU.
//
// The driver selects the accelerator by running a guest, never by the existence
// of /dev/kvm, and reads it back from QEMU.
package qemu

import (
	"time"

	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
)

// Driver is the driver. The zero value is ready for use.
type Driver struct{}

// New returns the driver.
func New() driver.Driver { return Driver{} }

// The names of options and their values.
const (
	optMachine     = "machine"
	optAccel       = "accel"
	optKernel      = "kernel"
	optInitrd      = "initrd"
	optDisk        = "disk"
	optACPI        = "acpi"
	optChannel     = "channel"
	optModules     = "modules"
	optAppend      = "append"
	optProgram     = "program"
	optForm        = "kernel-form"
	optBootTimeout = "boot-timeout"
	// optKernelPackage is used where images are built.
	optKernelPackage = driver.OptionKernelPackage

	machineMicroVM = "microvm"
	machineQ35     = "q35"
	accelAuto      = "auto"
	accelKVM       = "kvm"
	accelTCG       = driver.Emulated
)

// defaultProgram is the emulator of the architecture of both machines.
const defaultProgram = "qemu-system-x86_64"

var specs = append([]param.Spec{
	{Name: optMachine, Kind: param.Text, Default: machineMicroVM, Enum: []string{machineMicroVM, machineQ35},
		Doc: "The machine type. microvm has virtio devices and little else. q35 is a PC with PCI and firmware."},
	{Name: optAccel, Kind: param.Text, Default: accelAuto, Enum: []string{accelAuto, accelKVM, accelTCG},
		Doc: "What runs the guest's instructions. auto uses kvm if a test guest runs with it, otherwise emulation (tcg)."},
	{Name: optKernel, Kind: param.Text,
		Doc: "Path on the host of a kernel to boot instead of the image's or the disk's: a bzImage, an ELF file with a PVH " +
			"note, or a multiboot kernel of 32 bits."},
	{Name: optInitrd, Kind: param.Text,
		Doc: "Path on the host of an initial RAM disk for that kernel, instead of an image. It must start the agent, as " +
			"the system of the option disk must."},
	{Name: optDisk, Kind: param.Text,
		Doc: "Path on the host of the whole disk of a system, raw or qcow2, instead of an image. Changes go to a temporary " +
			"file. Without the option kernel it boots by its own boot loader (machine: q35). Its system must start the " +
			"agent; docs/special/guests.md describes how."},
	{Name: optModules, Kind: param.Text,
		Doc: "Directory on the host with lib/modules/VERSION for that kernel. Not needed if virtio, ext4 and the console " +
			"are " +
			"built in."},
	{Name: optAppend, Kind: param.Text,
		Doc: "Words to add to the kernel's command line, such as mitigations=off. The command line of a kernel that is " +
			"not Linux is these words alone."},
	{Name: optForm, Kind: param.Text, Default: formFile, Enum: []string{formFile, formELF},
		Doc: "What QEMU starts: the file of the kernel, or the ELF kernel that is packed in it, by its entry for PVH. The " +
			"guest then unpacks no kernel."},
	{Name: optProgram, Kind: param.Text, Default: defaultProgram,
		Doc: "The emulator program, a name or a path on the host."},
	{Name: optBootTimeout, Kind: param.Duration, Default: "1m0s",
		Doc: "Maximum time until the guest's agent answers."},
	ramDiskOptions[0], ramDiskOptions[1],
	firmwareOption,
	clockOption, systemOption, acpiOption, channelOption, agentOption, readyOption,
	debugPortOption,
	{Name: optKernelPackage, Kind: param.Text,
		Doc: "The kernel package of the image's distribution, instead of the one for virtual machines. linux-image-amd64 " +
			"has " +
			"the drivers for real hardware."},
}, storageOptions...)

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name: "qemu",
		Also: map[string]string{"kvm": "qemu", "qemu-kvm": "qemu", "libvirt": "qemu", "virsh": "qemu", "vm": "qemu",
			"microvm": "qemu, machine: microvm", "q35": "qemu, machine: q35"},
		Summary: "a QEMU virtual machine, with hardware virtualization or emulated",
		Status:  driver.Proven,
		Hosts:   []string{"linux"},
		Root:    true,
		Image:   true,
		OwnRoot: []string{optDisk + "=*", optInitrd + "=*"}, Agentless: []string{optAgent + "=" + agentNone,
			optClock + "=" + clockInstructions},
		Kernel:      true,
		Options:     specs,
		CommandLine: wordsOf,
		Backings: []string{
			"disk", "file:ext4", "tmpfs",
		},
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":   "the same number of virtual processors, and control group cpuset for the QEMU process",
			"memory": "the memory size of the guest; QEMU's own memory is additional, and metered",
		}),
		Tuning:   driver.Tuning{Names: []string{"*"}},
		Packages: []string{"qemu-system-x86", "iproute2", "e2fsprogs"},
		Source: []string{
			"https://www.qemu.org/docs/master/system/i386/microvm.html",
			"https://www.qemu.org/docs/master/system/invocation.html",
			"https://docs.kernel.org/virt/kvm/api.html",
		},
	}
}

// options are the options of one machine.
type options struct {
	machine, accel, firmware, clock                 string
	kernel, modules, append, program                string
	form, initrd, disk, acpi, channel, agent, ready string
	system                                          string // after resolve, "" is unknown
	ramDisk, partition, debugPort                   string
	controller, diskFormat, diskCache, diskAIO      string
	bootTimeout                                     time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	o := options{machine: set.Text(optMachine), accel: set.Text(optAccel), firmware: set.Text(optFirmware),
		kernel: set.Text(optKernel), modules: set.Text(optModules), append: set.Text(optAppend),
		agent: set.Text(optAgent), ready: set.Text(optReady), clock: set.Text(optClock), initrd: set.Text(optInitrd),
		disk: set.Text(optDisk), system: set.Text(optSystem), ramDisk: set.Text(optRAMDisk),
		partition: set.Text(optPartition), acpi: set.Text(optACPI), channel: set.Text(optChannel),
		program: set.Text(optProgram), form: set.Text(optForm),
		controller: set.Text(optController), diskFormat: set.Text(optFormat), diskCache: set.Text(optCache),
		diskAIO: set.Text(optAIO), debugPort: set.Text(optDebugPort),
		bootTimeout: set.Duration(optBootTimeout)}
	if o.onInstructions() && o.accel == accelAuto {
		o.accel = accelTCG
	}
	return o, err
}
