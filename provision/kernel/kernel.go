// Package kernel reads the kernels of guests: what a file is, how it can be booted, and
// what it lacks for a machine. It only reads bytes, and these may come from a stranger.
package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"bakeoff/base/fault"
)

// The bounds of what bakeoff reads, in bytes.
const (
	// MaxImage bounds a kernel as it is in a file.
	MaxImage = 256 << 20
	// maxUnpacked bounds an unpacked kernel, and maxDictionary what a format may ask
	// for to remember.
	maxUnpacked   = 256 << 20
	maxDictionary = 128 << 20
)

// The formats of kernels.
const (
	BzImage   = "bzImage"
	ELF       = "ELF"
	ARM64     = "arm64 Image"
	RISCV     = "RISC-V Image"
	EFI       = "EFI application"
	Multiboot = "multiboot"
)

// The systems of kernels.
const (
	Linux   = "linux"
	NetBSD  = "netbsd"
	FreeBSD = "freebsd"
	OpenBSD = "openbsd"
)

// The ways in which a hypervisor can start a kernel.
const (
	BootLinux      = "linux"      // the Linux boot protocol of x86, or of arm64 and RISC-V
	BootPVH        = "pvh"        // an ELF file with a note that names the entry
	BootMultiboot  = "multiboot"  // version 1
	BootMultiboot2 = "multiboot2" // which QEMU cannot start by itself
	BootEFI        = "efi"        // by firmware, as an EFI application
)

// Info is what is known of a kernel.
type Info struct {
	Format string `json:"format"`
	// Compression is how the whole file is compressed, if it is: netbsd.gz.
	Compression string `json:"compression,omitempty"`
	// System is one of the systems above, or empty if it is not known.
	System string `json:"system,omitempty"`
	// Arch is the architecture as GOARCH names it, or as ELF does.
	Arch    string `json:"arch,omitempty"`
	Version string `json:"version,omitempty"`
	// Banner is the line with which the kernel introduces itself.
	Banner string `json:"banner,omitempty"`
	// Boots lists the ways in which the kernel can be started.
	Boots []string `json:"boots"`
	// BootProtocol is the version of the Linux boot protocol, and CommandLineBytes
	// the longest command line; 0 if it is not known.
	BootProtocol     string `json:"boot_protocol,omitempty"`
	CommandLineBytes int64  `json:"command_line_bytes,omitempty"`
	// Packed is the compressed kernel in a bzImage.
	Packed *Packed `json:"packed,omitempty"`
	// ELF is the kernel itself, in a bzImage or without one.
	ELF *ELFInfo `json:"elf,omitempty"`
	// Features lists what a Linux kernel can do, as far as it is known.
	Features []Feature `json:"features,omitempty"`

	config []byte // IKCONFIG
	params bool   // the kernel reads virtio_mmio.device from its command line
}

// Packed describes the compressed kernel in a bzImage.
type Packed struct {
	Compression   string `json:"compression"`
	Bytes         int64  `json:"bytes"`
	UnpackedBytes int64  `json:"unpacked_bytes,omitempty"`
	// Error says why it cannot be unpacked.
	Error string `json:"error,omitempty"`
}

// Inspect reads a kernel. It returns an error of kind fault.Invalid for a file that is
// no kernel. A bzImage whose payload cannot be unpacked is not an error: Packed says why.
func Inspect(image []byte) (Info, error) {
	i := Info{Boots: []string{}}
	if len(image) > MaxImage {
		return i, fault.New(fault.Invalid, "the file has %d bytes; a kernel has at most %d", len(image), MaxImage)
	}
	if c := Compression(image); c != "" {
		inner, err := decompress(c, image)
		if err != nil {
			return i, fault.New(fault.Invalid, "the file is compressed with %s and cannot be unpacked: %w", c, err)
		}
		i.Compression, image = c, inner
	}
	i.boots(image)
	switch {
	case isBzImage(image):
		i.Format = BzImage
		i.bzImage(image)
	case bytes.HasPrefix(image, []byte(elf.ELFMAG)):
		i.Format = ELF
		if err := i.readELF(image); err != nil {
			return i, fault.Wrap(fault.Invalid, "ELF file", err)
		}
	case at(image, 0x38, "ARM\x64"):
		i.Format, i.Arch = ARM64, "arm64"
		i.identify(image)
	case at(image, 0x38, "RSC\x05"):
		i.Format, i.Arch = RISCV, "riscv64"
		i.identify(image)
	case peMachine(image) != 0:
		i.Format, i.Arch = EFI, archOfPE(peMachine(image))
		i.identify(image)
	case multiboot(image) || multiboot2(image):
		i.Format = Multiboot
		i.identify(image)
	default:
		return i, fault.WithFix(fault.New(fault.Invalid,
			"bakeoff does not recognize the file as a kernel: it begins with % x",
			image[:min(len(image), 8)]), "name a bzImage, an ELF kernel, or an Image of arm64 or RISC-V")
	}
	return i, nil
}

