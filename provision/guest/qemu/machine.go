// Package qemu runs guests with QEMU: the minimal machine "microvm", and "q35", a
// complete PC. A guest starts from a description (Machine) with Start. It has a console,
// a monitor, and a channel to the agent in it, or is ready when its console or a server
// in it says so.
package qemu

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/reach/initramfs"
)

// Machine types, accelerators, and controllers of disks.
const (
	MicroVM = "microvm"
	Q35     = "q35"

	KVM = "kvm"
	TCG = driver.Emulated

	VirtioBlk  = "virtio-blk"
	VirtioSCSI = "virtio-scsi"
	NVMe       = "nvme"
	AHCI       = "ahci"

	// VirtioCD is the controller of a CD that the guest sees as a read-only disk of virtio-blk. A
	// CD with VirtioSCSI is in a drive of it, and with any other controller in a drive of AHCI.
	VirtioCD = "virtio-cd"

	// Adapters that QEMU emulates: the parallel SCSI of LSI, and RAID and SAS of it.
	LSI     = "lsi53c895a"
	MegaSAS = "megasas"
	MPTSAS  = "mptsas1068"
)

// sasName is the world wide name of the first disk of MPTSAS: one that is assigned locally.
const sasName = 0x3000_b000_0000_0000

// Controllers lists the controllers of disks.
func Controllers() []string {
	return []string{VirtioBlk, VirtioSCSI, NVMe, AHCI, LSI, MegaSAS, MPTSAS}
}

// NeedsPCI reports whether a controller is a PCI device, which MicroVM cannot have.
func NeedsPCI(controller string) bool { return controller != VirtioBlk && controller != VirtioSCSI }

// drivers are the modules of Linux for a controller.
var drivers = map[string][]string{VirtioSCSI: {"virtio_scsi", "sd_mod"}, NVMe: {"nvme"}, AHCI: {"ahci", "sd_mod"},
	LSI: {"sym53c8xx", "sd_mod"}, MegaSAS: {"megaraid_sas", "sd_mod"}, MPTSAS: {"mptsas", "sd_mod"}}

// Program is the emulator of the architecture of both machines.
const Program = "qemu-system-x86_64"

// The sockets in the folder of a machine: see guest.CheckSocketDir.
const (
	socketChannel = "c"
	socketMonitor = "q"
	socketDebug   = "d"
	// SocketConsole is the serial line of a machine with ConsoleLog.
	SocketConsole = "s"
	// SocketMetadata is the second serial line of a machine with Metadata.
	SocketMetadata = "m"
)

// SocketShare is the name of the socket of the daemon of a shared folder.
func SocketShare(i int) string { return string(rune('A' + i)) }

// MaxShares bounds the folders that daemons serve.
const MaxShares = 8

// MaxConsoles bounds the further consoles of a machine.
const MaxConsoles = 8

// SocketFurther is the name of the socket of a further console, from 1.
func SocketFurther(number int) string { return strconv.Itoa(number) }

// How the agent in the guest is reached.
const (
	// ChannelVirtio is a port of a virtio console with the name PortName.
	ChannelVirtio = "virtio"
	// ChannelDial is a network card that leads to DialAddress alone, where the agent
	// dials. The guest's address is 10.0.2.15, also by DHCP.
	ChannelDial = "dial"

	PortName    = "bakeoff"
	DialAddress = "10.0.2.100:7311"
)

// RootSerial is the serial number of the disk with the root, and VolumeSerial those of
// volumes. virtio limits them to 20 bytes.
const RootSerial = "root"

// VolumeSerial is the serial number of the disk of volume i.
func VolumeSerial(i int) string { return "volume" + strconv.Itoa(i) }

// Disk is a disk of the machine.
type Disk struct {
	Serial   string
	Path     string // on the host
	Snapshot bool   // changes go to a file without a name
	Boots    bool   // the firmware starts its boot loader
	// Controller is one of the constants, Format raw or qcow2. Cache and AIO are QEMU's
	// modes; a disk with Snapshot needs none.
	Controller, Format, Cache, AIO string
	// CDROM tells that it is an ISO image in a drive of its own.
	CDROM bool
	// Folder is the label of a file system that QEMU makes of the files in Path; "" is a disk.
	Folder string
	// LogicalBlock and PhysicalBlock are the sizes of blocks that the guest sees, in bytes; 0 is
	// the usual one.
	LogicalBlock, PhysicalBlock int `json:"-"`
	// Slot is the slot of the machine, from 1, in which the disk is; 0 is a place on its bus.
	Slot int `json:",omitzero"`
}

