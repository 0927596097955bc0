package trial

import (
	"context"
	"time"

	"bakeoff/base/fault"
	"bakeoff/lab/plan"
	"bakeoff/reach/conn"
)

// repairLimit bounds the command that brings a host back to its condition: a
// dataset that is rolled back, a disk that is trimmed.
const repairLimit = 10 * time.Minute

// repair restores the condition of every host of a part that has a command for
// it, between blocks. With instances: run it does so before the first block only,
// because the environments stay.
func (r *runner) repair(ctx context.Context, p plan.Part) error {
	if len(r.kept) > 0 {
		return nil
	}
	for _, l := range r.managers() {
		if p.Host != "" && p.Host != l.Name() {
			continue
		}
		argv := r.Plan.Hosts[l.Name()].Repair
		if len(argv) == 0 {
			continue
		}
		r.emit(Event{Kind: Preparing, Text: "repairing host " + l.Name()})
		bounded, cancel := context.WithTimeout(ctx, repairLimit)
		_, err := conn.Output(bounded, l.Host(), argv...)
		cancel()
		if err != nil {
			return fault.Wrap(fault.Lab, "repair host "+l.Name(), err)
		}
	}
	return nil
}
