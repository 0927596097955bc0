package env

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
)

// ground is what environments of one driver with the same options stand on,
// for as long as the lessor lives.
type ground struct {
	driver.Foundation
	record  Record
	session int // of the host: a ground with processes does not outlive it
}

// found returns the options with which an environment of d is to be made, and
// makes what it stands on when it is the first. The lease of that is on disk
// beforehand, like any other.
func (l *Lessor) found(ctx context.Context, d driver.Driver, options param.Values, subject []int) (param.Values, error) {
	f, ok := d.(driver.Founder)
	if !ok {
		return options, nil
	}
	l.founding.Lock()
	defer l.founding.Unlock()
	text, err := json.Marshal(options) // sorted by name
	if err != nil {
		return nil, fault.Op("env: ground", err)
	}
	key := d.Doc().Name + " " + string(text)
	if g, ok := l.grounds[key]; ok {
		if g.session == l.at.Session() {
			return g.options(options), nil
		}
		if err := l.end(ctx, g); err != nil {
			return nil, err
		}
		delete(l.grounds, key)
	}
	label := l.label()
	r := Record{Schema: LeaseSchema, Label: label, Driver: d.Doc().Name, Name: "what " + d.Doc().Name + " stands on", Host: l.cfg.Name,
		Dir: Place(l.cfg.StateDir, label), Run: l.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC()}
	if err := l.remember(ctx, r); err != nil {
		return nil, err
	}
	if err := l.at.Mkdir(ctx, r.Dir); err != nil {
		return nil, errors.Join(fault.Op("env: ground", err), l.forget(ctx, r))
	}
	made, err := f.Found(ctx, l.cfg.Host, driver.Spec{Label: label, Name: r.Name, Dir: r.Dir,
		CPUSet: l.layout.Others(subject), Agent: l.cfg.Agent, Options: options})
	g := ground{made, r, l.at.Session()}
	if err != nil || made == nil {
		g.Foundation = nil
		if rerr := l.raze(ctx, g); err != nil || rerr != nil {
			return nil, errors.Join(err, rerr)
		}
	}
	if l.grounds == nil {
		l.grounds = map[string]ground{}
	}
	l.grounds[key] = g
	return g.options(options), nil
}

func (g ground) options(otherwise param.Values) param.Values {
	if g.Foundation == nil {
		return otherwise
	}
	return g.Foundation.Options()
}

// raze removes the directory and the lease of a ground that is closed.
func (l *Lessor) raze(ctx context.Context, g ground) error {
	if err := l.at.Remove(ctx, g.record.Dir); err != nil {
		return fault.Op("env: ground", err)
	}
	return l.forget(ctx, g.record)
}

// end ends a ground with all that it left.
func (l *Lessor) end(ctx context.Context, g ground) error {
	if g.Foundation == nil {
		return nil
	}
	if err := g.Foundation.Close(ctx); err != nil {
		return err
	}
	return l.raze(ctx, g)
}

// closeGrounds ends everything that environments stood on. What could not be
// removed keeps its lease.
func (l *Lessor) closeGrounds(ctx context.Context) error {
	l.founding.Lock()
	defer l.founding.Unlock()
	var errs []error
	for _, g := range l.grounds {
		errs = append(errs, l.end(ctx, g))
	}
	l.grounds = nil
	return errors.Join(errs...)
}
