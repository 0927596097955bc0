package qemu

import (
	"context"
	"time"

	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// monitorTime bounds a conversation with QEMU's monitor, which answers in
// milliseconds.
const monitorTime = 15 * time.Second

const hypervisor = guest.Hypervisor("qemu")

// Instance is a machine whose agent answers. Freeze freezes QEMU's control
// group: the guest's clocks continue, so they stay correct.
type Instance struct {
	*guest.Hosted
	counts []driver.Count // on the instruction clock
	writes *writes        // to the debug port; nil without
}

// Reap removes what a machine left on host.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return hypervisor.Reap(ctx, host, left, dryRun)
}
