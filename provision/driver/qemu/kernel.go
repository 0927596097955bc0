package qemu

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// The systems of kernels that have defaults of their own.
const (
	systemLinux  = "linux"
	systemNetBSD = "netbsd"
)

// kernelFile is what the file of a kernel says about itself.
type kernelFile struct {
	// System is the operating system in lower case; "" if the file does not say.
	System string
	// Version is the line with the system's name and release.
	Version string
	SHA256  string
	// loads says how QEMU loads it; "" if it does not.
	loads string
}

// How QEMU loads a kernel.
const (
	loadsBzImage   = "bzImage"
	loadsPVH       = "PVH"
	loadsMultiboot = "multiboot"
)

// The values of the option kernel-form.
const (
	formFile = "file"
	formELF  = "elf"
)

// fileELF is the unpacked kernel in the directory of a machine.
const fileELF = "vmlinux"

// unpack replaces the kernel of m by the ELF kernel in it.
func (in *Instance) unpack(ctx context.Context, m *machine) error {
	file := m.kernel
	m.kernel = path.Join(in.Spec.Dir, fileELF)
	return guest.UnpackKernel(ctx, in.Host, file, m.kernel)
}

// kernelHead is how much of a kernel is read to recognize it, in bytes. All headers
// are in its first 8 KiB.
const kernelHead = 64 << 10

// maxNotes bounds the notes of a kernel that are read, in bytes.
const maxNotes = 64 << 10

// versionPattern finds the version in a kernel that is not compressed, for grep -E.
const versionPattern = `(Linux version|NetBSD|FreeBSD|OpenBSD) [0-9]+[.][-0-9A-Za-z._~+]*`

