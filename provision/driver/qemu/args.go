package qemu

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
)

// The names of files in a machine's directory on the host.
const (
	fileInitramfs = "initramfs.cpio"
	socketChannel = "c" // short, because a socket's path has 107 bytes
	socketMonitor = "q"
)

// maxSocketPath is the longest path of a Unix socket on Linux, in bytes
// (unix(7), without the closing zero).
const maxSocketPath = 107

// portName is the virtio port of the agent.
const portName = "bakeoff"

// rootSerial is the serial number of the disk with the root; volumeSerial those
// of volumes. virtio limits them to 20 bytes.
const rootSerial = "root"

func volumeSerial(i int) string { return "volume" + strconv.Itoa(i) }

// disk is a disk of the machine.
type disk struct {
	serial   string
	path     string // on the host
	snapshot bool   // changes go to a file without a name
	boots    bool   // the firmware starts its boot loader
	// controller, format, cache and aio are values of the options.
	controller, format, cache, aio string
}

// machine is everything that QEMU's command line depends on.
type machine struct {
	program string
	label   string
	kind    string
	accel   string
	sandbox bool
	cpus    int
	memory  unit.Bytes
	dir     string
	kernel  string // "" starts the boot loader of the disk
	initrd  string
	append  string
	// bare tells that append is the whole command line of the kernel.
	bare bool
	// noACPI hides ACPI; QEMU then names virtio devices on the kernel's command line.
	noACPI bool
	// instructions tells that executed instructions are the time of the guest.
	instructions bool
	// channel is a value of the option channel; noAgent leaves it out.
	channel string
	noAgent bool
	ready   readiness
	// firmware is passed by its path; without one QEMU chooses its own.
	firmware firmware
	tscKHz   int64
	version  string   // of QEMU
	modules  []string // of the disks' controllers
	disks    []disk
	network  *driver.Network
	// watch makes QEMU write the events that tell how far the boot is.
	watch bool
	// debugPort is an I/O port whose writes are read; "" is none.
	debugPort string
}

// commandLine is the argument vector of QEMU for m.
//
// It has only the devices that are needed: no display, no USB, no default
// network. The machine ends with its guest: a panic restarts it at once
// (panic=-1), and a restart ends QEMU (-no-reboot).
func commandLine(m machine) []string {
	argv := []string{
		m.program, "-name", "guest=" + m.label, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", machineArg(m), "-cpu", cpuModel(m),
		"-smp", strconv.Itoa(m.cpus), "-m", fmt.Sprintf("%dM", m.memory/unit.MiB),
		"-qmp", "unix:" + escape(path.Join(m.dir, socketMonitor)) + ",server=on,wait=off",
	}
	argv = append(argv, consoleArgs(m)...) // messages go to standard output, where they are bounded
	if m.kernel != "" {
		argv = append(argv, "-kernel", m.kernel, "-append", kernelArgs(m))
	}
	if m.initrd != "" {
		argv = append(argv, "-initrd", m.initrd)
	}
	// The guest finds cards and disks in this order: the channel's card and the root first.
	switch {
	case m.instructions:
		argv = append(argv, instructionArgs()...)
	case m.noAgent:
		argv = append(argv, readyArgs(m)...)
	default:
		argv = append(argv, channelArgs(m)...)
	}
	if m.watch {
		argv = append(argv, watchArgs()...)
	}
	argv = append(argv, debugArgs(m)...)
	if m.sandbox {
		argv = append(argv, "-sandbox", sandbox)
	}
	if m.firmware.path != "" {
		argv = append(argv, "-bios", m.firmware.path)
	}
	return slices.Concat(argv, attach(m), networkArgs(m))
}

// networkArgs is the part of the command line with the experiment's network.
func networkArgs(m machine) []string {
	if m.network == nil || m.noAgent { // nothing would give the card an address
		return nil
	}
	return []string{"-netdev", "tap,id=net,script=no,downscript=no,ifname=" + netns.Tap(m.label),
		"-device", "virtio-net-" + bus(m.kind) + ",netdev=net,mac=" + m.network.MAC}
}

