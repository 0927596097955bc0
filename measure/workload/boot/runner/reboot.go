package runner

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/base/sleep"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
	"bakeoff/provision/driver"
	"bakeoff/reach/readiness"
)

// restStep is the time between two attempts to reach a service that answers. sshd punishes
// clients that do not log in: a second for each by default, from fifteen on.
const restStep = time.Second

// answers are the moments at which the service of a machine answered, while it shut down
// and came up again.
type answers struct {
	server readiness.Server
	stop   func() // idempotent
	mu     sync.Mutex
	list   []driver.Moment
}

// followService knocks at the service of a machine until stop is called. Without the parameter
// answer it does nothing.
func followService(ctx context.Context, m driver.Rebooted, p param.Values) (*answers, error) {
	a := &answers{stop: func() {}}
	if p.Text(boot.ParamAnswer) == "" {
		return a, nil
	}
	var err error
	if a.server, err = readiness.Parse(p.Text(boot.ParamAnswer)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	a.stop = func() { cancel(); <-ended }
	k := readiness.Knock{Step: knockStep, Dial: func(ctx context.Context) (net.Conn, error) {
		return m.Connect(ctx, a.server.Port)
	}}
	go func() {
		defer close(ended)
		k.Each(ctx, a.server, restStep, func(at time.Time, late time.Duration) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.list = append(a.list, driver.Moment{Name: bootmodel.MarkService, At: at.Add(-late / 2), Uncertainty: late / 2,
				How: "the service answered the controller at " + a.server.String()})
		})
	}()
	return a, nil
}

// addFirst adds the first answer of the new boot, and waits for it. What answered before the
// clock of the new boot was 0 is the system that was shut down.
func (a *answers) addFirst(ctx context.Context, in driver.Instance, p param.Values, l execution.Life,
	m *boot.Marks) error {
	if p.Text(boot.ParamAnswer) == "" {
		m.Absent[bootmodel.MarkService] = unasked
		return nil
	}
	i := slices.IndexFunc(m.Moments, func(x boot.Moment) bool { return x.Name == bootmodel.MarkClock })
	if i < 0 {
		m.Absent[bootmodel.MarkService] = "the clock of the system is not known, so that an answer may be of the boot before"
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if argv := p.List(boot.ParamArgv); len(argv) > 0 {
		ended := startService(ctx, in, argv, cancel)
		defer func() { cancel(nil); <-ended }()
	}
	zero := l.Asked.Add(time.Duration(m.Moments[i].AtNS))
	for {
		if at, ok := a.firstAfter(zero); ok {
			m.Moments = append(m.Moments, momentOf(at, l))
			return nil
		}
		if sleep.For(ctx, knockStep) != nil {
			if gone, ok := context.Cause(ctx).(ended); ok {
				return fault.New(fault.Subject, "%s", gone)
			}
			return fault.New(fault.Subject, "nothing has answered at %s since the reboot", a.server)
		}
	}
}

// firstAfter is the first answer after a moment.
func (a *answers) firstAfter(zero time.Time) (driver.Moment, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return lists.Find(a.list, func(x driver.Moment) bool { return x.At.After(zero) })
}

// rebooted keeps the proof of the reboot, and what the system recorded of the new boot.
func rebooted(ctx context.Context, in driver.Instance, m *boot.Marks, raw workload.Raw) error {
	machine, ok := driver.AsRebooted(in)
	if !ok {
		return fault.New(fault.Lab, "the environment cannot be rebooted")
	}
	before, after := machine.Boots()
	m.Reboot = &boot.Reboot{Before: before, After: after}
	if before == after {
		return fault.New(fault.Lab, "the machine was not rebooted: the ID of its boot is still %s", before)
	}
	log, err := ReadSystem(ctx, in, in.Info().Agent)
	raw.Keep(boot.System, log)
	return err
}