// Card is a network card in a network of its own, in which QEMU plays the gateway, the name
// server and the DHCP server.
type Card struct {
	MAC   string
	Model string // "" is virtio
	MTU   int    // 0 is the usual one
	// Address is what DHCP gives to the card; without one it is 10.0.2.15. Gateway leads out.
	// An address without a gateway leads nowhere.
	Address netip.Prefix
	Gateway netip.Addr
	// FD is the number of an open tap device that QEMU inherits: the card is in the network of
	// that device. 0 is none.
	FD int
}

// Port is a port of the host that leads to a TCP port of the guest.
type Port struct {
	Host  netip.AddrPort
	Guest uint16
}

// Share is a folder of the host that the guest can mount with the name Tag: by 9p, or by virtiofs if
// Socket is that of a daemon that serves it.
type Share struct {
	Tag, Path string
	ReadOnly  bool
	Socket    string
}

// Machine describes a guest: everything that QEMU's command line depends on.
type Machine struct {
	Program string
	Label   string // QEMU's name for the guest
	Kind    string // MicroVM or Q35
	CPUs    int
	// Emulated is the processor that an emulator shows, such as "max,-erms"; "" is max.
	Emulated string
	Memory   unit.Bytes
	Dir      string // of the machine on the host; QEMU makes its sockets there
	Kernel   string // "" starts the boot loader of the disk
	Initrd   string
	Append   string
	// Bare tells that Append is the whole command line of the kernel.
	Bare bool
	// NoACPI hides ACPI; QEMU then names virtio devices on the kernel's command line.
	NoACPI bool
	// Sockets gives each CPU a socket of its own. The MP table of SeaBIOS lists one CPU for
	// a socket, and a kernel without ACPI finds its CPUs there.
	Sockets bool
	// Instructions tells that executed instructions are the time of the guest.
	Instructions bool
	// Windows gives the machine what a guest with Windows expects: a display adapter, without
	// which its boot loader does not start, and a clock of the hardware with the local time.
	Windows bool
	Disks   []Disk
	// Slots is the number of slots in which disks can be. They are PCI Express ports, so AddDisk works.
	// Only Q35 has them.
	Slots int
	// Tap is a tap device of the host with a network card for the guest; "" is none. MAC is
	// the address of the card.
	Tap, MAC string
	// CardModel is the network card of Tap, ChannelDial and Forwards; "" is virtio-net.
	CardModel string
	// Channel is how the agent is reached; "" is a guest without one. Such a guest has a
	// network that leads nowhere else if Forwards is set, for Guest.Forward.
	Channel  string
	Forwards bool
	// Ports lead into a guest without ChannelDial, whose network then also leads out. QEMU
	// gives the guest the address 10.0.2.15 by DHCP.
	Ports  []Port
	Shares []Share
	// Cards are the network cards of a guest with Ports, instead of that of Ports. The ports
	// lead to the first one.
	Cards []Card
	// ConsoleLog is a file to which QEMU appends what the guest prints. The console is then
	// the socket SocketConsole in Dir, and AwaitReady does not see it.
	ConsoleLog string
	// Metadata gives the machine a second serial line, which is the socket SocketMetadata in
	// Dir. It needs ConsoleLog, and MicroVM cannot have it.
	Metadata bool
	// Consoles is the number of further consoles: ports of a virtio console, each of which is a
	// socket in Dir (SocketFurther). On Linux they are /dev/hvc0, /dev/hvc1 and so on.
	Consoles int
	// Reboots tells that the machine survives a restart of its guest.
	Reboots bool
	// Order is what the firmware tries to start, in this order: c for the disks, d for the CD
	// drives, n for the cards in Cards. "" is the disk that Boots. Once is the order until the
	// guest restarts; "" is Order. A machine with Once is Paused until BootOnce.
	Order, Once string
	// Paused tells that the machine stands still until the command cont of the monitor.
	Paused bool
	Screen *Screen // nil is none
	// Ready is when a guest without an agent is ready.
	Ready Ready
	// Watch makes QEMU write the events that tell how far the boot is.
	Watch bool
	// Variables is a file on the host in which the firmware OVMFCode keeps its variables, such
	// as boot entries: a copy of OVMF's template, which the guest changes.
	Variables string
	// StubWords are words that systemd-stub adds to the command line of a unified kernel image.
	// It reads them from the firmware's table of type 11 (SMBIOS), which MicroVM does not have.
	StubWords string
	// DebugPort is an I/O port whose writes are read, such as 0x402; "" is none.
	DebugPort string

	// Choose sets what follows.

	Accel    string // KVM or TCG
	Sandbox  bool
	TSCKHz   int64
	Version  string // of QEMU
	Firmware Firmware
}

