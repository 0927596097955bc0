package qemu

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/image/partition"
	"bakeoff/provision/kernel"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// KernelFile is what the file of a kernel says about itself.
type KernelFile struct {
	// System is the operating system in lower case; "" if the file does not say.
	System string
	// Version is the line with the system's name and release.
	Version string
	SHA256  string
	// Kind is the name of a BSD kernel's configuration, such as MICROVM; "" if the file does
	// not say. DeviceWords tells that the kernel reads virtio_mmio.device= from its command
	// line.
	Kind        string
	DeviceWords bool
	// Loads is LoadsBzImage, LoadsPVH or LoadsMultiboot; "" if QEMU does not load it.
	Loads string
	// Compression is how the whole file is compressed; "" if it is not.
	Compression string
}

// How QEMU loads a kernel.
const (
	LoadsBzImage   = "bzImage"
	LoadsPVH       = "PVH"
	LoadsMultiboot = "multiboot"
)

// kernelHead is how much of a kernel is read to recognize it, in bytes. All headers
// are in its first 8 KiB.
const kernelHead = 64 << 10

// maxHeaders bounds what is read of a kernel after that, in bytes.
const maxHeaders = 4 << 20

// deviceWords is the word on a command line that names a virtio device of a machine without
// ACPI.
const deviceWords = "virtio_mmio.device"

// versionPattern finds the version in a kernel that is not compressed, for grep -E.
const versionPattern = `(Linux version|NetBSD|FreeBSD|OpenBSD) [0-9]+[.][-0-9A-Za-z._~+]*`

// ReadKernelFile reads what the kernel's file on host says. It changes nothing.
func ReadKernelFile(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (KernelFile, error) {
	return readOnce(ctx, host, memo, "kernel", file, func() (KernelFile, error) {
		head, err := readPart(ctx, host, file, 0, kernelHead)
		if err != nil {
			return KernelFile{}, err
		}
		k := KernelFile{Compression: kernel.Compression(head), Loads: loadedAs(head, &distant{head: head, left: maxHeaders,
			more: func(off, size int64) ([]byte, error) { return readPart(ctx, host, file, off, size) }})}
		if k.Loads == LoadsBzImage {
			k.System, k.Version = "linux", bzImageVersion(head)
		} else if err = k.findVersion(ctx, host, file); err != nil {
			return k, err
		}
		k.SHA256, err = sha256Of(ctx, host, file)
		return k, err
	})
}

// kindPattern finds the configuration after the version of a BSD kernel.
const kindPattern = `( \([A-Za-z0-9_.-]+\))?`

// findVersion sets the system of a kernel from the first version in it, and what the rest of
// its file says.
func (k *KernelFile) findVersion(ctx context.Context, host conn.Conn, file string) error {
	out, err := conn.Output(ctx, host, "sh", "-c", `export LC_ALL=C; grep -aoE -m 1 -e "$1" -- "$2" | head -n 1
grep -aq -e "$3" -- "$2" && echo "$3"; :`, "sh", versionPattern+kindPattern, file, deviceWords)
	version, rest, _ := strings.Cut(string(out), "\n")
	k.DeviceWords = strings.TrimSpace(rest) == deviceWords
	version, kind, _ := strings.Cut(safetext.Line(strings.TrimSpace(version)), " (")
	k.Version, k.Kind = version, strings.TrimSuffix(kind, ")")
	first, _, _ := strings.Cut(k.Version, " ")
	k.System = strings.ToLower(first)
	return err
}

// readOnce returns what read returns for a file on host, from memo if it was read before and
// has not changed since. what is a name for it.
func readOnce[T any](ctx context.Context, host conn.Conn, memo *driver.Memo, what, file string,
	read func() (T, error)) (T, error) {
	key, err := fileKey(ctx, host, file)
	if err != nil {
		var none T
		return none, err
	}
	return driver.Remember(memo, "qemu: "+what+" "+key, read)
}

// FileSHA256 is the digest of a file on host.
func FileSHA256(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (string, error) {
	return readOnce(ctx, host, memo, "sha256", file, func() (string, error) { return sha256Of(ctx, host, file) })
}

// DiskFormat is raw or qcow2. It refuses a qcow2 file that needs other files of the host.
func DiskFormat(ctx context.Context, host conn.Conn, memo *driver.Memo, file string) (string, error) {
	return readOnce(ctx, host, memo, "format", file, func() (string, error) {
		head, err := readPart(ctx, host, file, 0, 512)
		if err != nil {
			return "", err
		}
		packed, err := partition.QCOW2(head)
		return map[bool]string{false: "raw", true: "qcow2"}[packed], fault.Op(file, err)
	})
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

// readPart reads a part of a file on host.
func readPart(ctx context.Context, host conn.Conn, file string, offset, size int64) ([]byte, error) {
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

// loadedAs says how QEMU loads the kernel that begins with head, in the order in which
// QEMU tries. r reads all of the file.
//
// Source: hw/i386/x86.c (x86_load_linux) and hw/i386/multiboot.c of QEMU.
func loadedAs(head []byte, r io.ReaderAt) string {
	ways, bits := kernel.Ways(head, r)
	switch {
	case len(head) > 0x210 && string(head[0x202:0x206]) == "HdrS":
		return LoadsBzImage
	case slices.Contains(ways, kernel.BootMultiboot) && bits != 64:
		return LoadsMultiboot
	case slices.Contains(ways, kernel.BootPVH):
		return LoadsPVH
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

// CheckLoads refuses a kernel that QEMU does not load.
func (k KernelFile) CheckLoads(file string) error {
	if k.Loads != "" {
		return nil
	}
	if k.Compression != "" {
		return fault.WithFix(fault.New(fault.Invalid, "QEMU does not boot %s, which is compressed as a whole (%s)", file,
			k.Compression), "unpack it, for example with gunzip or zcat, and name the unpacked file")
	}
	return fault.WithFix(fault.New(fault.Invalid, "QEMU does not boot %s, which is neither a bzImage, nor an ELF "+
		"file with a PVH note, nor a multiboot kernel of 32 bits", file),
		"name another kernel, or the disk of a system with its own boot loader: disk: FILE, machine: q35")
}

// Facts says which kernel was booted.
func (k KernelFile) Facts() map[string]string {
	if k.Loads == "" {
		return nil
	}
	return map[string]string{"kernel.file": cmp.Or(k.Version, "unknown system"), "kernel.loaded": k.Loads,
		"kernel.sha256": k.SHA256}
}
