// Package runner runs the workload compression, and looks at the volume before
// and after.
package runner

import (
	"context"
	"encoding/json"
	"path"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/compression"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
)

// Runner runs the workload.
type Runner struct{ compression.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{compression.New()} }

// Files implements execution.Finder: the folder to copy.
func (w Runner) Files(p param.Values) []execution.File {
	if f := p.Text("folder"); path.IsAbs(f) {
		return []execution.File{{Param: "folder", Path: f, Folder: true}}
	}
	return nil
}

// Prepare writes the messages, or checks the folder to copy. A missing folder
// is a failure of the contender, not of the lab.
func (w Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	err := execution.Native(w.NativeParser).Prepare(ctx, t, p)
	if err != nil && p.Text("folder") != "" && ctx.Err() == nil {
		err = fault.New(fault.Subject, "%w", err)
	}
	return err
}

// Reset deletes what the previous trial wrote, and waits until the deletion is
// on the disk.
func (w Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	if err := execution.Native(w.NativeParser).Reset(ctx, t, p); err != nil {
		return err
	}
	_, err := settleVolume(ctx, t, p)
	return err
}

// Run copies the files and waits until they are on the disk.
func (w Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	before, err := settleVolume(ctx, t, p)
	if err != nil {
		return nil, err
	}
	raw, err := execution.Native(w.NativeParser).Run(ctx, t, p)
	if err != nil {
		return raw, err
	}
	after, err := settleVolume(ctx, t, p)
	if err != nil {
		return raw, err
	}
	raw[compression.Volume], err = json.Marshal(compression.Usages{Before: compression.Usage(before),
		After: compression.Usage(after)})
	return raw, fault.Op("compression", err)
}

func settleVolume(ctx context.Context, t execution.Target, p param.Values) (volume.Usage, error) {
	s, ok := t.Subject.(driver.Storer)
	if !ok {
		return volume.Usage{},
			fault.WithFix(fault.New(fault.Unsupported, "compression: the host cannot read the usage of this driver's volumes"),
				"use a driver that shares the host's kernel: host, chroot, oci")
	}
	return s.SettleVolume(ctx, p.Text("volume"))
}
