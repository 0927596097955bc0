package volume

import (
	"context"
	"fmt"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Settle waits until everything that was written to the volume v, mounted at
// at, is on its backing. It returns how long that took and what the file system
// then reports.
func Settle(ctx context.Context, host conn.Conn, dir, at string, v Volume) (Usage, error) {
	op := fmt.Sprintf("settle the volume %s (%s)", v.Path, v.Backing)
	var u Usage
	start := time.Now()
	if err := run(ctx, host, "sync", "-f", at); err != nil {
		return u, fault.Op(op, err)
	}
	p := poolOf(dir, v.Path)
	if v.Backing == ZFS {
		if err := p.Settle(ctx, host); err != nil {
			return u, fault.Op(op, err)
		}
	}
	u.Took = time.Since(start)
	err := usage(ctx, host, at, &u)
	if err == nil && v.Backing == ZFS {
		u.CompressRatio, err = p.CompressRatio(ctx, host)
	}
	return u, fault.Op(op, err)
}

// usage is statfs(2), as df shows it.
func usage(ctx context.Context, host conn.Conn, at string, u *Usage) error {
	out, err := output(ctx, host, "stat", "-f", "-c", "%S %b %f", at)
	if err != nil {
		return err
	}
	var size, blocks, free int64
	if n, err := fmt.Sscan(string(out), &size, &blocks, &free); n != 3 || err != nil {
		return fault.New(fault.Lab, "stat -f printed %q", strings.TrimSpace(string(out)))
	}
	u.UsedBytes = size * (blocks - free)
	return nil
}
