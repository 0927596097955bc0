package qemu

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/initramfs"
)

// The names of options.
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
	optFirmware    = "firmware"
	optClock       = "clock"
	optSystem      = "guest-system"
	optAgent       = "agent"
	optCard        = "network-card"
	optReady       = "ready"
	optDebugPort   = "debug-port"
	optRAMDisk     = "ram-disk"
	optPartition   = "partition"
	optController  = "controller"
	optFormat      = "disk-format"
	optCache       = "disk-cache"
	optAIO         = "disk-aio"
	// optKernelPackage is used where images are built.
	optKernelPackage = driver.OptionKernelPackage
)

// Values of options.
const (
	auto = "auto"
	none = "none"

	acpiOn  = "on"
	acpiOff = "off"

	formELF = "elf"

	clockHost         = "host"
	clockInstructions = driver.ClockInstructions

	// systems as in GOOS
	systemLinux   = "linux"
	systemNetBSD  = "netbsd"
	systemFreeBSD = "freebsd"
	systemOpenBSD = "openbsd"
	systemWindows = "windows"

	formatRaw   = "raw"
	formatQcow2 = "qcow2"

	cacheWriteback  = "writeback"
	cacheNone       = "none"
	cacheDirectsync = "directsync"

	aioThreads = "threads"
	aioNative  = "native"
)

