package trial

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/wire"
)

// ends are counters of both ends of a trial: of the environment's host, and of
// the one that its load comes from where that is another.
type ends struct {
	host      facts.Counters
	generator *facts.Counters
}

// ends reads the counters of both ends at the same time, so that both together
// take only as long as the slower one.
func (r *runner) ends(ctx context.Context, en *environment, t *target) (e ends, err error) {
	var far error
	var reading sync.WaitGroup
	if g := t.generator; g != nil {
		e.generator = new(facts.Counters)
		reading.Go(func() { *e.generator, far = g.Counters(ctx, g.Layout().Others(nil)) })
	}
	e.host, err = r.counters(ctx, en)
	reading.Wait()
	return e, errors.Join(err, fault.Op("counters of the load generator's host", far))
}

// counters reads the host's counters on the environment's CPUs, with what the
// environment was charged as a whole.
func (r *runner) counters(ctx context.Context, en *environment) (facts.Counters, error) {
	c, err := en.Counters(ctx)
	if err != nil {
		return c, fault.Op("counters of the host", err)
	}
	if m, ok := en.Instance.(driver.Meter); ok {
		scope, err := m.Usage(ctx)
		if err != nil {
			return c, fault.Op("counters of the environment", err)
		}
		c.Scope = &scope
	}
	return c, nil
}

// session is the present one with the host that load comes from.
func (t *target) session() int {
	if t.generator == nil {
		return 0
	}
	return t.generator.Session()
}

// keepCounters puts what was counted into a trial's line and its raw output.
func keepCounters(line *store.Trial, raw workload.Raw, before, after ends) error {
	line.Before, line.After = &before.host, &after.host
	spans := map[string]wire.Span{workload.Host: {Before: before.host, After: after.host}}
	if before.generator != nil && after.generator != nil {
		line.GeneratorBefore, line.GeneratorAfter = before.generator, after.generator
		spans[workload.GeneratorHost] = wire.Span{Before: *before.generator, After: *after.generator}
	}
	for blob, span := range spans {
		b, err := json.Marshal(span)
		if err != nil {
			return fault.Op("counters", err)
		}
		raw[blob] = b
	}
	return nil
}
