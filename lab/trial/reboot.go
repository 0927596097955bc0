package trial

import (
	"context"

	"bakeoff/base/fault"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
)

// rebooting does a trial that reboots its machine. Counters and clocks of the machine begin
// again with its boot, so that they say nothing about the trial.
func (r *runner) rebooting(tctx, ctx context.Context, t *target, line *store.Trial) (workload.Raw, error) {
	line.Start = r.Now().UTC()
	raw, err := t.work.Run(tctx, t.Target, t.cell.Params)
	line.End = r.Now().UTC()
	if err != nil {
		return raw, fault.Op("run", late(tctx, ctx, err))
	}
	_, err = t.work.Parse(raw, t.cell.Params)
	return raw, fault.Op("answer", err)
}
