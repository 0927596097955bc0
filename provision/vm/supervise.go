package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/guest"
	"bakeoff/provision/vm/manifest"
)

// instance is a machine or a container that runs.
type instance interface {
	// describe adds what is known of it to a transition.
	describe(t *Transition)
	// ended is closed when it has ended by itself.
	ended() <-chan struct{}
	// result is why it ended; an error if it failed. The state Ready asks for a new start.
	result(ctx context.Context) (Transition, error)
	// stop asks it to end, and waits until it has or ctx ends.
	stop(ctx context.Context) error
	signal(ctx context.Context, number int) error
	// saveSnapshot keeps disks or written files, and says whether the memory is kept, too.
	saveSnapshot(ctx context.Context, id, dir string) (memory bool, err error)
	dropSnapshot(ctx context.Context, id string) error
	// close ends it by force, and removes what it used.
	close(ctx context.Context) error
}

// closeTime bounds the removal of what a guest used.
const closeTime = time.Minute

// supervisor holds one guest.
type supervisor struct {
	g        *Guest
	boot     Boot
	report   func(error) // called once: the guest runs, or why not
	requests chan asked
	log      *os.File
	// joined are the NICs of the guest in networks.
	joined []connection
	// daemons serve folders of this machine to a machine of a service.
	daemons []*guest.Process
	// extra is what this start has besides the manifest.
	extra Extra
	// reboot answers the command that waits for the guest to run again; nil without one.
	reboot func(error)
	// stopped tells that a command has stopped the guest, which then does not start again.
	stopped bool
}

type asked struct {
	request
	answer func(error)
}

// ErrAtOnce is the cause of the end of a context with which Supervise ends the guest by force.
var ErrAtOnce = errors.New("bakeoff ended the guest by force")

