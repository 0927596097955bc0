package kernel

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"bakeoff/base/fault"
)

// MMIOParameter is the parameter of the command line that names a virtio device. Linux
// reads it with CONFIG_VIRTIO_MMIO_CMDLINE_DEVICES, NetBSD in kernels of the kind
// MICROVM.
const MMIOParameter = "virtio_mmio.device"

// MMIODevice is a virtio device without PCI that the command line names.
//
// Source: Linux drivers/virtio/virtio_mmio.c: <size>@<base>:<irq>[:<id>].
type MMIODevice struct {
	Size uint64 // bytes of registers
	Base uint64 // the physical address
	IRQ  uint32
	// ID is the number of the device, or nil where the kernel counts.
	ID *uint32
}

// The registers of QEMU's machine microvm without ACPI: 8 devices with 512 bytes each,
// from the address 0xfeb00000 and the interrupt 5 on.
//
// Source: QEMU include/hw/i386/microvm.h and hw/i386/microvm.c; compared with the command
// line that a kernel printed under QEMU 7.2.
const (
	microvmBase  = 0xfeb00000
	microvmSize  = 512
	microvmIRQ   = 5
	microvmCount = 8
)

// MicroVMDevice returns transport n of QEMU's machine microvm without ACPI, counted from
// 0. QEMU itself adds these parameters if ACPI is off, but only to the command line of a
// kernel that it loads; a boot loader on a disk needs them written out. QEMU gives the
// first device of its command line to the last transport.
func MicroVMDevice(n int) (MMIODevice, error) {
	if n < 0 || n >= microvmCount {
		return MMIODevice{}, fault.New(fault.Invalid, "a microvm without ACPI has virtio transports 0 to %d (got %d)",
			microvmCount-1, n)
	}
	return MMIODevice{Size: microvmSize, Base: microvmBase + uint64(n)*microvmSize, IRQ: microvmIRQ + uint32(n)}, nil
}

// String writes the device as ParseMMIODevice reads it, with the largest unit that
// divides the size: 4K@0xfeb00000:5.
func (d MMIODevice) String() string {
	size, unit := d.Size, ""
	for _, u := range []string{"K", "M", "G"} {
		if size == 0 || size%1024 != 0 {
			break
		}
		size, unit = size/1024, u
	}
	s := fmt.Sprintf("%d%s@%#x:%d", size, unit, d.Base, d.IRQ)
	if d.ID != nil {
		s += fmt.Sprintf(":%d", *d.ID)
	}
	return s
}

// Parameter is the word of the command line.
func (d MMIODevice) Parameter() string { return MMIOParameter + "=" + d.String() }

// ParseMMIODevice reads a device, strictly: kernels ignore what they do not understand,
// and the guest then lacks a disk without a word. Numbers are decimal, or hexadecimal
// with 0x; the size may have the suffix K, M or G. Errors are of kind fault.Invalid.
func ParseMMIODevice(s string) (MMIODevice, error) {
	bad := func(format string, args ...any) (MMIODevice, error) {
		return MMIODevice{}, fault.WithFix(fault.New(fault.Invalid, "virtio-mmio device %q: "+format,
			append([]any{s}, args...)...),
			"write SIZE@BASE:IRQ or SIZE@BASE:IRQ:ID, such as 512@0xfeb00000:5")
	}
	var d MMIODevice
	size, rest, ok := strings.Cut(s, "@")
	if !ok {
		return bad("it has no @")
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return bad("BASE:IRQ or BASE:IRQ:ID must follow the @")
	}
	var err error
	if d.Size, err = mmioSize(size); err != nil {
		return bad("the size must be a number above 0, with K, M, G or no unit (got %q)", size)
	}
	if d.Base, err = number(parts[0], 64); err != nil {
		return bad("the base must be an address of 64 bits (got %q)", parts[0])
	}
	if d.Base > ^uint64(0)-(d.Size-1) {
		return bad("the registers end beyond the last address")
	}
	irq, err := number(parts[1], 32)
	if err != nil {
		return bad("the interrupt must be a number of 32 bits (got %q)", parts[1])
	}
	d.IRQ = uint32(irq)
	if len(parts) == 3 {
		id, err := number(parts[2], 31)
		if err != nil {
			return bad("the number of the device must be from 0 to %d (got %q)", 1<<31-1, parts[2])
		}
		n := uint32(id)
		d.ID = &n
	}
	return d, nil
}

// MMIODevices returns the devices that a command line names. It refuses two devices of
// which the registers overlap.
func MMIODevices(commandLine string) ([]MMIODevice, error) {
	var all []MMIODevice
	for word := range strings.FieldsSeq(commandLine) {
		if word == "--" {
			break // the rest is for the init process
		}
		text, ok := strings.CutPrefix(word, MMIOParameter+"=")
		if !ok {
			continue
		}
		d, err := ParseMMIODevice(text)
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if d.Base <= other.Base+(other.Size-1) && other.Base <= d.Base+(d.Size-1) {
				return nil, fault.WithFix(fault.New(fault.Invalid, "the registers of the virtio-mmio devices %s and %s overlap",
					other, d), "give each device an address of its own")
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// mmioSize reads a size with an optional unit.
func mmioSize(s string) (uint64, error) {
	shift := 0
	if s != "" {
		if n := strings.IndexByte("KMG", s[len(s)-1]&^0x20); n >= 0 {
			shift, s = 10*(n+1), s[:len(s)-1]
		}
	}
	n, err := number(s, 64)
	if err != nil || n == 0 || bits.LeadingZeros64(n) < shift {
		return 0, strconv.ErrRange
	}
	return n << shift, nil
}

// number reads digits, decimal or hexadecimal with 0x. A leading zero is refused,
// because kernels read an octal number there.
func number(s string, size int) (uint64, error) {
	base := 10
	if t, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = t, 16
	} else if len(s) > 1 && s[0] == '0' {
		return 0, strconv.ErrSyntax
	}
	if strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-") || strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, base, size)
}