// look reads what the kernel's file on host says. It changes nothing.
func look(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (kernelFile, error) {
	key, err := fileKey(ctx, host, file)
	if err != nil {
		return kernelFile{}, fault.Op(optKernel, err)
	}
	return driver.Remember(memo, "qemu: kernel "+key, func() (kernelFile, error) {
		head, err := part(ctx, host, file, 0, kernelHead)
		if err != nil {
			return kernelFile{}, err
		}
		k := kernelFile{loads: loads(head, func(off, size int64) ([]byte, error) { return part(ctx, host, file, off, size) })}
		if k.loads == loadsBzImage {
			k.System, k.Version = systemLinux, bzImageVersion(head)
		} else if err = k.named(ctx, host, file); err != nil {
			return k, err
		}
		k.SHA256, err = sha256Of(ctx, host, file)
		return k, err
	})
}

// named sets the system of a kernel from the first version in it.
func (k *kernelFile) named(ctx context.Context, host conn.Conn, file string) error {
	out, err := conn.Output(ctx, host, "sh", "-c",
		`LC_ALL=C grep -aoE -m 1 -e "$1" -- "$2" | head -n 1; :`, "sh", versionPattern, file)
	k.Version = safetext.Line(strings.TrimSpace(string(out)))
	first, _, _ := strings.Cut(k.Version, " ")
	k.System = strings.ToLower(first)
	return err
}

// fileKey identifies the content of a file on host without reading it.
func fileKey(ctx context.Context, host conn.Conn, file string) (string, error) {
	if _, there, err := guest.Ask(ctx, host, "test", "-r", file); err != nil || !there {
		return "", cmp.Or(err, fault.New(fault.NotFound, "%s does not exist on the host or is not readable", file))
	}
	out, err := conn.Output(ctx, host, "stat", "-L", "-c", "%n %s %Y %i", "--", file)
	return string(out), err
}

// sha256Of is the digest of a file on host.
func sha256Of(ctx context.Context, host conn.Conn, file string) (string, error) {
	out, err := conn.Output(ctx, host, "sh", "-c", `sha256sum <"$1"`, "sh", file)
	sum, _, _ := strings.Cut(string(out), " ")
	return sum, err
}

// part reads a part of a file on host.
func part(ctx context.Context, host conn.Conn, file string, offset, size int64) ([]byte, error) {
	return conn.Output(ctx, host, "sh", "-c", `tail -c +"$1" -- "$3" | head -c "$2"`, "sh", fmt.Sprint(offset+1),
		fmt.Sprint(size), file)
}

// loads says how QEMU loads the kernel that begins with head, in the order in which
// QEMU tries. read reads another part of the file.
//
// Source: hw/i386/x86.c (x86_load_linux) and hw/i386/multiboot.c of QEMU.
func loads(head []byte, read func(offset, size int64) ([]byte, error)) string {
	wide := len(head) > elf.EI_CLASS && string(head[:4]) == elf.ELFMAG && elf.Class(head[elf.EI_CLASS]) == elf.ELFCLASS64
	switch {
	case len(head) > 0x210 && string(head[0x202:0x206]) == "HdrS":
		return loadsBzImage
	case multiboot(head) && !wide:
		return loadsMultiboot
	case pvh(head, read):
		return loadsPVH
	}
	return ""
}

// bzImageVersion is the version that the header of a Linux bzImage points to.
func bzImageVersion(head []byte) string {
	at := int(binary.LittleEndian.Uint16(head[0x20e:])) + 0x200
	if at >= len(head) {
		return ""
	}
	text, _, _ := bytes.Cut(head[at:min(len(head), at+200)], []byte{0})
	return "Linux version " + safetext.Line(string(text))
}

// multiboot tells whether a file begins with a header of Multiboot 0.6.96: a magic
// number, flags, and a checksum that makes their sum 0.
func multiboot(head []byte) bool {
	le := binary.LittleEndian
	for at := 0; at+12 <= min(len(head), 8192); at += 4 {
		if le.Uint32(head[at:]) == 0x1BADB002 && le.Uint32(head[at:])+le.Uint32(head[at+4:])+le.Uint32(head[at+8:]) == 0 {
			return true
		}
	}
	return false
}

// pvh tells whether an ELF file has a note with a 32-bit entry point: owner Xen, type
// XEN_ELFNOTE_PHYS32_ENTRY.
func pvh(head []byte, read func(offset, size int64) ([]byte, error)) bool {
	programs, order := programHeaders(head)
	for _, p := range programs {
		if p.Type != elf.PT_NOTE || p.Filesz == 0 || p.Off > 1<<40 {
			continue
		}
		notes, err := read(int64(p.Off), int64(min(p.Filesz, maxNotes)))
		if err == nil && entryNote(notes, order) {
			return true
		}
	}
	return false
}

// programHeaders reads those that are in the head of an ELF file. debug/elf would
// also want the section headers, which are at the end.
func programHeaders(head []byte) ([]elf.ProgHeader, binary.ByteOrder) {
	var order binary.ByteOrder = binary.LittleEndian
	if len(head) < 64 || string(head[:4]) != elf.ELFMAG || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return nil, order
	}
	var out []elf.ProgHeader
	r := bytes.NewReader(head)
	switch elf.Class(head[elf.EI_CLASS]) {
	case elf.ELFCLASS64:
		var h elf.Header64
		if binary.Read(r, order, &h) != nil || h.Phoff > uint64(len(head)) {
			return nil, order
		}
		r.Seek(int64(h.Phoff), io.SeekStart)
		for range h.Phnum {
			var p elf.Prog64
			if binary.Read(r, order, &p) != nil {
				break
			}
			out = append(out, elf.ProgHeader{Type: elf.ProgType(p.Type), Off: p.Off, Filesz: p.Filesz})
		}
	case elf.ELFCLASS32:
		var h elf.Header32
		if binary.Read(r, order, &h) != nil || int64(h.Phoff) > int64(len(head)) {
			return nil, order
		}
		r.Seek(int64(h.Phoff), io.SeekStart)
		for range h.Phnum {
			var p elf.Prog32
			if binary.Read(r, order, &p) != nil {
				break
			}
			out = append(out, elf.ProgHeader{Type: elf.ProgType(p.Type), Off: uint64(p.Off), Filesz: uint64(p.Filesz)})
		}
	}
	return out, order
}

// entryNote tells whether notes have the 32-bit entry point. A note is three words
// (length of the owner, length of the value, type), the owner and the value, each
// padded to 4 bytes.
func entryNote(notes []byte, order binary.ByteOrder) bool {
	pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= 12 {
		owner, value, kind := order.Uint32(notes), order.Uint32(notes[4:]), order.Uint32(notes[8:])
		all := 12 + pad(owner) + pad(value)
		if all > uint64(len(notes)) {
			return false
		}
		if kind == 18 && value >= 4 && bytes.Equal(notes[12:12+owner], []byte("Xen\x00")) {
			return true
		}
		notes = notes[all:]
	}
	return false
}

// bootable refuses a kernel that QEMU does not load.
func (k kernelFile) bootable(file string) error {
	if k.loads != "" {
		return nil
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s: QEMU does not boot %s, which is neither a bzImage, nor an ELF "+
		"file with a PVH note, nor a multiboot kernel of 32 bits", optKernel, file),
		"name another kernel, or the disk of a system with its own boot loader: disk: FILE, machine: q35")
}

// facts says which kernel was booted.
func (k kernelFile) facts() map[string]string {
	if k.loads == "" {
		return nil
	}
	return map[string]string{"kernel.file": cmp.Or(k.Version, "unknown system"), "kernel.loaded": k.loads,
		"kernel.sha256": k.SHA256}
}
