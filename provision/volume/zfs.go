package volume

import (
	"context"
	"maps"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
)

// mountZFS creates the pool of v on a file below dir and mounts it at at. The fingerprint
// says whether it is one of the kernel's OpenZFS or of zfs-fuse.
func mountZFS(ctx context.Context, host, within conn.Conn, dir, at string, v Volume) error {
	if v.Size < 64<<20 {
		return fault.New(fault.Unsupported, "a pool needs at least 64MiB (got %v)", v.Size)
	}
	p := poolOf(dir, v.Path)
	if err := reserve(ctx, host, p.File, v, dir); err != nil {
		return err
	}
	properties := maps.Clone(v.Properties)
	for name, text := range properties {
		properties[name] = zfsValue(name, text)
	}
	return p.Create(ctx, host, within, at, properties)
}

func poolOf(dir, volume string) zfs.Pool { return zfs.PoolOf(dir, "volume-"+hex(volume), volume) }

// FileSystem returns the type of the file system of a volume with this backing, as df
// prints it on the host, and whether the page cache of the host is known to hold its
// blocks, too. Other backings are returned unchanged.
func FileSystem(ctx context.Context, host conn.Conn, backing string) (kind string, hostCaches bool) {
	_, kind, found := strings.Cut(backing, ":")
	switch {
	case backing == Dataset:
		return "zfs", true
	case backing == Zvol:
		return "ext4", true
	case backing == NFS:
		return "nfs4", true
	case !found:
		return backing, false
	case backing != ZFS:
		return kind, false
	case zfs.InKernel(ctx, host):
		return kind, true // a pool opens its files without O_DIRECT
	}
	return "fuse.zfs", true
}

// pools lists the pools whose files are in dir.
func pools(ctx context.Context, host conn.Conn, dir string) ([]zfs.Pool, error) {
	names, err := conn.FilesOf(host).ReadDir(ctx, dir)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Op("pools below "+dir, err)
	}
	var out []zfs.Pool
	for _, n := range names {
		text, ok := strings.CutSuffix(n, ".zpool")
		if text, ok2 := strings.CutPrefix(text, "volume-"); ok && ok2 {
			if volume, err := unhex(text); err == nil {
				out = append(out, poolOf(dir, volume))
			}
		}
	}
	return out, nil
}
