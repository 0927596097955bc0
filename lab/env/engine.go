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
	"bakeoff/provision/lease"
)

// engine is a driver.Engine with its lease. Environments of one driver with
// the same options share it until the manager is closed.
type engine struct {
	driver.Engine // nil where these options need none
	lease         lease.Lease
	session       int // of the host: an engine does not survive a lost connection
}

// optionsOf returns the options with which an environment of d is created. It
// starts the engine that they need, unless it runs already. The lease of an
// engine is on disk before the engine is started.
func (m *Manager) optionsOf(ctx context.Context, d driver.Driver, options param.Values,
	subject []int) (param.Values, error) {
	starter, ok := d.(driver.EngineStarter)
	if !ok {
		return options, nil
	}
	m.starting.Lock()
	defer m.starting.Unlock()
	text, err := json.Marshal(options) // sorted by name
	if err != nil {
		return nil, fault.Op("env: engine", err)
	}
	key := d.Doc().Name + " " + string(text)
	if s, ok := m.engines[key]; ok {
		if s.session == m.at.Session() {
			return s.options(options), nil
		}
		if err := m.stop(ctx, s); err != nil {
			return nil, err
		}
		delete(m.engines, key)
	}
	label := m.label()
	r := lease.Lease{Lifetime: lease.Run, Label: label, Driver: d.Doc().Name, Name: "the engine of " + d.Doc().Name,
		Host: m.cfg.Name, Dir: Place(m.cfg.StateDir, label), Owner: m.cfg.Run, PID: os.Getpid(), Started: time.Now().UTC()}
	r.Note(ctx, m.at, false)
	if err := m.remember(ctx, r); err != nil {
		return nil, err
	}
	if err := m.at.Mkdir(ctx, r.Dir); err != nil {
		return nil, errors.Join(fault.Op("env: engine", err), m.leases.Remove(ctx, r))
	}
	started, err := starter.StartEngine(ctx, m.cfg.Host, driver.Spec{Label: label, Name: r.Name, Dir: r.Dir,
		CPUSet: m.layout.Others(subject), Agent: m.cfg.Agent, Options: options})
	s := engine{started, r, m.at.Session()}
	if err != nil || started == nil {
		s.Engine = nil
		if rerr := m.removeEngine(ctx, s); err != nil || rerr != nil {
			return nil, errors.Join(err, rerr)
		}
	} else {
		s.lease.Note(ctx, m.at, true)
		if err := m.remember(ctx, s.lease); err != nil {
			return nil, errors.Join(err, m.stop(ctx, s))
		}
	}
	if m.engines == nil {
		m.engines = map[string]engine{}
	}
	m.engines[key] = s
	return s.options(options), nil
}

func (s engine) options(otherwise param.Values) param.Values {
	if s.Engine == nil {
		return otherwise
	}
	return s.Options()
}

// removeEngine restores the settings that a stopped engine changed, and removes its
// directory and its lease.
func (m *Manager) removeEngine(ctx context.Context, s engine) error {
	changes, kept := s.lease.Restore(ctx, m.at, false)
	for _, change := range changes {
		m.say("undid the %s by %s", change, s.lease.Name)
	}
	if kept != nil {
		m.say("%v", kept)
	}
	if err := m.at.Remove(ctx, s.lease.Dir); err != nil {
		return fault.Op("env: engine", err)
	}
	return m.leases.Remove(ctx, s.lease)
}

// stop stops an engine and removes what it left.
func (m *Manager) stop(ctx context.Context, s engine) error {
	if s.Engine == nil {
		return nil
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	return m.removeEngine(ctx, s)
}

// stopEngines stops all engines. What could not be removed keeps its lease.
func (m *Manager) stopEngines(ctx context.Context) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	var errs []error
	for _, s := range m.engines {
		errs = append(errs, m.stop(ctx, s))
	}
	m.engines = nil
	return errors.Join(errs...)
}