// CommandLine is the argument vector of QEMU.
//
// It has only the devices that are needed: no display, no USB, no default
// network. The machine ends with its guest: a panic restarts it at once
// (panic=-1), and a restart ends QEMU (-no-reboot).
func (m *Machine) CommandLine() []string {
	argv := []string{
		m.Program, "-name", "guest=" + m.Label, "-nodefaults", "-no-user-config", "-display", "none",
		"-machine", m.machineArg(), "-cpu", m.CPUModel(),
		"-smp", m.smpArg(), "-m", fmt.Sprintf("%dM", m.Memory/unit.MiB),
		"-qmp", "unix:" + m.socketPath(socketMonitor) + ",server=on,wait=off",
	}
	if !m.Reboots {
		argv = append(argv, "-no-reboot")
	}
	if m.Paused {
		argv = append(argv, "-S")
	}
	argv = append(argv, m.consoleArgs()...) // messages go to standard output, where they are bounded
	if m.Metadata {
		argv = append(argv, "-chardev", "socket,id=metadata,path="+m.socketPath(SocketMetadata)+",server=on,wait=off",
			"-serial", "chardev:metadata")
	}
	if m.Kernel != "" {
		argv = append(argv, "-kernel", m.Kernel, "-append", m.kernelArgs())
	}
	if m.Initrd != "" {
		argv = append(argv, "-initrd", m.Initrd)
	}
	// The guest finds cards and disks in this order: the channel's card and the root first.
	switch {
	case m.Instructions:
		argv = append(argv, instructionArgs()...)
	case m.Channel == "":
		argv = append(argv, m.forwardArgs()...)
	default:
		argv = append(argv, m.channelArgs()...)
		if m.Channel == ChannelVirtio && m.Ports != nil {
			argv = append(argv, m.forwardArgs()...)
		}
	}
	argv = append(argv, m.furtherArgs()...)
	if m.Windows {
		argv = append(argv, "-device", "VGA", "-rtc", "base=localtime")
	}
	if m.Watch {
		argv = append(argv, watchArgs()...)
	}
	argv = append(argv, m.debugArgs()...)
	if m.Sandbox {
		argv = append(argv, "-sandbox", sandbox)
	}
	switch {
	case m.Variables != "":
		argv = append(argv, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file="+escapeCommas(m.Firmware.Path),
			"-drive", "if=pflash,unit=1,format=raw,file="+escapeCommas(m.Variables))
	case m.Firmware.Path != "":
		argv = append(argv, "-bios", m.Firmware.Path)
	}
	if m.StubWords != "" {
		argv = append(argv, "-smbios", "type=11,value=io.systemd.stub.kernel-cmdline-extra="+escapeCommas(m.StubWords))
	}
	argv = append(argv, m.Screen.args()...)
	argv = append(argv, m.diskArgs()...)
	if m.sharesMemory() {
		argv = append(argv, "-object", fmt.Sprintf("memory-backend-memfd,id=memory,share=on,size=%dM", m.Memory/unit.MiB))
		if m.Kind == MicroVM {
			// virtiofs needs virtio 1. Without this, QEMU's devices at MMIO are older.
			argv = append(argv, "-global", "virtio-mmio.force-legacy=false")
		}
	}
	for i, s := range m.Shares {
		id := fmt.Sprintf("share%d", i)
		if s.Socket != "" {
			argv = append(argv, "-chardev", "socket,id="+id+",path="+escapeCommas(s.Socket), "-device",
				"vhost-user-fs-"+m.virtioSuffix()+",chardev="+id+",tag="+escapeCommas(s.Tag))
			continue
		}
		fsdev := "local,id=" + id + ",security_model=none,path=" + escapeCommas(s.Path)
		if s.ReadOnly {
			fsdev += ",readonly=on"
		}
		argv = append(argv, "-fsdev", fsdev, "-device",
			"virtio-9p-"+m.virtioSuffix()+",fsdev="+id+",mount_tag="+escapeCommas(s.Tag))
	}
	if m.Tap != "" {
		argv = append(argv, "-netdev", "tap,id=net,script=no,downscript=no,ifname="+m.Tap,
			"-device", m.cardModel()+",netdev=net,mac="+m.MAC)
	}
	return argv
}

