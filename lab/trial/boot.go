package trial

import (
	"context"
	"errors"

	"bakeoff/base/fault"
	"bakeoff/lab/env"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
)

// boot boots the machine of a part into its system, and leases on it until leave
// is called. For a part without a machine it does nothing. An error voids the
// block; an error of kind fault.Unsupported also ends the run.
func (r *runner) boot(ctx context.Context, b plan.Block, p plan.Part) (leave func(context.Context) error, err error) {
	nothing := func(context.Context) error { return nil }
	if p.Host == "" {
		return nothing, nil
	}
	box := r.Boxes[p.Host]
	if box == nil {
		return nothing, fault.New(fault.Lab, "host %s is not reached", p.Host)
	}
	if err := r.reboot(ctx, box, b, p); err != nil {
		return nothing, err
	}
	l, err := box.Open(ctx, r.Drivers)
	if err != nil {
		return nothing, fault.Op("host "+p.Host, err)
	}
	sides := r.in(p)
	for _, s := range sides {
		s.env = l
	}
	leave = func(ctx context.Context) error {
		for _, s := range sides {
			s.env = nil
		}
		return l.Close(ctx)
	}
	if err := r.arrive(ctx, l, sides); err != nil {
		if fault.Is(err, fault.Unsupported) {
			r.refused = err
		}
		return leave, err
	}
	return leave, nil
}

// in returns the sides of a part that still take part.
func (r *runner) in(p plan.Part) []*side {
	var out []*side
	for _, name := range p.Contenders {
		if s, err := r.side(name); err == nil && s.gone == "" { // the plan was checked
			out = append(out, s)
		}
	}
	return out
}

// reboot boots, and journals what came of it.
func (r *runner) reboot(ctx context.Context, box *env.Box, b plan.Block, p plan.Part) error {
	r.emit(Event{Kind: Preparing, Block: b.Index, Text: "booting " + p.Host + " into " + p.System})
	began := r.Now()
	up, err := box.Boot(ctx, p.System)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	line := store.Line{Type: store.LineBoot, At: r.Now().UTC(), Block: b.Index, Status: store.OK, Boot: &store.Boot{
		Host: p.Host, System: p.System, Named: up.Named, ID: up.ID, Same: up.Same, TookNS: r.Now().Sub(began).Nanoseconds()}}
	r.fallen++
	if err == nil {
		r.fallen = 0
	} else {
		line.Status, line.Reason = store.Void, describe(err)
	}
	if fault.Is(err, fault.Unsupported) {
		r.refused = err
	}
	return errors.Join(err, r.Run.Append(line))
}

// arrive does in a newly booted system what prepare does on other hosts: it asks
// the contenders' drivers, and creates the network and the images.
func (r *runner) arrive(ctx context.Context, l *env.Manager, sides []*side) error {
	for _, s := range sides {
		if s.asked {
			continue
		}
		a := preflight.CheckDriver(ctx, l.Host(), s.driver, s.Contender.Contender)
		a = preflight.Enough(a, s.Contender.Contender, len(l.Layout().CPUs), l.Memory())
		if !a.OK {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := r.dismiss(s, "unavailable: "+a.String()); err != nil {
				return err
			}
			continue
		}
		if err := r.imageOf(ctx, s); err != nil {
			return err
		}
		s.asked = ctx.Err() == nil
	}
	if err := r.mayStart(); err != nil {
		return err
	}
	if need, err := r.needPeer(); err != nil {
		return err
	} else if need {
		if err := l.Network(ctx); err != nil {
			return fault.Op("host "+l.Name(), err)
		}
	}
	return r.settleOn(ctx, l)
}