var specs = []param.Spec{
	{Name: optMachine, Kind: param.Text, Default: qemu.MicroVM, Enum: []string{qemu.MicroVM, qemu.Q35},
		Doc: "The machine type. microvm has virtio devices and little else. q35 is a PC with PCI and firmware."},
	{Name: optAccel, Kind: param.Text, Default: auto, Enum: []string{auto, qemu.KVM, qemu.TCG},
		Doc: "What runs the guest's instructions. auto starts a test guest with kvm; if that guest runs, auto is " +
			"kvm, otherwise emulation (tcg)."},
	{Name: optKernel, Kind: param.Text,
		Doc: "A kernel (path on the host) to boot instead of that of the image or the disk: a bzImage, an ELF file with a " +
			"PVH note, or a multiboot kernel of 32 bits."},
	{Name: optInitrd, Kind: param.Text,
		Doc: "An initial RAM disk (path on the host), with which the guest starts instead of an image. Needs the " +
			"option kernel. The RAM disk must start the agent (but see the option agent)."},
	{Name: optDisk, Kind: param.Text,
		Doc: "The disk of an installed system (path on the host; raw or qcow2), instead of an image. Changes to " +
			"the disk go to a temporary file. Without the option kernel, the boot loader on the disk boots the " +
			"system, which needs machine: q35. The system must start the agent; docs/special/guests.md describes " +
			"how."},
	{Name: optModules, Kind: param.Text,
		Doc: "Directory on the host that contains lib/modules/VERSION, for the kernel of the option kernel. Not " +
			"needed if virtio, ext4 and the console are built into the kernel."},
	{Name: optAppend, Kind: param.Text,
		Doc: "Words to add to the kernel's command line, such as mitigations=off. For a kernel other than Linux, the " +
			"command line consists of these words only."},
	{Name: optForm, Kind: param.Text, Default: "file", Enum: []string{"file", formELF},
		Doc: "What QEMU starts. file: the kernel file, whose kernel unpacks itself in the guest. elf: the ELF " +
			"kernel, which bakeoff unpacks from the kernel file and QEMU starts at the PVH entry point."},
	{Name: optProgram, Kind: param.Text, Default: qemu.Program,
		Doc: "The emulator program: its name, or its path on the host."},
	{Name: optBootTimeout, Kind: param.Duration, Default: "1m0s",
		Doc: "Maximum time until the guest's agent answers."},
	{Name: optRAMDisk, Kind: param.Text,
		Doc: "Path on the host of a raw disk with a GPT, such as `bakeoff image build` makes. The guest loads this " +
			"disk into memory, and one of its partitions becomes the guest's root: the partition with the attribute " +
			"BOOTONCE (bit 58) or, if no partition has it, with BOOTME (bit 59). The contender's image provides " +
			"only the kernel and its modules."},
	{Name: optPartition, Kind: param.Text,
		Doc: "Name of the partition of ram-disk that becomes the guest's root. Without this option, the attributes " +
			"BOOTONCE and BOOTME select the partition."},
	{Name: optFirmware, Kind: param.Text, Default: auto,
		Enum: []string{auto, qemu.QBoot, qemu.SeaBIOS, qemu.OVMF},
		Doc: "What runs before the kernel: qboot (minimal), SeaBIOS, or OVMF (UEFI, q35 only). auto uses the " +
			"default of the machine type: SeaBIOS for q35, and for microvm QEMU's file bios-microvm.bin, which " +
			"contains SeaBIOS or, in Debian 12, qboot. The facts firmware and firmware.sha256 show which firmware " +
			"ran."},
	{Name: optClock, Kind: param.Text, Default: clockHost,
		Enum: []string{clockHost, clockInstructions},
		Doc: "How time passes in the guest. host: as on the host. instructions: each executed instruction takes a " +
			"nanosecond; if the guest sleeps, QEMU sets its clock forward and wakes it at once. Repeated boots then " +
			"take exactly the same number of instructions, whatever else the host does. With instructions, the " +
			"machine is emulated, has one CPU, no disk and no network, and needs the workload boot. The machine " +
			"boots the kernel of the image or of the option kernel. The RAM disk comes from the option initrd; " +
			"without it, bakeoff's own RAM disk restarts the machine at the first userland instruction."},
	{Name: optSystem, Kind: param.Text, Default: auto,
		Enum: []string{auto, systemLinux, systemFreeBSD, systemNetBSD, systemOpenBSD, systemWindows},
		Doc: "The operating system of a guest with the option disk or initrd. With auto, bakeoff recognizes the " +
			"system from the kernel file (option kernel). If the disk has its own boot loader, bakeoff cannot " +
			"recognize the system. It then refuses volumes, tuning and the experiment's network, whose setup " +
			"depends on the system. With windows the machine has a display adapter and a hardware clock with the " +
			"local time; docs/guides/windows.md lists what is untested."},
	{Name: optACPI, Kind: param.Text, Default: auto, Enum: []string{auto, acpiOn, acpiOff},
		Doc: "Whether the guest has ACPI. auto is off for a NetBSD kernel on microvm: such a kernel finds its " +
			"virtio devices on its command line, and QEMU writes them there only without ACPI. For all other " +
			"guests, auto is on."},
	{Name: optChannel, Kind: param.Text, Default: auto,
		Enum: []string{auto, qemu.ChannelVirtio, qemu.ChannelDial},
		Doc: "How bakeoff reaches the agent of a guest with the option disk or initrd. virtio: the agent serves the port " +
			qemu.PortName + " of a virtio console. dial: the agent connects to " + qemu.DialAddress + " over a network " +
			"card that is connected to nothing else. auto is dial for NetBSD and OpenBSD, which have no such ports, and " +
			"for FreeBSD, whose ports lose input. For other systems, auto is virtio. The page shows the used " +
			"channel as the fact named channel."},
	{Name: optCard, Kind: param.Text, Default: qemu.VirtioNet, Enum: []string{qemu.VirtioNet, qemu.E1000, qemu.E1000E},
		Doc: "The network card of the guest. Windows has no driver for virtio-net; e1000 and e1000e (Intel) need " +
			"machine: q35, and are emulated."},
	{Name: optAgent, Kind: param.Text, Default: "yes", Enum: []string{"yes", none},
		Doc: "Whether the guest starts bakeoff-agent. none: a guest of the option disk or initrd has no agent. " +
			"bakeoff measures such a guest from outside, for example with the workload boot. The option ready says " +
			"when the guest is up."},
	{Name: optReady, Kind: param.Text,
		Doc: "When a guest without an agent is up. console:TEXT: its serial console has printed TEXT. tcp:PORT: a server " +
			"on that port has sent something. http:PORT/PATH: a GET of /PATH has the status 200. ssh:PORT: a server on " +
			"that port has sent the banner of SSH. With tcp, http or ssh, the guest gets a network card that only " +
			"bakeoff uses; its address is 10.0.2.15, also by DHCP. With clock: instructions, write mark:NAME: the " +
			"guest has run " + initramfs.Mark + " NAME. Without mark:NAME, the boot ends at the first userland " +
			"instruction."},
	{Name: optDebugPort, Kind: param.Text,
		Doc: "An I/O port of the guest, such as 0x402 (messages of SeaBIOS), 0xe9 (the debug console of Bochs) or " +
			"0x80 (POST codes). A recording of the workload boot then contains what the guest writes to this port: each " +
			"line of text or POST code, with its time. The machine waits to start until bakeoff reads the port. " +
			"Each write to the port slows the guest."},
	{Name: optKernelPackage, Kind: param.Text,
		Doc: "Name of the kernel package to install from the image's distribution. Without this option, bakeoff " +
			"installs the distribution's kernel package for virtual machines. linux-image-amd64 has the drivers for " +
			"real hardware."},
	{Name: optController, Kind: param.Text, Default: qemu.VirtioBlk,
		Enum: qemu.Controllers(),
		Doc: "The controller of all volumes except tmpfs. All controllers except virtio-blk and virtio-scsi need " +
			"machine: q35. ahci (SATA), lsi53c895a (parallel SCSI), megasas (LSI MegaRAID SAS 1078) and mptsas1068 " +
			"(LSI SAS 1068) also need a kernel with a driver for them (kernel-package: linux-image-amd64). The root " +
			"disk of an image is always on virtio-blk. The disk of the option disk is on the controller that this " +
			"option selects."},
	{Name: optFormat, Kind: param.Text, Default: formatRaw, Enum: []string{formatRaw, formatQcow2},
		Doc: "Format of the file of a volume, if the key backing begins with file: (such as file:ext4). raw: plain " +
			"blocks. qcow2: all clusters are allocated before the run, so that writes do not allocate them."},
	{Name: optCache, Kind: param.Text, Default: auto, Earlier: cacheWriteback,
		Enum: []string{auto, cacheWriteback, cacheNone, "writethrough", cacheDirectsync, "unsafe"},
		Doc: "QEMU's cache mode for volumes. auto is none if the host supports direct I/O on the volume's file, and " +
			"otherwise writeback; the fact driver.disk.cache shows which. writeback: uses the host's page cache and " +
			"honors flushes. none: bypasses the page cache. writethrough: flushes after each write. directsync: " +
			"bypasses the page cache and flushes after each write. unsafe: ignores flushes."},
	{Name: optAIO, Kind: param.Text, Default: aioThreads, Enum: []string{aioThreads, aioNative, "io_uring"},
		Doc: "How QEMU reads and writes disks on the host. native needs disk-cache: none or directsync."},
}

