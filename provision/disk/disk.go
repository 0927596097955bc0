// Package disk makes file systems in files and converts images of disks, with the
// programs of a Linux host. It mounts nothing. Package image/partition reads such files.
package disk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Ext4 describes a file system for mke2fs.
type Ext4 struct {
	Type     string   // such as ext3; "" is ext4
	Folder   string   // its content, whose root becomes that of user 0; "" for none
	Size     int64    // bytes, a multiple of a KiB; 0 is the size of the file
	Options  []string // of mke2fs
	Extended []string // those of -E
	Env      []string
}

// Make writes the file system into a file. Without mke2fs on the host, the error is of
// kind fault.Unsupported. If mke2fs fails, it wraps a *conn.ExitError.
//
// Source: mke2fs(8).
func (e Ext4) Make(ctx context.Context, host conn.Conn, file string) error {
	argv, extended := append([]string{"mke2fs", "-q", "-F", "-t", cmp.Or(e.Type, "ext4")}, e.Options...), e.Extended
	if e.Folder != "" {
		argv, extended = append(argv, "-d", e.Folder), append(extended, "root_owner=0:0")
	}
	argv = append(argv, "-E", strings.Join(extended, ","), file)
	if e.Size > 0 {
		argv = append(argv, fmt.Sprintf("%dk", e.Size>>10))
	}
	return run(ctx, host, "e2fsprogs", e.Env, argv...)
}

// ToRaw writes the disk in a qcow2 file to a new raw file. Both paths are absolute.
func ToRaw(ctx context.Context, host conn.Conn, qcow2, raw string) error {
	// A path with a colon would name a protocol.
	return convert(ctx, host, "-f", "qcow2", "-O", "raw", "file:"+qcow2, raw)
}

// ToQCOW2 writes a raw disk to a new qcow2 file with all clusters allocated: otherwise
// the first write of each would do work that a raw file has done already.
func ToQCOW2(ctx context.Context, host conn.Conn, raw, qcow2 string) error {
	return convert(ctx, host, "-f", "raw", "-O", "qcow2", "-S", "0", raw, qcow2)
}

// Import copies a disk in a raw or qcow2 file, which must refer to no other file, to a new qcow2
// file, without its empty parts.
func Import(ctx context.Context, host conn.Conn, file, format, qcow2 string) error {
	return convert(ctx, host, "-f", format, "-O", "qcow2", file, qcow2)
}

// Overlay makes a qcow2 file that has only the changes to another disk, which stays as it
// is. Both paths are absolute. format is that of the other disk: raw or qcow2.
func Overlay(ctx context.Context, host conn.Conn, base, format, file string) error {
	return run(ctx, host, "qemu-utils", nil, "qemu-img", "create", "-q", "-f", "qcow2", "-F", format, "-b", base, file)
}

// Copy makes a raw file of a disk that is raw or qcow2, as format says, which stays as it is. The
// copy of a raw file shares its blocks where the file system can. Both paths are absolute.
func Copy(ctx context.Context, host conn.Conn, from, format, raw string) error {
	if format == "raw" {
		sparse := "always"
		at, err := conn.Output(ctx, host, "stat", "-f", "-c", "%T", path.Dir(raw))
		if err == nil && strings.TrimSpace(string(at)) == "zfs" {
			sparse = "auto" // otherwise the copy from another dataset has blocks of its own
		}
		return run(ctx, host, "coreutils", nil, "cp", "--reflink=auto", "--sparse="+sparse, from, raw)
	}
	return ToRaw(ctx, host, from, raw)
}

// Empty makes a new file, raw or qcow2, for a disk of this size in bytes. The path is absolute.
func Empty(ctx context.Context, host conn.Conn, file, format string, size int64) error {
	return run(ctx, host, "qemu-utils", nil, "qemu-img", "create", "-q", "-f", format, file, fmt.Sprint(size))
}

// EmptyBlocks is Empty for a qcow2 file that stores data in blocks (clusters) of this size in bytes.
func EmptyBlocks(ctx context.Context, host conn.Conn, file string, size int64, block int) error {
	return run(ctx, host, "qemu-utils", nil, "qemu-img", "create", "-q", "-f", "qcow2", "-o",
		fmt.Sprintf("cluster_size=%d", block), file, fmt.Sprint(size))
}

// Compress sets how btrfs compresses what is written to a file from now on: zlib, lzo, zstd or
// none; "" is the setting of the mount.
func Compress(ctx context.Context, host conn.Conn, file, how string) error {
	return run(ctx, host, "btrfs-progs", nil, "btrfs", "property", "set", file, "compression", how)
}

// Grow gives a raw or qcow2 file, whose path is absolute, the size of a disk in bytes. It refuses
// to make it smaller, and can be repeated.
func Grow(ctx context.Context, host conn.Conn, file, format string, size int64) error {
	have, err := Size(ctx, host, file, format)
	if err != nil || have == size {
		return err
	}
	if have > size {
		return fault.New(fault.Invalid, "the disk has %d bytes and cannot shrink to %d", have, size)
	}
	return run(ctx, host, "qemu-utils", nil, "qemu-img", "resize", "-q", "-f", format, file, fmt.Sprint(size))
}

// Size is the size in bytes of the disk in a file of this format. It reads the file also
// while a machine uses it.
func Size(ctx context.Context, host conn.Conn, file, format string) (int64, error) {
	out, err := conn.AdminOutput(ctx, host, nil, "qemu-img", "info", "-U", "-f", format, "--output=json", file)
	if err != nil {
		return 0, err
	}
	var info struct {
		Size *int64 `json:"virtual-size"`
	}
	if err := json.Unmarshal(out, &info); err != nil || info.Size == nil {
		return 0, fault.New(fault.Lab, "qemu-img info of %s: no virtual size (%v)", file, err)
	}
	return *info.Size, nil
}

func convert(ctx context.Context, host conn.Conn, args ...string) error {
	return run(ctx, host, "qemu-utils", nil, append([]string{"qemu-img", "convert"}, args...)...)
}

// run executes a program of a Debian package.
func run(ctx context.Context, host conn.Conn, pkg string, env []string, argv ...string) error {
	_, err := conn.AdminOutput(ctx, host, env, argv...)
	if fault.Is(err, fault.NotFound) {
		return fault.WithFix(fault.New(fault.Unsupported, "%s is not installed", argv[0]), "apt-get install "+pkg)
	}
	return err
}
