package confine

import (
	"context"
	"strconv"
	"strings"
	"time"

	"bakeoff/conn"
	"bakeoff/driver"
	"bakeoff/fault"
)

// Kernel is an Env with a Door whose kernel is another than the host's, and so
// its clock.
type Kernel struct{ *Env }

var _ driver.Clocked = Kernel{}

// Clock reads the monotonic clock as the first process has it.
func (k Kernel) Clock(ctx context.Context) (time.Duration, error) {
	out, err := conn.Output(ctx, k.Host, append(append([]string{}, k.In...), "--clock")...)
	if err != nil {
		return 0, fault.Op("the clock inside", err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Duration(ns), fault.Wrap(fault.Lab, "the clock inside", err)
}
