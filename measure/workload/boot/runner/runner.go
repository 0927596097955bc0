// Package runner runs the workload boot.
package runner

import (
	"context"
	"encoding/json"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
)

// Runner runs the workload.
type Runner struct{ boot.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Prepare sees that environments can be created.
func (Runner) Prepare(_ context.Context, t execution.Target, _ param.Values) error {
	if t.Fresh == nil {
		return fault.New(fault.Unsupported, "this target cannot create environments")
	}
	return nil
}

// Reset does nothing: every trial has a fresh environment.
func (Runner) Reset(context.Context, execution.Target, param.Values) error { return nil }

// Run creates an environment and removes it.
func (Runner) Run(ctx context.Context, t execution.Target, _ param.Values) (workload.Raw, error) {
	asked := time.Now()
	inst, made, err := t.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	up := time.Now()
	var counts []boot.Count
	for _, mark := range made {
		switch {
		case mark.Count > 0:
			counts = append(counts, boot.Count{Name: mark.Name, At: mark.Count})
		case mark.Name == "asked":
			asked = mark.At
		case mark.Name == "up":
			up = mark.At
		}
	}
	m := boot.Marks{Schema: boot.Schema, Counts: counts, ReadyNS: up.Sub(asked).Nanoseconds(),
		LeftNS: time.Since(asked).Nanoseconds()}
	// Always close it, even after the trial's deadline.
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := inst.Close(gone); err != nil {
		return nil, err
	}
	m.GoneNS = time.Since(asked).Nanoseconds()
	b, err := json.Marshal(m)
	return workload.Raw{boot.Blob: b}, err
}