// Supervise starts the guest and holds it until it has ended. report is called once, when
// the guest runs or when it does not start. When ctx ends, as it does by SIGTERM, the guest
// is shut down, or ended by force if the cause is ErrAtOnce.
func (s *Store) Supervise(ctx context.Context, uuid string, report func(error)) (err error) {
	g, err := s.open(uuid)
	if err != nil {
		report(err)
		return err
	}
	held, err := lock.Try(g.Path(fileLife))
	if err != nil {
		err = fault.Op("guest "+uuid, err)
		report(err)
		return err
	}
	v := &supervisor{g: g, report: report, requests: make(chan asked)}
	remove := false
	defer func() {
		held.Release()
		if remove {
			err = errors.Join(err, g.remove(context.WithoutCancel(ctx)))
		}
	}()
	if err = s.reap(ctx, g); err == nil { // of a supervisor that was killed
		err = errors.Join(g.finish(ctx), g.sweepSnapshots(ctx, g.dropTag))
	}
	if err == nil {
		err = readJSON(g.Path(fileBoot), &v.boot)
	}
	if err == nil {
		v.log, err = os.OpenFile(g.Path(fileMessages), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		report(err)
		return err
	}
	defer v.log.Close()
	l, err := listenAt(g.Path(socketCtl))
	if err != nil {
		report(err)
		return err
	}
	defer l.Close()
	go serveRequests(l, v.pass)
	err = v.live(ctx)
	remove = v.boot.Remove && err == nil
	return err
}

// pass hands a request of a command to the loop that owns the guest.
func (v *supervisor) pass(r request, answer func(error)) {
	select {
	case v.requests <- asked{r, answer}:
	case <-time.After(closeTime):
		answer(fault.New(fault.Lab, "the guest is starting, stopping or being copied"))
	}
}

func (v *supervisor) note(t Transition) error {
	fmt.Fprintf(v.log, "%s %s %s\n", time.Now().UTC().Format(time.RFC3339), t.State, t.Why)
	return writeTransition(v.g.Path(fileJournal), t)
}

// live starts the guest, again if it is to be restarted, until it has ended.
func (v *supervisor) live(ctx context.Context) error {
	first, pause := true, time.Second
	for {
		began := time.Now()
		last, again, err := v.once(ctx, first)
		first = false
		if err != nil && last.State == "" {
			last = Transition{State: Failed, Why: err.Error()}
		}
		if !again && (v.stopped || !v.restarts(last)) || ctx.Err() != nil {
			return errors.Join(err, v.note(last))
		}
		if !again {
			if time.Since(began) > time.Minute {
				pause = time.Second
			}
			last.Why += fmt.Sprintf("; restarts in %v", pause)
		}
		last.State = Ready
		if err := v.note(last); err != nil {
			return err
		}
		if again {
			continue
		}
		if stopped, err := v.wait(ctx, pause); stopped || err != nil {
			return errors.Join(err, v.note(Transition{State: Stopped}))
		}
		pause = min(2*pause, time.Minute)
	}
}

// restarts tells whether a guest that has ended by itself starts again.
func (v *supervisor) restarts(last Transition) bool {
	now := v.g.Guest
	if err := readJSON(v.g.Path(fileManifest), &now); err != nil { // an update may have changed it
		now = v.g.Guest
	}
	switch now.Restart {
	case "always":
		return true
	case "on-failure":
		return last.State == Failed || last.Exit != nil && *last.Exit != 0
	}
	return false
}

// wait waits before a restart; a request to stop ends it.
func (v *supervisor) wait(ctx context.Context, pause time.Duration) (stopped bool, err error) {
	for end := time.After(pause); ; {
		select {
		case <-end:
			return false, nil
		case <-ctx.Done():
			return true, nil
		case a := <-v.requests:
			if a.Do == "stop" {
				a.answer(nil)
				return true, nil
			}
			a.answer(fault.New(fault.Lab, "the guest waits for its restart"))
		}
	}
}

// once starts the guest and returns when it has ended, with its last state. again asks for a
// new start.
func (v *supervisor) once(ctx context.Context, first bool) (last Transition, again bool, err error) {
	begin := Ready
	if v.g.State == Configured {
		begin = Provisioning
	}
	if err := v.note(Transition{State: begin}); err != nil {
		v.tell(first, err)
		return last, false, err
	}
	in, err := v.start(ctx)
	if err != nil {
		v.g.State = Failed
		_ = v.note(Transition{State: Failed, Why: err.Error()}) // before the command that waits looks
		v.tell(first, err)
		return last, false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, in.close(ctx))
	}()
	running := Transition{State: Running}
	in.describe(&running)
	v.g.State = Running
	if err := v.note(running); err != nil {
		v.tell(first, err)
		return last, false, err
	}
	v.tell(first, nil)
	return v.hold(ctx, in)
}

// tell answers the command that waits for the guest to run: the one that started the
// supervisor, or a reboot.
func (v *supervisor) tell(first bool, err error) {
	if first {
		v.report(err)
	}
	if v.reboot != nil {
		v.reboot(err)
		v.reboot = nil
	}
}

// rotateTime is the time between two looks at the size of the logs.
const rotateTime = 10 * time.Second

