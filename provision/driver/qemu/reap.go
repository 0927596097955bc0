package qemu

import (
	"context"

	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

const hypervisor = guest.Hypervisor("qemu")

// Reap removes what a machine left on host.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return hypervisor.Reap(ctx, host, left, dryRun)
}
