// Package qemu makes virtual machines with QEMU: the lean machine "microvm",
// and "q35", a whole PC.
//
// The guest boots a kernel directly; bakeoff-agent is its process 1 and
// answers on a virtio port, so a guest needs neither a shell nor a network to
// be driven. Its root is the image's file system on a virtio disk, with all
// changes going to a temporary file of QEMU's that has no name.
//
// Which accelerator runs is decided by running a guest, never by the
// existence of /dev/kvm, and read back from QEMU.
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
	optModules     = "modules"
	optAppend      = "append"
	optProgram     = "program"
	optBootTimeout = "boot-timeout"
	// optKernelPackage is read where images are made.
	optKernelPackage = driver.OptionKernelPackage

	machineMicroVM = "microvm"
	machineQ35     = "q35"
	accelAuto      = "auto"
	accelKVM       = "kvm"
	accelTCG       = driver.Emulated
)

// defaultProgram is the emulator for the processors that both machines have.
const defaultProgram = "qemu-system-x86_64"

var specs = append([]param.Spec{
	{Name: optMachine, Kind: param.Text, Default: machineMicroVM, Enum: []string{machineMicroVM, machineQ35},
		Doc: "The machine: microvm has virtio devices and little else, q35 is a PC with PCI and firmware."},
	{Name: optAccel, Kind: param.Text, Default: accelAuto, Enum: []string{accelAuto, accelKVM, accelTCG},
		Doc: "What runs the guest's instructions; auto takes kvm where a guest has been seen to run, and emulation (tcg) elsewhere."},
	{Name: optKernel, Kind: param.Text,
		Doc: "Path on the host of a kernel (bzImage or ELF with a PVH note) to boot instead of the image's."},
	{Name: optModules, Kind: param.Text,
		Doc: "Directory on the host that has lib/modules/VERSION for that kernel; not needed where virtio, ext4 and the console are built in."},
	{Name: optAppend, Kind: param.Text,
		Doc: "Words to add to the kernel's command line, as mitigations=off."},
	{Name: optProgram, Kind: param.Text, Default: defaultProgram,
		Doc: "The emulator, a name or a path on the host."},
	{Name: optBootTimeout, Kind: param.Duration, Default: "1m0s",
		Doc: "How long the guest may take until its agent answers."},
	firmwareOption,
	{Name: optKernelPackage, Kind: param.Text,
		Doc: "Package of the image's distribution that brings the kernel, where it is not to be the one for virtual machines: linux-image-amd64 has the drivers of real hardware."},
}, storageOptions...)

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "qemu",
		Also:    map[string]string{"kvm": "qemu", "qemu-kvm": "qemu", "libvirt": "qemu", "virsh": "qemu", "vm": "qemu", "microvm": "qemu, machine: microvm", "q35": "qemu, machine: q35"},
		Summary: "A virtual machine under QEMU, with hardware virtualisation or emulated",
		Status:  driver.Proven,
		Hosts:   []string{"linux"},
		Root:    true,
		Image:   true,
		Kernel:  true,
		Options: specs,
		Backings: []string{
			"disk", "file:ext4", "tmpfs",
		},
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":   "as many virtual processors, and the host's control group cpuset for all of QEMU",
			"memory": "the size of the guest's memory; QEMU's own is beside it, and metered",
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
	machine, accel, firmware                   string
	kernel, modules, append, program           string
	controller, diskFormat, diskCache, diskAIO string
	bootTimeout                                time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{machine: set.Text(optMachine), accel: set.Text(optAccel), firmware: set.Text(optFirmware),
		kernel: set.Text(optKernel), modules: set.Text(optModules), append: set.Text(optAppend), program: set.Text(optProgram),
		controller: set.Text(optController), diskFormat: set.Text(optFormat), diskCache: set.Text(optCache), diskAIO: set.Text(optAIO),
		bootTimeout: set.Duration(optBootTimeout)}, err
}