// hold answers requests until the guest has ended.
func (v *supervisor) hold(ctx context.Context, in instance) (last Transition, again bool, err error) {
	look := time.NewTicker(rotateTime)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			for _, name := range []string{fileConsole, fileMessages} {
				if err := rotate(v.g.Path(name), maxLog); err != nil {
					fmt.Fprintln(v.log, "rotate:", err)
				}
			}
			for _, c := range v.joined {
				if err := c.Serve(ctx); err != nil {
					fmt.Fprintln(v.log, "dnsmasq:", err)
				}
			}
			if err := v.serveFolders(ctx); err != nil {
				fmt.Fprintln(v.log, err)
			}
		case <-in.ended():
			last, err = in.result(ctx)
			if err != nil {
				last = Transition{State: Failed, Why: err.Error()}
			}
			if again = last.State == Ready; again {
				last.State = Stopped
			}
			return last, again, nil
		case <-ctx.Done():
			err := v.shutDown(context.WithoutCancel(ctx), in, Stop{Force: errors.Is(context.Cause(ctx), ErrAtOnce)})
			return Transition{State: Stopped, Why: "the supervisor was asked to end"}, false, err
		case a := <-v.requests:
			switch a.Do {
			case "stop":
				v.stopped = true
				err := v.shutDown(ctx, in, a.Stop)
				a.answer(err)
				return Transition{State: Stopped}, false, err
			case "reboot":
				err := v.shutDown(ctx, in, a.Stop)
				if err != nil {
					a.answer(err)
				} else {
					v.reboot = a.answer
				}
				return Transition{State: Stopped}, err == nil, err
			case "kill":
				a.answer(in.signal(ctx, a.Signal))
			case "limit":
				err := fault.New(fault.Unsupported, "the limits of the guest change at its next start")
				if l, ok := in.(interface {
					limit(ctx context.Context, l limited) error
				}); ok {
					err = l.limit(ctx, a.limited)
				}
				a.answer(err)
			case "resolvers":
				err := fault.New(fault.Unsupported, "the resolvers of the guest change at its next start")
				if c, ok := in.(*container); ok {
					err = c.Push(ctx, fileResolvers, 0o644, strings.NewReader(v.resolvConf(a.Resolvers)))
				}
				a.answer(err)
			case "screen":
				err := fault.New(fault.Unsupported, "the screen of the guest changes at its next start")
				if m, ok := in.(*machine); ok {
					if err = m.changeScreen(ctx, a.VNCPort, a.VNCPassword); err == nil {
						running := Transition{State: Running}
						in.describe(&running)
						err = v.note(running)
					}
				}
				a.answer(err)
			case "resize":
				if c, ok := in.(*container); ok && c.keys != nil {
					go func() { a.answer(c.keys.resize(a.Size)) }() // a program that reads nothing holds nothing up
				} else {
					a.answer(fault.New(fault.Unsupported, "the program of the guest has no terminal"))
				}
			case "finish":
				err := fault.New(fault.Unsupported, "the disks of the guest change at its next start")
				if m, ok := in.(*machine); ok {
					*a.live, err = m.finishLive(ctx)
				}
				a.answer(err)
			case "foresee":
				if m, ok := in.(*machine); ok && a.Boot != nil {
					*a.live = m.foresee(*a.Boot, a.Grow)
				}
				a.answer(nil)
			case "snapshot":
				a.answer(v.g.takeSnapshot(ctx, a.Name, in))
			case "drop-snapshot":
				a.answer(v.g.loseSnapshot(ctx, a.Name, in.dropSnapshot))
			default:
				a.answer(fault.New(fault.Invalid, "unknown request %q", a.Do))
			}
		}
	}
}

// grace is how long guests may take to shut down: vmadm's times.
func (v *supervisor) grace() time.Duration {
	switch {
	case v.boot.Container == nil:
		return 180 * time.Second
	case v.g.Brand == "docker":
		return 10 * time.Second
	}
	return time.Minute
}

// shutDown asks the guest to end. The caller closes it, which ends it by force.
func (v *supervisor) shutDown(ctx context.Context, in instance, how Stop) error {
	if err := v.note(Transition{State: Stopping}); err != nil || how.Force {
		return err
	}
	if how.Grace <= 0 {
		how.Grace = v.grace()
	}
	ctx, cancel := context.WithTimeout(ctx, how.Grace)
	defer cancel()
	if err := in.stop(ctx); err != nil {
		fmt.Fprintln(v.log, "stop:", err)
	}
	return nil
}

func (v *supervisor) start(ctx context.Context) (instance, error) {
	var m manifest.Guest
	var b Boot
	err := v.g.finish(ctx) // of a command that was killed while the guest ran
	if err == nil {
		err = errors.Join(readJSON(v.g.Path(fileManifest), &m), readJSON(v.g.Path(fileBoot), &b))
	}
	if err == nil && m.Brand.Machine() {
		err = v.g.sweepDisks() // those that were removed while the machine ran
	}
	if err != nil {
		return nil, err
	}
	v.g.Guest, v.boot = m, b // updates take effect now
	v.boot.Ports = nil
	for _, text := range v.g.Ports {
		p, err := ParsePort(text)
		if err != nil {
			return nil, err
		}
		v.boot.Ports = append(v.boot.Ports, p)
	}
	err = v.g.writeMetadata()
	if err == nil {
		v.extra, err = v.g.takeExtra()
	}
	if err != nil {
		return nil, err
	}
	switch {
	case v.boot.Container != nil:
		return v.startContainer(ctx)
	case v.g.Driver == manifest.Firecracker:
		return v.startFirecracker(ctx)
	case v.g.Driver == manifest.DriverBhyve:
		return v.startBhyve(ctx)
	}
	return v.startMachine(ctx)
}

