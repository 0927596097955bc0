package queue

import (
	"context"
	"errors"

	"bakeoff/base/fault"
)

// Pause keeps a job from starting. One that runs finishes its run.
func (q *Queue) Pause(ctx context.Context, uuid string) error {
	return q.act(ctx, uuid, func(h *held) error {
		if h.Over() || h.State == Running {
			return fault.New(fault.Invalid, "job %s is %s; only a job that waits can be paused", uuid[:8], h.State)
		}
		if h.State == Paused {
			return nil
		}
		if err := h.add(line{Type: linePaused}); err != nil {
			return err
		}
		return q.withdraw(ctx, h)
	})
}

// withdraw takes a job that has not started from Slurm: Slurm would count a held job, and
// its user could not see it in squeue as bakeoff's.
func (q *Queue) withdraw(ctx context.Context, h *held) error {
	all, err := q.Slurm.entries(ctx, true)
	for _, e := range all {
		if e.UUID == h.UUID && !e.hasEnded() {
			_, cerr := q.Slurm.run(ctx, nil, "scancel", e.ID)
			err = errors.Join(err, cerr)
		}
	}
	return err
}

// Cancel ends a job; a run that began ends its block, and its folder is collected. It takes
// effect in the next rounds.
func (q *Queue) Cancel(ctx context.Context, uuid string) error {
	return q.act(ctx, uuid, func(h *held) error {
		if h.Over() {
			return fault.New(fault.Invalid, "job %s is %s already", uuid[:8], h.State)
		}
		if h.canceling {
			return nil
		}
		return h.add(line{Type: lineCancel})
	})
}

// Retry releases a paused job, and continues one that failed or was canceled: on the host
// that has its run.
func (q *Queue) Retry(ctx context.Context, uuid string) error {
	return q.act(ctx, uuid, func(h *held) error {
		switch {
		case h.State == Done:
			return fault.WithFix(fault.New(fault.Invalid, "job %s is done", uuid[:8]),
				"submit the lab file again for another run")
		case h.State != Paused && h.State != Failed && h.State != Canceled:
			return fault.New(fault.Invalid, "job %s is %s; only a paused, failed or canceled job can be retried", uuid[:8],
				h.State)
		}
		if err := h.add(line{Type: lineReleased}); err != nil {
			return err
		}
		return q.reopen(h)
	})
}

// act does something with a job whose lock it holds.
func (q *Queue) act(ctx context.Context, uuid string, do func(*held) error) error {
	h, err := q.lockJob(ctx, uuid, true)
	if err != nil {
		return err
	}
	defer h.release()
	return do(h)
}