// Unpack returns the ELF kernel in image: image itself if it is one, or what a bzImage
// or a compressed file contains. Errors are of kind fault.Invalid.
func Unpack(image []byte) ([]byte, error) {
	if len(image) > MaxImage {
		return nil, fault.New(fault.Invalid, "the file has %d bytes; a kernel has at most %d", len(image), MaxImage)
	}
	if c := Compression(image); c != "" {
		inner, err := decompress(c, image)
		if err != nil {
			return nil, fault.New(fault.Invalid, "unpack the file with %s: %w", c, err)
		}
		image = inner
	}
	if bytes.HasPrefix(image, []byte(elf.ELFMAG)) {
		return image, nil
	}
	if !isBzImage(image) {
		return nil, fault.New(fault.Invalid, "not a bzImage or an ELF kernel")
	}
	packed, err := payload(image)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", err)
	}
	_, out, err := unpackPayload(packed)
	return out, fault.Wrap(fault.Invalid, "", err)
}

// boots finds the marks that files of every format can have.
func (i *Info) boots(image []byte) {
	if isBzImage(image) || at(image, 0x38, "ARM\x64") || at(image, 0x38, "RSC\x05") {
		i.Boots = append(i.Boots, BootLinux)
	}
	if multiboot(image) {
		i.Boots = append(i.Boots, BootMultiboot)
	}
	if multiboot2(image) {
		i.Boots = append(i.Boots, BootMultiboot2)
	}
	if peMachine(image) != 0 {
		i.Boots = append(i.Boots, BootEFI)
	}
}

// at reports whether b has mark at offset.
func at(b []byte, offset int, mark string) bool {
	return len(b) >= offset+len(mark) && string(b[offset:offset+len(mark)]) == mark
}

// multiboot reports whether a header of Multiboot 1 lies in the first 8,192 bytes, at a
// multiple of 4: magic, flags, and a sum that makes zero of them.
//
// Source: Multiboot Specification version 0.6.96, chapter 3.1.
func multiboot(b []byte) bool {
	le := binary.LittleEndian
	for o := 0; o+12 <= min(len(b), 8192); o += 4 {
		if m := le.Uint32(b[o:]); m == 0x1badb002 && m+le.Uint32(b[o+4:])+le.Uint32(b[o+8:]) == 0 {
			return true
		}
	}
	return false
}

// multiboot2 is the same for Multiboot 2: the first 32,768 bytes, multiples of 8, and
// four words.
//
// Source: Multiboot2 Specification version 2.0, chapter 3.1.
func multiboot2(b []byte) bool {
	le := binary.LittleEndian
	for o := 0; o+16 <= min(len(b), 32768); o += 8 {
		if m := le.Uint32(b[o:]); m == 0xe85250d6 &&
			m+le.Uint32(b[o+4:])+le.Uint32(b[o+8:])+le.Uint32(b[o+12:]) == 0 {
			return true
		}
	}
	return false
}

// peMachine returns the machine of an EFI application; 0 if b is none.
//
// Source: PE Format (Microsoft): the offset of the header is at 0x3c.
func peMachine(b []byte) uint16 {
	if !at(b, 0, "MZ") || len(b) < 0x40 {
		return 0
	}
	o := int64(binary.LittleEndian.Uint32(b[0x3c:]))
	if o+6 > int64(len(b)) || string(b[o:o+4]) != "PE\x00\x00" {
		return 0
	}
	return binary.LittleEndian.Uint16(b[o+4:])
}

func archOfPE(machine uint16) string {
	if name, ok := map[uint16]string{0x14c: "386", 0x8664: "amd64", 0xaa64: "arm64", 0x5064: "riscv64"}[machine]; ok {
		return name
	}
	return fmt.Sprintf("PE machine %#x", machine)
}

// Recognized reports whether the beginning of a file, 64 KiB of it, is that of a kernel
// that is not compressed as a whole. A kernel for Multiboot alone has no mark at its
// beginning: for it, every other meaning of the bytes must be excluded first.
func Recognized(head []byte) bool {
	return isBzImage(head) || at(head, 0, elf.ELFMAG) || at(head, 0x38, "ARM\x64") || at(head, 0x38, "RSC\x05") ||
		peMachine(head) != 0
}

// Decompress unpacks a file that is compressed as a whole, and names how; data that is
// not compressed is returned as it is. Errors are of kind fault.Invalid.
func Decompress(data []byte) (how string, out []byte, err error) {
	if how = Compression(data); how == "" {
		return "", data, nil
	}
	if out, err = decompress(how, data); err != nil {
		err = fault.New(fault.Invalid, "the file is compressed with %s and cannot be unpacked: %w", how, err)
	}
	return how, out, err
}