// socketPath is the path of a socket of the machine, for QEMU's option lists.
func (m *Machine) socketPath(name string) string { return escapeCommas(path.Join(m.Dir, name)) }

func (m *Machine) machineArg() string {
	arg := m.Kind
	if !m.Instructions {
		arg += ",accel=" + m.Accel
	}
	if m.Kind == MicroVM {
		// ACPI tells the kernel where its virtio devices are; clock and timer
		// are needed early in the boot.
		arg += ",acpi=on,pit=on,pic=on,rtc=on,isa-serial=on"
	}
	if m.sharesMemory() {
		arg += ",memory-backend=memory"
	}
	if m.NoACPI {
		arg = strings.Replace(arg, ",acpi=on", "", 1) + ",acpi=off"
	}
	return arg
}

// sharesMemory tells whether daemons read the memory of the machine.
func (m *Machine) sharesMemory() bool {
	return slices.ContainsFunc(m.Shares, func(s Share) bool { return s.Socket != "" })
}

// smpArg is QEMU's option with the CPUs.
func (m *Machine) smpArg() string {
	if !m.Sockets || m.CPUs < 2 {
		return strconv.Itoa(m.CPUs)
	}
	return fmt.Sprintf("%d,sockets=%d,cores=1,threads=1", m.CPUs, m.CPUs)
}

// virtioSuffix is the suffix of virtio device names: microvm has no PCI.
func (m *Machine) virtioSuffix() string {
	if m.Kind == MicroVM {
		return "device"
	}
	return "pci"
}

// CPUModel is QEMU's name for the processor of the guest.
func (m *Machine) CPUModel() string {
	switch {
	case m.Instructions:
		return instructionCPU
	case m.Accel == KVM:
		return "host"
	}
	return cmp.Or(m.Emulated, "max")
}

// KernelWords are those of every Linux kernel on the clock of the host. A panic restarts at
// once by a triple fault, which works in every state of the machine. The kernel's self-tests
// of cryptography are a fifth of an emulated boot.
const KernelWords = "console=ttyS0 panic=-1 reboot=t quiet loglevel=4 cryptomgr.notests"

// kernelArgs is the kernel's command line, the same for all guests with one description.
func (m *Machine) kernelArgs() string {
	words := []string{KernelWords}
	switch {
	case m.Bare:
		return m.Append
	case m.Instructions:
		words[0] = InstructionWords
	case m.Accel == TCG && m.TSCKHz > 0:
		// An emulated processor shows the host's time stamp counter. A microvm
		// cannot measure its frequency well, and most boots hang without
		// tsc_early_khz. Later the kernel would check the counter against a
		// timer that is late on a busy host, mark it unstable and fall back to
		// a clock of 4 ms. lpj skips another calibration; its value is used for
		// short delays only. A kernel on a busy host may see no interrupt of its timer
		// within ten ticks, and panics with "IO-APIC + timer doesn't work" if it checks.
		words = append(words, fmt.Sprintf("tsc_early_khz=%d", m.TSCKHz), "tsc=reliable", "lpj=4000000", "no_timer_check")
	}
	if m.Append != "" {
		words = append(words, m.Append)
	}
	if m.Instructions { // the program that reports the first userland instruction
		words = append(words, "rdinit="+initramfs.First)
	}
	return strings.Join(words, " ")
}