// options are the decoded options of one machine. resolve replaces auto where a file of
// the host decides.
type options struct {
	machine, program string
	accel, firmware  string // "" is auto

	kernel, initrd, disk, modules, ramDisk string // files of the host
	append, partition                      string

	acpi, channel string
	card          string
	system        string // after resolve, "" is unknown

	controller, diskFormat, diskCache, diskAIO string

	unpack       bool // the kernel
	agentless    bool
	instructions bool // the clock
	readyText    string
	ready        qemu.Ready // of a guest without an agent
	mark         string     // the report with which a boot on the instruction clock ends
	debugPort    string     // such as 0x402; "" is none
	bootTimeout  time.Duration
}

// decode reads the options. Its error has a line for each wrong value.
func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	if err != nil {
		return options{}, err
	}
	o := options{machine: set.Text(optMachine), program: set.Text(optProgram),
		accel: emptyForAuto(set.Text(optAccel)), firmware: emptyForAuto(set.Text(optFirmware)),
		kernel: set.Text(optKernel), initrd: set.Text(optInitrd), disk: set.Text(optDisk), modules: set.Text(optModules),
		ramDisk: set.Text(optRAMDisk), append: set.Text(optAppend), partition: set.Text(optPartition),
		acpi: set.Text(optACPI), card: set.Text(optCard), channel: set.Text(optChannel), system: set.Text(optSystem),
		controller: set.Text(optController), diskFormat: set.Text(optFormat), diskCache: set.Text(optCache),
		diskAIO: set.Text(optAIO), unpack: set.Text(optForm) == formELF, agentless: set.Text(optAgent) == none,
		instructions: set.Text(optClock) == clockInstructions, readyText: set.Text(optReady),
		bootTimeout: set.Duration(optBootTimeout)}
	if o.instructions && o.accel == "" {
		o.accel = qemu.TCG
	}
	var errs []error
	wrong := func(option, fix, format string, args ...any) {
		errs = append(errs, refuseOption(fault.Invalid, option, fix, format, args...))
	}
	for _, f := range o.hostFiles() {
		if f.path != "" && !path.IsAbs(f.path) {
			errs = append(errs, fault.WithFix(fault.New(fault.Invalid, "%s must be an absolute path (got %q)", f.option,
				f.path), absolutePath))
		}
	}
	if strings.ContainsFunc(o.append, func(r rune) bool { return r < ' ' || r > '~' }) {
		wrong(optAppend, "write printable ASCII characters only", "%q contains other characters", o.append)
	}
	if len(o.partition) > 36 || strings.ContainsFunc(o.partition, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		wrong(optPartition, "write at most 36 printable characters", "%q cannot be the name of a GPT partition", o.partition)
	}
	if text := set.Text(optDebugPort); text != "" {
		n, err := strconv.ParseUint(text, 0, 16)
		if err != nil || n == 0 {
			wrong(optDebugPort, "write a number from 0x1 to 0xffff, such as 0x402", "%q is not an I/O port", text)
		}
		o.debugPort = fmt.Sprintf("%#x", n)
	}
	if o.instructions {
		o.mark, err = o.lastMark()
	} else if o.readyText != "" {
		o.ready, err = qemu.ParseReady(o.readyText)
	}
	return o, errors.Join(append(errs, fault.Op(optReady, err))...)
}

