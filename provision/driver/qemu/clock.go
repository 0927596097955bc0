package qemu

import (
	"context"
	"time"

	"bakeoff/provision/driver"
)

var _ driver.Clocked = (*Instance)(nil)

// Clock reads the guest's monotonic clock.
func (in *Instance) Clock(ctx context.Context) (time.Duration, error) {
	k, err := in.Conn.Clock(ctx)
	return time.Duration(k.MonotonicNS), err
}
