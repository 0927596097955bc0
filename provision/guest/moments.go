package guest

import (
	"context"
	"fmt"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/provision/driver"
)

// Saw adds a moment that happened just now, or at most late ago.
func (e *Env) Saw(name, how string, late time.Duration) {
	e.Seen.List = append(e.Seen.List, driver.Moment{Name: name, At: time.Now().Add(-late / 2), Uncertainty: late / 2,
		How: how})
}

// Lacks says why moments are not known.
func (e *Env) Lacks(why string, names ...string) {
	if e.Seen.Absent == nil {
		e.Seen.Absent = map[string]string{}
	}
	for _, name := range names {
		e.Seen.Absent[name] = why
	}
}

// Moments returns what was seen while the environment came up. It compares the clock of
// the agent with that of the controller.
func (e *Env) Moments(ctx context.Context) (driver.Moments, error) {
	if !e.Properties.OwnKernel {
		e.Lacks("the environment uses the kernel of its host", bootmodel.MarkVCPU, bootmodel.MarkFirmware,
			bootmodel.MarkKernel, bootmodel.MarkClock)
	}
	if e.Console != nil && !e.Console.FirstOutput().IsZero() {
		e.Seen.List = append(e.Seen.List, driver.Moment{Name: bootmodel.MarkSerial, At: e.Console.FirstOutput(),
			Uncertainty: -1, How: "the first byte of the console arrived; when it was sent is unknown"})
	}
	err := e.addFromAgent(ctx)
	if err == nil && e.Observe != nil {
		err = e.Observe(ctx, &e.Seen)
	}
	return e.Seen, err
}

// addFromAgent adds what the agent says.
func (e *Env) addFromAgent(ctx context.Context) error {
	if e.Conn == nil {
		e.Lacks("the guest has no agent that says when it started", bootmodel.MarkClock, bootmodel.MarkUserland)
		return nil
	}
	zero, uncertainty, err := e.systemZero(ctx)
	if err != nil {
		return err
	}
	add := func(name, how string, at time.Time) {
		if e.Seen.Absent[name] != "" {
			return
		}
		m := driver.Moment{Name: name, At: at, Uncertainty: uncertainty, How: how}
		if why := e.boundByHost(&m); why != "" {
			e.Lacks(why, name)
			return
		}
		e.Seen.List = append(e.Seen.List, m)
	}
	if zero.IsZero() {
		e.Lacks("the agent of this system does not say when it started", bootmodel.MarkClock, bootmodel.MarkUserland)
		return nil
	}
	if e.Properties.OwnKernel && e.Boot.PID != 1 {
		e.Lacks("the agent is not the first process of the guest", bootmodel.MarkUserland)
	}
	add(bootmodel.MarkClock, "the guest's monotonic clock was 0", zero)
	add(bootmodel.MarkUserland, "the agent, the first process, read its clock for the first time",
		zero.Add(time.Duration(e.Boot.StartedNS)))
	return nil
}

// boundByHost widens the uncertainty of a moment that the clock of the guest places by what
// the controller itself saw, or returns why the moment cannot be true. The clock of a guest
// may lose time while the guest boots, and a moment is then before the place where a later
// reading of that clock puts it. Linux guests of this package keep time by a counter that
// loses none.
//
// The console begins between the start of the kernel's clock and the first process, which
// answers later.
func (e *Env) boundByHost(m *driver.Moment) (why string) {
	if !e.Properties.OwnKernel || e.Boot.System == "" || e.Boot.System == "linux" {
		return ""
	}
	least, most, what := e.began, e.answered, "the machine was started"
	if e.Console != nil && !e.Console.FirstOutput().IsZero() {
		if m.Name == bootmodel.MarkUserland {
			least, what = e.Console.FirstOutput(), "the console began"
		} else {
			most = e.Console.FirstOutput()
		}
	}
	early := m.At.Sub(least)
	switch {
	case early < -m.Uncertainty:
		return fmt.Sprintf("the clock of the guest places it %.3f s before %s, so that clock is wrong", -early.Seconds(),
			what)
	case !most.IsZero() && m.At.After(most):
		m.At, early = most, most.Sub(least)
	}
	m.Uncertainty = max(m.Uncertainty, early)
	m.How += "; by the clock of the guest, which may have lost time: it can be earlier by the uncertainty"
	return ""
}

// clockReadings is how often the clocks are compared. The comparison with the shortest
// round trip counts.
const clockReadings = 20

// systemZero is when the monotonic clock of the environment's system was 0, and how far off
// that may be: half a round trip. The zero Time means that the agent does not say.
func (e *Env) systemZero(ctx context.Context) (at time.Time, uncertainty time.Duration, err error) {
	shortest := time.Duration(-1)
	for range clockReadings {
		asked := time.Now()
		c, err := e.Conn.Clock(ctx)
		if err != nil {
			return time.Time{}, 0, err
		}
		took := time.Since(asked)
		if c.SystemNS == 0 {
			return time.Time{}, 0, nil
		}
		if shortest < 0 || took < shortest {
			shortest = took
			at, uncertainty = asked.Add(took/2-time.Duration(c.SystemNS)), took/2
		}
	}
	return at, uncertainty, nil
}
