// Package runner runs the workload lifecycle.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/lifecycle"
	"bakeoff/reach/conn"
)

// Runner runs the workload.
type Runner struct{ lifecycle.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Prepare sees that environments can be created.
func (Runner) Prepare(ctx context.Context, t execution.Target, _ param.Values) error {
	if t.Fresh == nil {
		return fault.New(fault.Unsupported, "this target cannot create environments")
	}
	return nil
}

// Reset does nothing: every trial has a fresh environment.
func (Runner) Reset(context.Context, execution.Target, param.Values) error { return nil }

// Run creates an environment, runs a process in it and closes it.
func (Runner) Run(ctx context.Context, t execution.Target, _ param.Values) (workload.Raw, error) {
	asked := time.Now()
	inst, made, err := t.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	m := lifecycle.Marks{Schema: lifecycle.Schema, UpNS: time.Since(asked).Nanoseconds()}
	for _, mark := range made {
		switch mark.Name {
		case "asked":
			asked = mark.At
		case "up":
			m.UpNS = mark.At.Sub(asked).Nanoseconds()
		}
	}
	exit, err := inst.Exec(ctx, conn.Command(inst.Info().Agent, "list"))
	m.FirstNS = time.Since(asked).Nanoseconds()
	if err == nil && !exit.OK() {
		err = fault.New(fault.Subject, "the first process failed: %v", exit)
	}
	// Always close it, even after the trial's deadline.
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, inst.Close(gone))
	m.GoneNS = time.Since(asked).Nanoseconds()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(m)
	return workload.Raw{lifecycle.Blob: b}, err
}
