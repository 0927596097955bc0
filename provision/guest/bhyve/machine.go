// Package bhyve runs machines with FreeBSD's bhyve, with or without an environment.
//
// Source: bhyve(8), bhyve_config(5), bhyvectl(8), bhyveload(8).
package bhyve

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// Program is the hypervisor.
const Program = "bhyve"

// SocketAgent is the socket in the folder of a machine that leads to its agent, and PortName the
// name of that port of the virtio console in the guest.
const (
	SocketAgent = "c"
	PortName    = "bakeoff"
)

// MaxPath is the longest path of a socket on FreeBSD, in bytes.
const MaxPath = 103

// MinMemory is the least memory of a guest.
const MinMemory = 128 * unit.MiB

// Firmware is the UEFI firmware of the package edk2-bhyve. FirmwareCode is the same firmware, which keeps
// its variables in a file of the machine, at first a copy of FirmwareVariables.
const (
	Firmware          = "/usr/local/share/uefi-firmware/BHYVE_UEFI.fd"
	FirmwareCode      = "/usr/local/share/uefi-firmware/BHYVE_UEFI_CODE.fd"
	FirmwareVariables = "/usr/local/share/uefi-firmware/BHYVE_UEFI_VARS.fd"
)

// The controllers of disks. A CD is in a drive of its own.
const (
	VirtioBlk = "virtio-blk"
	NVMe      = "nvme"
	AHCI      = "ahci-hd"
	CD        = "ahci-cd"
)

// The slots of the PCI bus, which has 32.
const (
	firstSlot  = 2 // after the bridges to the host and to ISA
	screenSlot = 30
	tabletSlot = 31
)

// MaxDevices is the number of devices that a machine has at most.
const MaxDevices = screenSlot - firstSlot

// Machine describes a machine.
type Machine struct {
	Name   string // bhyve's name for it
	CPUs   int
	Pins   []int      // CPUs of the host, one for each processor; nil pins none
	Memory unit.Bytes // whole MiB
	// Devices are those of the PCI bus in the order of their slots, as bhyve's option -s has them
	// after the slot. The guest finds disks in this order.
	Devices []string
	// Firmware is a file on the host; "" is a machine that bhyveload has loaded.
	Firmware string
	// Variables is a file on the host that the firmware writes its variables to; "" is none.
	Variables string
	// Second is the device of the host that is the second serial line; "" is none.
	Second string
	// Config is a file on the host with a Screen; "" is none.
	Config string
}

// Disk is a disk for Devices. Its path is plain: see PlainPath.
func Disk(controller, path string) string {
	if controller == CD {
		return CD + "," + path + ",ro"
	}
	return controller + "," + path
}

// Card is a network card at a tap device for Devices. The device may have any name, because the card
// says its type. model is virtio-net or e1000; mtu 0 is the usual one.
func Card(model, tap, mac string, mtu int) string {
	card := model + "," + tap + ",type=tap,mac=" + mac
	if mtu > 0 {
		card += ",mtu=" + strconv.Itoa(mtu)
	}
	return card
}

// Agent is the virtio console for Devices of which a port leads to the agent, for a machine whose
// folder is dir.
func Agent(dir string) string { return "virtio-console," + PortName + "=" + dir + "/" + SocketAgent }

// PlainPath tells whether bhyve reads p as one path: it divides at commas, and replaces variables.
func PlainPath(p string) bool { return strings.HasPrefix(p, "/") && !strings.ContainsAny(p, ",%") }

// CommandLine is the argument vector of bhyve. The serial line is its standard input and output.
func (m *Machine) CommandLine() []string {
	argv := []string{Program, "-H", "-A", "-P", "-u", "-c", strconv.Itoa(m.CPUs), "-m", m.memory()}
	for i, cpu := range m.Pins {
		argv = append(argv, "-p", fmt.Sprintf("%d:%d", i, cpu))
	}
	argv = append(argv, "-s", "0:0,hostbridge", "-s", "1:0,lpc")
	for i, d := range m.Devices {
		argv = append(argv, "-s", fmt.Sprintf("%d:0,%s", firstSlot+i, d))
	}
	argv = append(argv, "-l", "com1,stdio")
	if m.Second != "" {
		argv = append(argv, "-l", "com2,"+m.Second)
	}
	if m.Firmware != "" {
		rom := "bootrom," + m.Firmware
		if m.Variables != "" {
			rom += "," + m.Variables
		}
		argv = append(argv, "-l", rom)
	}
	if m.Config != "" {
		argv = append(argv, "-k", m.Config, "-s", fmt.Sprintf("%d:0,xhci,tablet", tabletSlot))
	}
	return append(argv, m.Name)
}