// maxLog is the size at which a log is rotated, in bytes. One older file is kept.
const maxLog = 10 << 20

// rotate copies a log that is too long to FILE.1 and empties it. Its writer appends.
func rotate(name string, limit int64) error {
	from, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || info.Size() < limit {
		return err
	}
	to, err := os.OpenFile(name+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".part", name+".1"); err != nil {
		return err
	}
	return from.Truncate(0)
}

// Start starts the guest, unless it runs. launch starts a process that calls Supervise, and
// returns what it reported.
func (g *Guest) Start(ctx context.Context, launch func(uuid string) error) error {
	return g.StartWith(ctx, Extra{}, launch)
}

// StartWith is Start with what only this start has.
func (g *Guest) StartWith(ctx context.Context, x Extra, launch func(uuid string) error) error {
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	if g.Supervisor != 0 {
		return nil
	}
	if err := g.prepareExtra(ctx, x); err != nil {
		return err
	}
	if err := errors.Join(g.store.reap(ctx, g), g.setAutoboot(true)); err != nil {
		return err
	}
	if err := launch(g.UUID); err != nil {
		return err
	}
	return g.refreshUnlessRemoved()
}

// refreshUnlessRemoved is refresh for a guest that may have ended and removed itself.
func (g *Guest) refreshUnlessRemoved() error {
	if err := g.refresh(); !fault.Is(err, fault.NotFound) {
		return err
	}
	g.Status = Status{State: Stopped}
	return nil
}

// Stop shuts the guest down, unless it is stopped. It does not start with the host any more.
func (g *Guest) Stop(ctx context.Context, how Stop) error {
	held, err := g.change(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	wasRemoved := func() bool { _, err := os.Stat(g.Path("")); return errors.Is(err, os.ErrNotExist) }
	if !how.KeepAutoboot {
		if err := g.setAutoboot(false); err != nil {
			return err
		}
	}
	crashed := g.Supervisor == 0 && g.State == Failed
	if err := g.end(ctx, how); err != nil && !wasRemoved() {
		return err
	}
	if crashed {
		return writeTransition(g.Path(fileJournal), Transition{State: Stopped})
	}
	return g.refreshUnlessRemoved()
}

// Reboot shuts the guest down and starts it again.
func (g *Guest) Reboot(ctx context.Context, how Stop) error {
	if err := g.mustRun(); err != nil {
		return err
	}
	return g.ask(ctx, request{Do: "reboot", Stop: how})
}

// Kill sends a signal to the first process of a container, or ends a machine.
func (g *Guest) Kill(ctx context.Context, number int) error {
	if err := g.mustRun(); err != nil {
		return err
	}
	return g.ask(ctx, request{Do: "kill", Signal: number})
}

func (g *Guest) mustRun() error {
	if g.State == Running {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "guest %s is not running: it is %s", g.UUID, g.State),
		"run `bakeoff vm start "+g.UUID+"`")
}

// Printed is the end of what the guest printed: whole lines of at most n bytes.
func (g *Guest) Printed(n int64) string {
	text := tailOf(g.ConsoleLog(), n)
	if _, lines, ok := strings.Cut(text, "\n"); ok && int64(len(text)) >= n {
		return lines
	}
	return text
}

// tailOf returns the end of a file, at most n bytes.
func tailOf(name string, n int64) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > n {
		_, _ = f.Seek(info.Size()-n, io.SeekStart)
	}
	b, _ := io.ReadAll(io.LimitReader(f, n))
	return strings.ToValidUTF8(string(b), "�")
}

// dirOf is the folder of a guest.
func (s *Store) dirOf(uuid string) string { return filepath.Join(s.Dir(), uuid) }
