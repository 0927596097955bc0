//go:build !linux

package compression

import (
	"context"

	"golang.org/x/sys/unix"
)

// syncFS writes all file systems to their disks: this system cannot sync a
// single one. sync(2) of the BSDs may return before the disks have finished,
// as their sync(8) does.
func syncFS(context.Context, string) error { return unix.Sync() }
