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
		Doc: "What runs the guest's instructions. auto uses kvm if a test guest runs with kvm, otherwise emulation " +
			"(tcg)."},
	{Name: optKernel, Kind: param.Text,
		Doc: "Path on the host of a kernel to boot instead of the image's or the disk's: a bzImage, an ELF file with a PVH " +
			"note, or a multiboot kernel of 32 bits."},
	{Name: optInitrd, Kind: param.Text,
		Doc: "Path on the host of an initial RAM disk for that kernel, instead of an image. The RAM disk must start " +
			"the agent (but see the option agent)."},
	{Name: optDisk, Kind: param.Text,
		Doc: "Path on the host of the whole disk of a system, raw or qcow2, instead of an image. Changes go to a temporary " +
			"file. Without the option kernel it boots by its own boot loader (machine: q35). Its system must start the " +
			"agent; docs/special/guests.md describes how."},
	{Name: optModules, Kind: param.Text,
		Doc: "Directory on the host with lib/modules/VERSION for that kernel. Not needed if virtio, ext4 and the console " +
			"are " +
			"built in."},
	{Name: optAppend, Kind: param.Text,
		Doc: "Words to add to the kernel's command line, such as mitigations=off. For a kernel other than Linux, the " +
			"command line consists of these words only."},
	{Name: optForm, Kind: param.Text, Default: "file", Enum: []string{"file", formELF},
		Doc: "What QEMU starts: the file of the kernel, or the ELF kernel that is packed in this file, started at " +
			"its PVH entry point. The guest then unpacks no kernel."},
	{Name: optProgram, Kind: param.Text, Default: qemu.Program,
		Doc: "The emulator program, a name or a path on the host."},
	{Name: optBootTimeout, Kind: param.Duration, Default: "1m0s",
		Doc: "Maximum time until the guest's agent answers."},
	{Name: optRAMDisk, Kind: param.Text,
		Doc: "A raw disk with a GPT, such as bakeoff image build makes: its path on the host. The guest loads this disk " +
			"into its memory. The root of the guest is a partition of this disk instead of the image's disk; the image " +
			"provides the kernel and its modules. The root is the partition with the attribute BOOTONCE (58), or else " +
			"with BOOTME (59)."},
	{Name: optPartition, Kind: param.Text,
		Doc: "The name of the partition of ram-disk that is the root. Without it, the attributes BOOTONCE and BOOTME " +
			"select the partition."},
	{Name: optFirmware, Kind: param.Text, Default: auto,
		Enum: []string{auto, qemu.QBoot, qemu.SeaBIOS, qemu.OVMF},
		Doc: "What runs before the kernel: qboot (minimal), SeaBIOS, or OVMF (UEFI, q35 only). auto uses the default of " +
			"the machine type: SeaBIOS for q35, and for microvm what QEMU calls bios-microvm.bin, which is SeaBIOS " +
			"or (in Debian 12) qboot. The facts firmware and firmware.sha256 say what ran."},
	{Name: optClock, Kind: param.Text, Default: clockHost,
		Enum: []string{clockHost, clockInstructions},
		Doc: "How time passes in the guest. host: as on the host. With instructions, each executed instruction takes " +
			"a nanosecond, and a guest that sleeps is woken at once, with its clock set forward. Repeated boots then " +
			"take exactly the same number of instructions, whatever else the host does. The machine is emulated, has " +
			"one CPU, no disk and no network, and is measured by the workload boot. It boots the kernel of the image " +
			"or of the option kernel. Its RAM disk is that of the option initrd, or a RAM disk of bakeoff that " +
			"restarts the machine at the first userland instruction."},
	{Name: optSystem, Kind: param.Text, Default: auto,
		Enum: []string{auto, systemLinux, systemFreeBSD, systemNetBSD, systemOpenBSD, systemWindows},
		Doc: "The operating system of a guest with the option disk or initrd. With auto, bakeoff recognizes the " +
			"system from the kernel file (option kernel). If the disk has its own boot loader, bakeoff cannot " +
			"recognize the system, and then refuses volumes, tuning and the experiment's network, because it does not " +
			"know how the agent could set them up. With windows the machine has a display adapter and a hardware clock " +
			"with the local time; docs/guides/windows.md lists what is untested."},
	{Name: optACPI, Kind: param.Text, Default: auto, Enum: []string{auto, acpiOn, acpiOff},
		Doc: "Whether the guest sees ACPI. auto is off for a NetBSD kernel on microvm, because QEMU names the virtio " +
			"devices on the kernel's command line only without ACPI. Otherwise auto is on."},
	{Name: optChannel, Kind: param.Text, Default: auto,
		Enum: []string{auto, qemu.ChannelVirtio, qemu.ChannelDial},
		Doc: "How the agent of a guest with the option disk or initrd is reached. virtio is a port of a virtio console " +
			"with the name " + qemu.PortName + ", which the agent serves. With dial the agent connects to " + qemu.DialAddress +
			" over a network card that leads nowhere else. auto is dial for NetBSD and OpenBSD, which have no such " +
			"ports, and for FreeBSD, whose ports lose input. Otherwise auto is virtio. The fact channel says which one " +
			"was used."},
	{Name: optCard, Kind: param.Text, Default: qemu.VirtioNet, Enum: []string{qemu.VirtioNet, qemu.E1000, qemu.E1000E},
		Doc: "The network card of the guest. Windows has no driver for virtio-net; e1000 and e1000e (Intel) need machine " +
			"q35, and are emulated."},
	{Name: optAgent, Kind: param.Text, Default: "yes", Enum: []string{"yes", none},
		Doc: "none is for a guest of the option disk or initrd that starts no agent. Such a guest is measured from " +
			"outside, by the workload boot. The option ready says when the guest is up."},
	{Name: optReady, Kind: param.Text,
		Doc: "When a guest without an agent is up: console:TEXT (its serial console has printed TEXT), tcp:PORT (a server " +
			"on that port has sent something), http:PORT/PATH (a GET of /PATH has the status 200) or ssh:PORT (a server on " +
			"that port has sent the banner of SSH). For a port the guest " +
			"gets a network card that leads nowhere else; its address is 10.0.2.15, also by DHCP. With clock: instructions " +
			"it is mark:NAME (the guest has run " + initramfs.Mark + " NAME); without it the boot ends at the first " +
			"userland instruction."},
	{Name: optDebugPort, Kind: param.Text,
		Doc: "An I/O port of the guest, such as 0x402 (messages of SeaBIOS), 0xe9 (the debug console of Bochs) or " +
			"0x80 (POST codes). A recording of the workload boot then contains what the guest writes to this port, " +
			"each line or code with its time. The machine starts when bakeoff reads the port. Each write to the port " +
			"takes the guest time."},
	{Name: optKernelPackage, Kind: param.Text,
		Doc: "The kernel package of the image's distribution, instead of its kernel package for virtual machines. " +
			"linux-image-amd64 has the drivers for real hardware."},
	{Name: optController, Kind: param.Text, Default: qemu.VirtioBlk,
		Enum: qemu.Controllers(),
		Doc: "The controller of volumes that are not tmpfs. All except virtio-blk and virtio-scsi need machine q35. ahci " +
			"(SATA), lsi53c895a (parallel SCSI), megasas (LSI MegaRAID SAS 1078) and mptsas1068 (LSI SAS 1068) also need a " +
			"kernel with their drivers (kernel-package: linux-image-amd64). The root of an image is always on virtio-blk; " +
			"the disk of the option disk is on this controller."},
	{Name: optFormat, Kind: param.Text, Default: formatRaw, Enum: []string{formatRaw, formatQcow2},
		Doc: "The format of the file of a volume with backing file:…: raw blocks, or qcow2 with all clusters " +
			"preallocated as in raw."},
	{Name: optCache, Kind: param.Text, Default: auto, Earlier: cacheWriteback,
		Enum: []string{auto, cacheWriteback, cacheNone, "writethrough", cacheDirectsync, "unsafe"},
		Doc: "QEMU's cache mode for volumes. auto is none if the host supports direct I/O on the volume's file, and " +
			"otherwise writeback; the fact driver.disk.cache shows it. writeback uses the host's page cache and honors " +
			"flushes, none bypasses the cache, writethrough flushes after each write, directsync bypasses the cache " +
			"and flushes after each write, unsafe ignores flushes."},
	{Name: optAIO, Kind: param.Text, Default: aioThreads, Enum: []string{aioThreads, aioNative, "io_uring"},
		Doc: "How QEMU does disk input and output on the host. native needs disk-cache none or directsync."},
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
	return "", fault.WithFix(fault.New(fault.Invalid, "on the clock %s a boot ends at the first userland "+
		"instruction, or where a guest of the option %s reports (got %q)", clockInstructions, optInitrd, o.readyText),
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
