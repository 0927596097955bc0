// Package runner runs the workload lifecycle.
package runner

import (
	"context"
	"encoding/json"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/lifecycle"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Runner runs the workload.
type Runner struct{ lifecycle.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Prepare sees that environments can be created.
func (Runner) Prepare(ctx context.Context, t execution.Target, _ param.Values) error {
	if t.Fresh == nil {
		return fault.New(fault.Unsupported, "bakeoff cannot create environments for this trial")
	}
	return nil
}

// Reset does nothing: every trial has a fresh environment.
func (Runner) Reset(context.Context, execution.Target, param.Values) error { return nil }

// Run creates an environment, runs a process in it and closes it.
func (Runner) Run(ctx context.Context, t execution.Target, _ param.Values) (workload.Raw, error) {
	var first time.Time
	l, err := t.Live(ctx, func(in driver.Instance, _ execution.Life) error {
		exit, err := in.Exec(ctx, conn.Command(in.Info().Agent, "list"))
		first = time.Now()
		if err == nil && !exit.OK() {
			err = fault.New(fault.Subject, "the first process failed: %v", exit)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	since := func(at time.Time) int64 { return at.Sub(l.Asked).Nanoseconds() }
	b, err := json.Marshal(lifecycle.Marks{Schema: lifecycle.Schema, UpNS: since(l.Up), FirstNS: since(first),
		GoneNS: since(l.Gone)})
	return workload.Raw{lifecycle.Blob: b}, err
}