func machineArg(m machine) string {
	arg := m.kind
	if !m.instructions {
		arg += ",accel=" + m.accel
	}
	if m.kind == machineMicroVM {
		// ACPI tells the kernel where its virtio devices are; clock and timer
		// are needed early in the boot.
		arg += ",acpi=on,pit=on,pic=on,rtc=on,isa-serial=on"
	}
	if m.noACPI {
		arg = strings.Replace(arg, ",acpi=on", "", 1) + ",acpi=off"
	}
	return arg
}

// bus is the suffix of virtio device names: microvm has no PCI.
func bus(kind string) string {
	if kind == machineMicroVM {
		return "device"
	}
	return "pci"
}

func cpuModel(m machine) string {
	switch {
	case m.instructions:
		return instructionCPU
	case m.accel == accelKVM:
		return "host"
	}
	return "max"
}

// hostClockWords are those of every kernel on the clock of the host. A panic restarts at once
// by a triple fault, which works in every state of the machine. The kernel's self-tests of
// cryptography are a fifth of an emulated boot.
const hostClockWords = "console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests"

// wordsOf is what bakeoff itself gives to a kernel with these options, as far as it is the
// same on all hosts. What system the files of a user hold is not known here unless an option
// says it.
func wordsOf(options param.Values) string {
	own := options[optDisk] != "" || options[optInitrd] != ""
	switch {
	case options[optClock] == clockInstructions:
		return instructionWords
	case own && options[optSystem] != systemLinux:
		return ""
	}
	return hostClockWords
}

// kernelArgs is the kernel's command line, the same for all guests of one
// contender.
func kernelArgs(m machine) string {
	switch {
	case m.bare:
		return m.append
	case m.instructions:
		return instructionKernelArgs(m)
	}
	words := []string{hostClockWords}
	if m.accel == accelTCG && m.tscKHz > 0 {
		// An emulated processor shows the host's time stamp counter. A microvm
		// cannot measure its frequency well, and most boots hang without
		// tsc_early_khz. Later the kernel would check the counter against a
		// timer that is late on a busy host, mark it unstable and fall back to
		// a clock of 4 ms. lpj skips another calibration; its value is used for
		// short delays only.
		words = append(words, fmt.Sprintf("tsc_early_khz=%d", m.tscKHz), "tsc=reliable", "lpj=4000000")
	}
	if m.append != "" {
		words = append(words, m.append)
	}
	return strings.Join(words, " ")
}

// escape formats a value for QEMU's option lists.
func escape(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// wantedModules are the kernel modules that such a machine needs.
func wantedModules(m machine) []string {
	w := []string{"virtio_mmio"}
	if m.kind == machineQ35 {
		w = []string{"virtio_pci"}
	}
	w = append(w, "virtio_console", "virtio_blk", "ext4")
	if m.network != nil {
		w = append(w, "virtio_net")
	}
	return append(w, m.modules...)
}

// newMachine sets what the specification says; accelerator, sandbox and disks
// are set later.
func newMachine(spec driver.Spec, o options) machine {
	m := machine{
		program: o.program, label: spec.Label, kind: o.machine,
		cpus: spec.CPUs, memory: spec.Memory, dir: spec.Dir,
		kernel: spec.Image.Kernel, append: o.append, network: spec.Network,
	}
	if o.own() && !o.onInstructions() {
		m.kernel, m.initrd = "", o.initrd
	} else {
		m.initrd = path.Join(spec.Dir, fileInitramfs)
	}
	if o.kernel != "" {
		m.kernel = o.kernel
	}
	m.noACPI, m.channel, m.instructions = o.acpi == acpiOff, o.channel, o.onInstructions()
	m.debugPort = o.port()
	m.modules = storageModules(o.controller, spec.Volumes)
	return m
}