// emptyForAuto is the value of an option, "" for auto.
func emptyForAuto(value string) string {
	if value == auto {
		return ""
	}
	return value
}

// lastMark is the name of the report with which the boot ends: of the option ready.
func (o options) lastMark() (string, error) {
	via, name, _ := strings.Cut(o.readyText, ":")
	switch {
	case o.readyText == "":
		return initramfs.ClockUserland, nil
	case via == "mark" && name != "" && o.initrd != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~'
	}):
		return name, nil
	}
	return "", fault.WithFix(fault.New(fault.Invalid, "with the clock %s, a boot ends at the first userland "+
		"instruction, or where a guest of the option %s reports its end (got %q)", clockInstructions, optInitrd, o.readyText),
		"remove "+optReady+", or write "+optReady+": mark:NAME and let the guest run "+initramfs.Mark+" NAME")
}

// absolutePath is the remedy for the path of a file.
const absolutePath = "write the absolute path of a file on the host"

// hostFile is a file or folder of the host that an option names.
type hostFile struct{ option, path string }

// hostFiles are the options that name files or folders of the host.
func (o options) hostFiles() []hostFile {
	return []hostFile{{optKernel, o.kernel}, {optModules, o.modules}, {optInitrd, o.initrd}, {optDisk, o.disk},
		{optRAMDisk, o.ramDisk}}
}

// bringsSystem tells that the user brings the system of the guest: bakeoff starts the machine,
// and something in its system starts the agent.
func (o options) bringsSystem() bool { return o.disk != "" || o.initrd != "" }

// kernelWords is what bakeoff itself gives to a kernel with these options, as far as it is the
// same on all hosts. What system the files of a user hold is not known here unless an option
// says it.
func kernelWords(v param.Values) string {
	o, _ := decode(v)
	switch {
	case o.instructions:
		return qemu.InstructionWords
	case o.bringsSystem() && o.system != systemLinux:
		return ""
	}
	return qemu.KernelWords
}
