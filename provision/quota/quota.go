// Package quota limits how much a folder and everything below it may contain: on btrfs by the qgroup of
// a subvolume, on ext4 and XFS by a project of the kernel's quotas, on ZFS by a property of a dataset.
package quota

import (
	"context"

	"bakeoff/reach/conn"
)

// Limiter limits folders of one file system.
type Limiter interface {
	// Check says why folders below dir, which exists, cannot have a limit; nil if they can. The error is
	// of kind fault.Unsupported.
	Check(ctx context.Context, dir string) error
	// Make makes a folder that can have a limit, and has none yet. Its parent exists.
	Make(ctx context.Context, dir string) error
	// Limitable tells whether a folder can have a limit: Make has made it.
	Limitable(ctx context.Context, dir string) (bool, error)
	// Limit limits what is in a folder that Make has made, in GiB; 0 is no limit.
	Limit(ctx context.Context, dir string, gib int) error
	// Free removes what the file system stores about a folder that is removed next, and which Make may have
	// made.
	Free(ctx context.Context, dir string) error
}

// Mounter is a Limiter whose folders are mount points. They cannot be renamed, and are not mounted after a
// restart of the host. If its Free fails, the error may be a Busy.
type Mounter interface {
	Limiter
	// Mount mounts a folder that Make has made, unless it is mounted.
	Mount(ctx context.Context, dir string) error
	// Forget tells that somebody else destroys the dataset of a folder, after Free has failed.
	Forget(dir string) error
}

// Btrfs is the name of a file system, as stat(1) prints it.
const Btrfs = "btrfs"

// On returns what limits folders on a file system, which is named as stat(1) does; nil if nothing can.
func On(host conn.Conn, fileSystem string) Limiter {
	switch fileSystem {
	case Btrfs:
		return subvolumes{host}
	case "ext2/ext3": // and ext4, which has the same number
		return projects{kernel: system{}, ext4: true}
	case "xfs":
		return projects{kernel: system{}}
	case "zfs":
		return datasets{host}
	}
	return nil
}
