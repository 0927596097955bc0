// Package runner runs the workload boot.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"strconv"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/readiness"
	"bakeoff/reach/wire"
)

// Runner runs the workload.
type Runner struct{ boot.Workload }

// New returns the runner.
func New() execution.Runner { return Runner{} }

// Check refuses parameters that say nothing.
func (Runner) Check(p param.Values) error {
	text := p.Text(boot.ParamAnswer)
	if text == "" && len(p.List(boot.ParamArgv)) > 0 {
		return fault.WithFix(fault.New(fault.Invalid, "%s: the cell does not say when the service is ready", boot.ParamArgv),
			"write "+boot.ParamAnswer+": "+readiness.Forms)
	}
	if text == "" {
		return nil
	}
	_, err := readiness.Parse(text)
	return fault.Op(boot.ParamAnswer, err)
}

// Prepare sees that environments can be created.
func (Runner) Prepare(_ context.Context, t execution.Target, _ param.Values) error {
	if t.Fresh == nil {
		return fault.New(fault.Unsupported, "bakeoff cannot create environments for this trial")
	}
	return nil
}

// Reset does nothing: every trial has a fresh environment.
func (Runner) Reset(context.Context, execution.Target, param.Values) error { return nil }

// Run creates an environment, waits for its service if there is one, asks what was seen
// of the boot, and removes the environment.
func (Runner) Run(ctx context.Context, t execution.Target, p param.Values) (workload.Raw, error) {
	m, raw := boot.Marks{Schema: boot.Schema, Absent: map[string]string{}}, workload.Raw{}
	use := func(in driver.Instance, l execution.Life) error {
		return errors.Join(service(ctx, t, in, p, l, &m), observe(ctx, in, l, &m, raw), keepRecord(ctx, in, p, &m, raw))
	}
	if machine, ok := driver.AsRebooted(t.Subject); ok {
		answers, err := followService(ctx, machine, p)
		if err != nil {
			return nil, err
		}
		defer answers.stop()
		use = func(in driver.Instance, l execution.Life) error {
			return errors.Join(observe(ctx, in, l, &m, raw), rebooted(ctx, in, &m, raw), answers.addFirst(ctx, in, p, l, &m))
		}
	}
	l, err := t.Live(ctx, use)
	if err != nil {
		return nil, err
	}
	for _, mark := range l.Made {
		if mark.Count > 0 {
			m.Counts = append(m.Counts, boot.Count{Name: mark.Name, At: mark.Count, Program: mark.Program})
		}
	}
	since := func(at time.Time) int64 { return at.Sub(l.Asked).Nanoseconds() }
	m.ReadyNS, m.LeftNS, m.GoneNS = since(l.Up), since(l.Left), since(l.Gone)
	raw[boot.Blob], err = json.Marshal(m)
	return raw, err
}

// knockStep is the time between two attempts to reach the service: the resolution of the
// moment at which it answers.
const knockStep = 5 * time.Millisecond

// unasked is why it is not known when the service is ready.
const unasked = "the cell does not say when the service is ready: set the parameter " + boot.ParamAnswer

// service starts the service, if the environment does not, and waits until it answers.
func service(ctx context.Context, t execution.Target, in driver.Instance, p param.Values, l execution.Life,
	m *boot.Marks) error {
	if p.Text(boot.ParamAnswer) == "" {
		m.Absent[bootmodel.MarkService] = unasked + ", or the option ready of a guest without agent"
		return nil
	}
	s, err := readiness.Parse(p.Text(boot.ParamAnswer))
	if err != nil {
		return err
	}
	addr := in.Info().Addr
	if t.Peer == nil || !addr.IsValid() {
		return fault.New(fault.Unsupported, "%s: the environment has no address", boot.ParamAnswer)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if argv := p.List(boot.ParamArgv); len(argv) > 0 {
		ended := startService(ctx, in, argv, cancel)
		defer func() { cancel(nil); <-ended }()
	}
	k := readiness.Knock{Step: knockStep, Dial: func(ctx context.Context) (net.Conn, error) {
		return t.Peer.Dial(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(s.Port)))
	}}
	at, late, err := k.Wait(ctx, s)
	if gone, ok := errors.AsType[ended](context.Cause(ctx)); ok {
		return fault.New(fault.Subject, "%s", gone)
	}
	if err != nil {
		return err
	}
	m.Moments = append(m.Moments, momentOf(driver.Moment{Name: bootmodel.MarkService, At: at.Add(-late / 2),
		Uncertainty: late / 2, How: "the service answered at " + s.String()}, l))
	return nil
}

