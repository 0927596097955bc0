package qemu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/kernel"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
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

// maxHeaders bounds what is read of a kernel after that, in bytes.
const maxHeaders = 4 << 20

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
		k := kernelFile{loads: loads(head, &distant{head: head, left: maxHeaders,
			more: func(off, size int64) ([]byte, error) { return part(ctx, host, file, off, size) }})}
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

// fileKey identifies the content of a file on host without reading it. On this machine it
// starts no program.
func fileKey(ctx context.Context, host conn.Conn, file string) (string, error) {
	if _, ok := host.(local.Conn); ok {
		if info, err := os.Stat(file); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				return fmt.Sprintf("%s %d %d %d", file, info.Size(), info.ModTime().UnixNano(), st.Ino), nil
			}
		}
	}
	out, there, err := guest.Ask(ctx, host, "stat", "-L", "-c", "%n %s %Y %i", "--", file)
	if err != nil || !there {
		return "", cmp.Or(err, fault.New(fault.NotFound, "%s does not exist on the host or is not readable", file))
	}
	return out, nil
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

// distant reads the file of a kernel on another host.
type distant struct {
	head []byte
	more func(offset, size int64) ([]byte, error)
	left int64 // bytes that may still be read after the head
}

// ReadAt implements io.ReaderAt.
func (d *distant) ReadAt(p []byte, off int64) (int, error) {
	if off >= 0 && off <= int64(len(d.head)) && int64(len(p)) <= int64(len(d.head))-off {
		return copy(p, d.head[off:]), nil
	}
	if d.left -= int64(len(p)); off < 0 || d.left < 0 {
		return 0, fault.New(fault.Invalid, "the headers have more than %d bytes", maxHeaders)
	}
	b, err := d.more(off, int64(len(p)))
	n := copy(p, b)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// loads says how QEMU loads the kernel that begins with head, in the order in which
// QEMU tries. r reads all of the file.
//
// Source: hw/i386/x86.c (x86_load_linux) and hw/i386/multiboot.c of QEMU.
func loads(head []byte, r io.ReaderAt) string {
	ways, bits := kernel.Ways(head, r)
	switch {
	case len(head) > 0x210 && string(head[0x202:0x206]) == "HdrS":
		return loadsBzImage
	case slices.Contains(ways, kernel.BootMultiboot) && bits != 64:
		return loadsMultiboot
	case slices.Contains(ways, kernel.BootPVH):
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
