package isolation

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Kernel is an Env with an init process on another kernel than the host's, and
// so with its own clock.
type Kernel struct{ *Env }

var _ driver.Clocked = Kernel{}

// Clock reads the monotonic clock of the init process.
func (k Kernel) Clock(ctx context.Context) (time.Duration, error) {
	var out strings.Builder
	said := conn.Tail{Limit: 1024}
	exit, err := k.through()(ctx, conn.Cmd{Argv: append(slices.Clone(k.In), "--clock"), Stdout: &out, Stderr: &said})
	if err == nil && !exit.OK() {
		err = fault.New(fault.Lab, "%v: %s", exit, said.Bytes())
	}
	if err != nil {
		return 0, fault.Op("the clock inside", err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	return time.Duration(ns), fault.Wrap(fault.Lab, "the clock inside", err)
}