// ended is the cause of the end of the wait for a service that does not run any more.
type ended string

func (e ended) Error() string { return string(e) }

// startService starts the service and calls end when it ends. The channel is closed then.
func startService(ctx context.Context, in driver.Instance, argv []string, end context.CancelCauseFunc) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		said := &conn.Tail{Limit: 1 << 10}
		exit, err := in.Exec(ctx, conn.Cmd{Argv: argv, Stdout: said, Stderr: said})
		why := "the service ended before it answered: " + exit.String()
		if err != nil {
			why = "the service cannot be started: " + err.Error()
		}
		end(ended(why + ": " + string(said.Bytes())))
	}()
	return done
}

// notMachine is why an environment has no moment at which the system before it was down.
const notMachine = "only a machine that is rebooted shuts a system down first"

// observe adds what the driver saw.
func observe(ctx context.Context, in driver.Instance, l execution.Life, m *boot.Marks, raw workload.Raw) error {
	w, ok := driver.AsWatched(in)
	if !ok {
		why := "the driver does not see it"
		if !in.Info().OwnKernel {
			why = "the environment uses the kernel of its host"
		}
		for _, name := range []string{bootmodel.MarkVCPU, bootmodel.MarkFirmware, bootmodel.MarkKernel} {
			m.Absent[name] = why
		}
		m.Absent[bootmodel.MarkUserland] = "the driver does not see when the first process starts"
		m.Absent[bootmodel.MarkDown] = notMachine
		return nil
	}
	seen, err := w.Moments(ctx)
	if err != nil {
		return fault.Op("read the marks of the boot", err)
	}
	if _, machine := driver.AsRebooted(in); !machine {
		m.Absent[bootmodel.MarkDown] = notMachine
	}
	for _, x := range seen.List {
		m.Moments = append(m.Moments, momentOf(x, l))
		delete(m.Absent, x.Name)
	}
	maps.Copy(m.Absent, seen.Absent)
	m.TSCHz, m.TSCFromStart = seen.TSCHz, seen.TSCFromStart
	if log := seen.Log; log != nil {
		raw[boot.Log] = log.Text
		m.Log = &boot.LogClock{UnixNS: log.Stamp.Add(l.Asked.Sub(log.At)).UnixNano(),
			UncertaintyNS: log.Uncertainty.Nanoseconds(), Lost: log.Lost}
	}
	return nil
}

// keepRecord keeps what the system inside recorded of its boot.
func keepRecord(ctx context.Context, in driver.Instance, p param.Values, m *boot.Marks, raw workload.Raw) error {
	if !p.Bool(boot.ParamRecord) {
		return nil
	}
	if counted, ok := driver.AsCounted(in); ok {
		printed, err := counted.Console(ctx)
		raw.Keep(boot.Console, printed)
		return fault.Op("console", err)
	}
	if !in.Info().OwnKernel {
		m.Unrecorded = "The environment uses the kernel of its host, which booted before."
		return nil
	}
	log, err := ReadSystem(ctx, in, in.Info().Agent)
	if fault.Is(err, fault.Unsupported) {
		m.Unrecorded = "The guest has no agent that could read what its system recorded."
		return nil
	}
	raw.Keep(boot.System, log)
	return err
}

// ReadSystem asks the agent at a path what the system that it runs in recorded about its
// boot: a wire.BootLog.
func ReadSystem(ctx context.Context, c conn.Conn, agent string) ([]byte, error) {
	out, said := &conn.Head{Limit: wire.MaxBootLog}, &conn.Tail{Limit: 4 << 10}
	exit, err := c.Exec(ctx, conn.Cmd{Argv: []string{agent, "boot-log"}, Stdout: out, Stderr: said})
	switch {
	case err != nil:
		return nil, fault.Op("boot-log", err)
	case out.Cut:
		return nil, fault.New(fault.Lab, "boot-log: the record is longer than %d MiB", wire.MaxBootLog>>20)
	case !exit.OK():
		return nil, fault.New(fault.Lab, "boot-log: %v: %s", exit, safetext.LastLines(string(said.Bytes()), 1))
	}
	return out.Bytes(), nil
}

// momentOf is a moment of a driver in the life of an environment.
func momentOf(x driver.Moment, l execution.Life) boot.Moment {
	out := boot.Moment{Name: x.Name, AtNS: x.At.Sub(l.Asked).Nanoseconds(), How: x.How}
	if x.Uncertainty >= 0 {
		out.UncertaintyNS = new(x.Uncertainty.Nanoseconds())
	}
	return out
}
