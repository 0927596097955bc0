package volume

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/disk"
	"bakeoff/reach/conn"
)

// fileSystem describes how a backing file:KIND is created and mounted.
type fileSystem struct {
	mkfs    []string // what creates it, before the path of the file; nil for mke2fs
	options string   // mount options
	least   unit.Bytes
	program string // that the host needs
	pkg     string // which has that program on Debian
}

// fileSystems are the file systems that a kernel mounts from a file or a block device.
//
// ext3 is written by mke2fs and mounted by the kernel's ext4, as in every kernel since 4.3.
// XFS has been at least 300 MiB since xfsprogs 5.19. Data and metadata of btrfs are stored
// once, so that the used space is the needed space. Nothing is discarded: the blocks of the
// file are reserved.
//
// Source: mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8), btrfs(5); Linux c290ea01abb7 (ext3 removed).
var fileSystems = map[string]fileSystem{
	Ext3: {options: "noatime", program: "mke2fs", pkg: "e2fsprogs"},
	Ext4: {options: "noatime", program: "mke2fs", pkg: "e2fsprogs"},
	XFS: {mkfs: []string{"mkfs.xfs", "-q", "-f", "-K"}, options: "noatime", least: 300 * unit.MiB, program: "mkfs.xfs",
		pkg: "xfsprogs"},
	Btrfs: {
		mkfs:    []string{"mkfs.btrfs", "-q", "-f", "-K", "-d", "single", "-m", "single"},
		options: "noatime,nodiscard",
		program: "mkfs.btrfs",
		pkg:     "btrfs-progs",
	},
}

// InFile lists the backings whose file a virtual machine can have as a disk.
func InFile() []string { return []string{Btrfs, Ext3, Ext4, XFS} }

// IsInFile reports whether File creates this backing.
func IsInFile(backing string) bool { return slices.Contains(InFile(), backing) }

// File creates a file below dir with a file system of v's backing and size and
// returns its path. All blocks are allocated and all tables written in advance,
// so that neither the host nor the file system does that work during a trial.
func File(ctx context.Context, host conn.Conn, dir string, v Volume) (string, error) {
	fs, kind := fileSystems[v.Backing], strings.TrimPrefix(v.Backing, "file:")
	at := path.Join(dir, "volume-"+hex(v.Path)+"."+kind)
	if err := reserve(ctx, host, at, v, dir); err != nil {
		return "", err
	}
	if fs.mkfs == nil {
		return at, disk.Ext4{Type: kind, Options: []string{"-m", "0"},
			Extended: []string{"lazy_itable_init=0", "lazy_journal_init=0", "nodiscard"}}.Make(ctx, host, at)
	}
	err := run(ctx, host, append(slices.Clone(fs.mkfs), at)...)
	if fault.Is(err, fault.NotFound) {
		err = &fault.Error{Kind: fault.Unsupported, Err: err, Fix: "apt-get install " + fs.pkg}
	}
	return at, fault.Wrap(fault.Unsupported, fs.program, err)
}

// MountType returns the type and the options with which a kernel mounts the file or the
// device of v. A device, and a disk of a guest on ZFS, has ext4.
//
// The property compression of btrfs is the mount option compress (zlib:1…9, lzo,
// zstd:1…15, off). With force it is compress-force, which also compresses files
// whose beginning does not compress. The kernel compresses in its own workers:
// they run on any CPU and are not charged to an environment.
func MountType(v Volume) (kind, options string) {
	if v.Backing == NFS {
		return "nfs4", "noatime"
	}
	kind, found := strings.CutPrefix(v.Backing, "file:")
	if !found || v.Backing == ZFS {
		return "ext4", fileSystems[Ext4].options
	}
	options = fileSystems[v.Backing].options
	if c := v.Properties["compression"]; c != "" && c != "off" {
		name := "compress"
		if v.Properties["force"] == "true" {
			name = "compress-force"
		}
		options += "," + name + "=" + c
	}
	return kind, options
}

// mountInFile creates a file system in a file and mounts it at at; see mountFile.
func mountInFile(ctx context.Context, host conn.Conn, dir, at string, v Volume) (string, error) {
	image, err := File(ctx, host, dir, v)
	if err != nil {
		return "", err
	}
	kind, options := MountType(v)
	cached, err := mountFile(ctx, host, kind, options, image, at)
	if err != nil && !fault.Is(err, fault.Unsupported) {
		fix := "use another backing, or a kernel with " + kind
		if c := v.Properties["compression"]; c != "" {
			fix = fmt.Sprintf("the kernel needs %s, and compression=%s must be one of its own: zlib:1…9, lzo, zstd:1…15",
				kind, c)
		}
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "mount", err), fix)
	}
	return cached, err
}

// lacksKernel checks that the kernel of the host mounts a file system, without a change: it
// is in the kernel, or modprobe finds its module.
func lacksKernel(ctx context.Context, host conn.Conn, kind string) error {
	text, err := conn.FilesOf(host).ReadFile(ctx, "/proc/filesystems")
	if err != nil || slices.Contains(strings.Fields(string(text)), kind) ||
		run(ctx, host, "modprobe", "-n", "-q", "fs-"+kind) == nil || ctx.Err() != nil {
		return nil // or the mount reports it
	}
	return fault.WithFix(fault.New(fault.Unsupported, "the kernel of the host has no %s (/proc/filesystems, modprobe)",
		kind), "use another backing, or a kernel with "+kind)
}

// reserve creates a file of v's size with all blocks allocated.
func reserve(ctx context.Context, host conn.Conn, at string, v Volume, dir string) error {
	if err := run(ctx, host, "fallocate", "-l", strconv.FormatInt(int64(v.Size), 10), at); err != nil {
		return &fault.Error{Kind: fault.Unsupported, Err: err,
			Fix: fmt.Sprintf("make room for %v below %s, or declare a smaller volume", v.Size, dir)}
	}
	return nil
}