// escapeCommas formats a value for QEMU's option lists.
func escapeCommas(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// Modules are the kernel modules that a Linux kernel needs in such a machine.
func (m *Machine) Modules() []string {
	w := []string{"virtio_mmio", "virtio_console", "virtio_blk", "ext4"}
	if m.Kind == Q35 {
		w[0] = "virtio_pci"
	}
	if m.Tap != "" {
		w = append(w, "virtio_net")
	}
	for _, d := range m.Disks {
		w = lists.AddNew(w, drivers[d.Controller]...)
	}
	return w
}

// channelArgs is the part of the command line with the way to the agent.
func (m *Machine) channelArgs() []string {
	argv := []string{"-chardev", "socket,id=channel,path=" + m.socketPath(socketChannel) + ",server=on,wait=off"}
	if m.Channel == ChannelDial {
		return append(argv, "-netdev", "user,id=channel,restrict=on,guestfwd=tcp:"+DialAddress+"-chardev:channel",
			"-device", m.cardArg("channel"))
	}
	return append(argv, "-device", "virtio-serial-"+m.virtioSuffix(),
		"-device", "virtserialport,chardev=channel,nr=1,name="+PortName)
}

// furtherArgs is the part of the command line with the further consoles.
func (m *Machine) furtherArgs() (argv []string) {
	if m.Consoles == 0 {
		return nil
	}
	argv = []string{"-device", "virtio-serial-" + m.virtioSuffix() + ",id=consoles"}
	for n := 1; n <= m.Consoles; n++ {
		id := fmt.Sprintf("console%d", n)
		argv = append(argv, "-chardev", "socket,id="+id+",path="+m.socketPath(SocketFurther(n))+",server=on,wait=off",
			"-device", "virtconsole,bus=consoles.0,chardev="+id)
	}
	return argv
}

// CardMAC is the address of the network card of ChannelDial, and of one for forwarded
// ports: locally administered, and never one of the experiment's network.
const CardMAC = "02:b1:00:00:00:01"

// cardModel is the device of QEMU for the network card.
func (m *Machine) cardModel() string {
	if m.CardModel != "" && m.CardModel != VirtioNet {
		return m.CardModel
	}
	return VirtioNet + "-" + m.virtioSuffix()
}

// The network cards. Windows has drivers for the last two, and not for the first.
const (
	VirtioNet = "virtio-net"
	E1000     = "e1000"
	E1000E    = "e1000e"
)

// cardArg is a network card that boots nothing.
func (m *Machine) cardArg(netdev string) string {
	arg := m.cardModel() + ",netdev=" + netdev + ",mac=" + CardMAC
	if m.Kind == Q35 {
		arg += ",romfile="
	}
	return arg
}

// diskArgs is the part of the command line with the disks.
func (m *Machine) diskArgs() []string {
	argv := m.slotArgs()
	// A machine has at most one of these.
	for adapter, device := range map[string]string{VirtioSCSI: "virtio-scsi-" + m.virtioSuffix(), LSI: LSI,
		MegaSAS: MegaSAS, MPTSAS: MPTSAS} {
		if slices.ContainsFunc(m.Disks, func(d Disk) bool { return d.Controller == adapter }) {
			argv = append(argv, "-device", device+",id=scsi")
		}
	}
	port := 0 // of the AHCI controller that q35 has
	first := m.bootIndexes(cmp.Or(m.Once, m.Order))
	for i, d := range m.Disks {
		id := idOfDisk(i)
		if d.Folder != "" {
			id = "folder" + strconv.Itoa(i)
		}
		drive := "if=none,id=" + id + ",format=" + d.Format
		if d.Snapshot {
			drive += ",snapshot=on"
		} else {
			drive += ",cache=" + d.Cache + ",aio=" + d.AIO
		}
		device := ",drive=" + id + ",serial=" + d.Serial
		device += m.bootArg(deviceOfDisk(i), first)
		if d.LogicalBlock > 0 {
			device += fmt.Sprintf(",logical_block_size=%d", d.LogicalBlock)
		}
		if d.PhysicalBlock > 0 {
			device += fmt.Sprintf(",physical_block_size=%d", d.PhysicalBlock)
		}
		if d.CDROM {
			drive += ",media=cdrom,readonly=on"
		}
		if d.Folder != "" {
			argv = append(argv, "-drive", "if=none,id="+id+",format=raw,readonly=on,file.driver=vvfat,file.dir="+
				escapeCommas(d.Path)+",file.label="+d.Folder, "-device", "virtio-blk-"+m.virtioSuffix()+device)
			continue
		}
		if d.Slot > 0 {
			device += ",bus=" + slotName(d.Slot)
		}
		switch {
		case d.CDROM && d.Controller == VirtioSCSI:
			device = "scsi-cd,bus=scsi.0" + device
		case d.CDROM && d.Controller != VirtioCD:
			device = fmt.Sprintf("ide-cd,bus=ide.%d%s", port, device)
			port++
		case slices.Contains([]string{VirtioSCSI, LSI, MegaSAS, MPTSAS}, d.Controller):
			device = "scsi-hd,bus=scsi.0" + device
			if d.Controller == MPTSAS { // Linux attaches no SAS disk without a world wide name
				device += fmt.Sprintf(",wwn=%#x", sasName+i)
			}
		case d.Controller == NVMe:
			device = "nvme" + device
		case d.Controller == AHCI:
			device = fmt.Sprintf("ide-hd,bus=ide.%d%s", port, device)
			port++
		default:
			device = "virtio-blk-" + m.virtioSuffix() + device
		}
		argv = append(argv, "-drive", drive+",file="+escapeCommas(d.Path), "-device", device)
	}
	return argv
}
