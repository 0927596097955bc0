// Package runner runs the workload cms: it starts the application, and
// generates its load from outside.
package runner

import (
	"context"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/cms"
	"bakeoff/measure/workload/http/path"
)

// Runner runs the workload.
type Runner struct{ cms.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Prepare starts database, application and web server, fills the database, and
// verifies every page.
func (Runner) Prepare(ctx context.Context, t execution.Target, p param.Values) error {
	return fault.Op("cms: prepare", prepare(ctx, t, p))
}

// refused returns an error for parameters that contradict each other.
func refused(p param.Values) error {
	isNative, login := p.Text("generator") == cms.Native, p.Text("pages") == cms.All || p.Text("pages") == "login"
	switch {
	case isNative && p.Duration("delay") > 0:
		return fault.WithFix(fault.New(fault.Invalid, "delay requires generator=siege"),
			"set generator: siege, or remove delay")
	case !isNative && login && p.Bool("keepalive"):
		return fault.WithFix(fault.New(fault.Invalid,
			"keepalive: siege would wait forever for a page without a length"), "set keepalive: false, or pages: calendar")
	}
	return nil
}

func prepare(ctx context.Context, t execution.Target, p param.Values) error {
	if err := refused(p); err != nil {
		return err
	}
	s, up, err := sharedSite(t, p)
	if !up && err == nil {
		s, err = bringSite(ctx, t, p)
	}
	if err != nil {
		return err
	}
	if !s.known.hasChecked(s.askedPages()) {
		if err := s.checkPages(ctx); err != nil {
			return err
		}
		if err := execution.Remember(t.Shared, s.sharedKey(), s.known); err != nil {
			return err
		}
	}
	if p.Text("generator") != cms.Native {
		if err := s.findSiege(ctx); err != nil {
			return err
		}
	}
	if err := s.measurePath(ctx); err != nil {
		return err
	}
	return execution.Remember(t.State, stateKey, s.known)
}

// bringSite starts what no other cell of the same environment has started.
func bringSite(ctx context.Context, t execution.Target, p param.Values) (*site, error) {
	s, err := newSite(ctx, t, p)
	if err == nil {
		err = s.startServers(ctx)
	}
	if err == nil {
		err = s.restore(ctx)
	}
	return s, err
}

// Reset restores the database and requests every page once, to check it and to
// warm the caches.
func (Runner) Reset(ctx context.Context, t execution.Target, p param.Values) error {
	s, err := recallSite(t, p)
	if err == nil {
		err = s.restore(ctx)
	}
	if err == nil {
		err = s.checkPages(ctx)
	}
	return fault.Op("cms: reset", err)
}

// Run runs one trial from the load generator's side.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	s, err := recallSite(t, p)
	if err != nil {
		return nil, fault.Op("cms", err)
	}
	raw := execution.WithFacts(s.known.Facts)
	path.Keep(t, raw)
	if err := raw.KeepProtocol(workload.Protocol{Used: workload.HTTP11}); err != nil {
		return raw, fault.Op("cms", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Duration("time")+3*p.Duration("timeout")+time.Minute)
	defer cancel()
	if p.Text("generator") == cms.Native {
		err = s.runNative(ctx, raw)
	} else {
		err = s.runSiege(ctx, raw)
	}
	return raw, fault.Op("cms", err)
}