// LoadLine is the argument vector of bhyveload, which loads the kernel of the FreeBSD on a disk.
func (m *Machine) LoadLine(disk string) []string {
	return []string{"bhyveload", "-c", "stdio", "-m", m.memory(), "-d", disk, "-e", "autoboot_delay=0", m.Name}
}

func (m *Machine) memory() string { return fmt.Sprintf("%dM", m.Memory/unit.MiB) }

// Screen is a screen for VNC clients.
type Screen struct {
	At       netip.AddrPort
	Password string // at most 8 characters, none of them a control character; "" is none
}

// Config is the file of Machine.Config: arguments would show the password to every user.
func (s Screen) Config() string {
	text := fmt.Sprintf("pci.0.%[1]d.0.device=fbuf\npci.0.%[1]d.0.tcp=%[2]s\n", screenSlot, s.At)
	if s.Password != "" {
		text += fmt.Sprintf("pci.0.%d.0.password=%s\n", screenSlot, strings.ReplaceAll(s.Password, "%", "%%"))
	}
	return text
}

// The exit codes of bhyve.
const (
	Restarted = iota
	PoweredOff
	Halted
	TripleFault
	Failed
)

var ends = map[int]string{Restarted: "the guest restarted", PoweredOff: "the guest powered itself off",
	Halted: "the guest halted", TripleFault: "the guest's processor gave up (triple fault)", Failed: "bhyve failed"}

// Why says what an exit of bhyve means.
func Why(exit conn.Exit) string {
	if why := ends[exit.Code]; why != "" && exit.Signal == "" {
		return why
	}
	return "bhyve has ended"
}

// Check tells whether host can run machines.
func Check(ctx context.Context, host conn.Conn) driver.Availability {
	a := guest.System(ctx, host, "FreeBSD")
	if !a.OK {
		return a
	}
	_, loaded, err := guest.Ask(ctx, host, "sysctl", "-n", "hw.vmm.create")
	switch {
	case err != nil:
		return driver.Availability{Reason: err.Error()}
	case !loaded:
		return driver.Availability{Reason: "the kernel has no vmm", Fix: "kldload vmm"}
	}
	return a
}

// CheckModem refuses a host without null modems, which can be a second serial line.
func CheckModem(ctx context.Context, host conn.Conn) error {
	_, there, err := guest.Ask(ctx, host, "kldstat", "-q", "-m", "nmdm")
	if err == nil && !there {
		err = fault.WithFix(fault.New(fault.Unsupported, "the kernel has no nmdm driver, through which guests "+
			"read their metadata"),
			"kldload nmdm")
	}
	return err
}

// process matches the title of a machine's process, for pgrep and pkill.
func process(name string) string { return "bhyve: " + name + "( |$)" }

// Lives tells whether a bhyve runs the machine.
func Lives(ctx context.Context, host conn.Conn, name string) (bool, error) {
	pids, _, err := guest.Ask(ctx, host, "pgrep", "-f", process(name))
	return err == nil && pids != "", err
}

// PressPower presses the power button of the machine. Before the guest has ACPI, that ends bhyve.
func PressPower(ctx context.Context, host conn.Conn, name string) error {
	return guest.Run(ctx, host, "pkill", "-TERM", "-f", process(name))
}

// Interrupt sends the guest an interrupt that cannot be masked.
func Interrupt(ctx context.Context, host conn.Conn, name string) error {
	return guest.Run(ctx, host, "bhyvectl", "--vm="+name, "--inject-nmi")
}

// Destroy removes what bhyve leaves in the kernel: the machine with its memory. It ends a bhyve
// that runs the machine.
func Destroy(ctx context.Context, s *guest.Sweep, name string) {
	if _, there := s.Ask(ctx, "bhyvectl", "--vm="+name, "--get-lowmem"); there {
		s.Remove(ctx, "machine "+name, "bhyvectl", "--destroy", "--vm="+name)
	}
}

// CheckFiles refuses a host without the firmware that keeps its variables.
func CheckFiles(ctx context.Context, host conn.Conn) error {
	for _, file := range []string{FirmwareCode, FirmwareVariables} {
		_, there, err := guest.Ask(ctx, host, "test", "-e", file)
		if err == nil && !there {
			err = fault.WithFix(fault.New(fault.Unsupported, "the firmware %s is not installed", file),
				"pkg install edk2-bhyve")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
