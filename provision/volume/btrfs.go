package volume

import (
	"context"
	"fmt"
	"path"
	"strconv"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// mountBtrfs creates a file with btrfs and mounts it at at, as mountFile. Data and metadata
// are stored once, so that the used space is the needed space.
//
// The property compression is the mount option compress (zlib:1…9, lzo,
// zstd:1…15, off). With force it is compress-force, which also compresses files
// whose beginning does not compress. The kernel compresses in its own workers:
// they run on any CPU and are not charged to an environment.
//
// Source: btrfs(5), mkfs.btrfs(8).
func mountBtrfs(ctx context.Context, host conn.Conn, dir, at string, v Volume) (string, error) {
	image := path.Join(dir, "volume-"+hex(v.Path)+".btrfs")
	if err := reserve(ctx, host, image, v, dir); err != nil {
		return "", err
	}
	err := run(ctx, host, "mkfs.btrfs", "-q", "-f", "-K", "-d", "single", "-m", "single", image)
	if fault.Is(err, fault.NotFound) {
		return "", &fault.Error{Kind: fault.Unsupported, Err: err, Fix: "apt-get install btrfs-progs"}
	}
	if err != nil {
		return "", fault.Wrap(fault.Unsupported, "mkfs.btrfs", err)
	}
	options := "noatime,nodiscard"
	if c := v.Properties["compression"]; c != "" && c != "off" {
		name := "compress"
		if v.Properties["force"] == "true" {
			name = "compress-force"
		}
		options += "," + name + "=" + c
	}
	cached, err := mountFile(ctx, host, "btrfs", options, image, at)
	if err != nil && !fault.Is(err, fault.Unsupported) {
		return "", fault.WithFix(fault.Wrap(fault.Unsupported, "mount", err),
			fmt.Sprintf("the kernel needs btrfs, and compression=%s must be one of its own: zlib:1…9, lzo, zstd:1…15",
				v.Properties["compression"]))
	}
	return cached, err
}

// reserve creates a file of v's size with all blocks allocated.
func reserve(ctx context.Context, host conn.Conn, at string, v Volume, dir string) error {
	if err := run(ctx, host, "fallocate", "-l", strconv.FormatInt(int64(v.Size), 10), at); err != nil {
		return &fault.Error{Kind: fault.Unsupported, Err: err,
			Fix: fmt.Sprintf("make room for %v below %s, or declare a smaller volume", v.Size, dir)}
	}
	return nil
}
