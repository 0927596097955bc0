// Package reboot reboots a machine that is reached over SSH, and waits until it answers in
// another boot. It reboots no machine that could be the controller's own.
package reboot

import (
	"context"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/base/sleep"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/probe"
)

// Machine is a connection to a whole machine that outlives its reboots. *ssh.Conn is one.
type Machine interface {
	conn.Conn
	// Machine is what the agent reported at the last connection.
	Machine() channel.Machine
	// Clock reads the clocks of the machine.
	Clock(ctx context.Context) (channel.Clock, error)
	// Alive asks the current session for an answer, without connecting again.
	Alive(ctx context.Context) error
	// Reconnect makes one attempt to connect again. An error of kind fault.Unsupported is
	// final, except for a lock that the session before still holds.
	Reconnect(ctx context.Context) error
}

// UseAnother is the fix for a machine that bakeoff does not reboot.
const UseAnother = "write host: with a machine of hosts: that bakeoff reaches over SSH"

// Check refuses the machine that bakeoff runs on, and one whose reboot could not be proven.
// Errors are of kind fault.Unsupported.
func Check(m channel.Machine) error { return checkOther(m, probe.Boot(), probe.ReadHardware()) }

// checkOther is Check on a controller in this boot, with this hardware.
func checkOther(m channel.Machine, boot string, own facts.Hardware) error {
	by, _ := own.Same(m.Hardware)
	switch {
	case boot != "" && boot == m.Boot:
		return fault.WithFix(fault.New(fault.Unsupported, "the host is the machine that bakeoff runs on, or a "+
			"container there: both have the same boot ID"), UseAnother)
	case by != "":
		return fault.WithFix(fault.New(fault.Unsupported, "the host is the machine that bakeoff runs on: both "+
			"have the %s", by),
			UseAnother)
	case m.Boot == "":
		return fault.New(fault.Unsupported, "bakeoff cannot distinguish two boots of this system")
	}
	return nil
}

// Options are how a machine is rebooted.
type Options struct {
	// Command reboots; nil is the one of the machine's system.
	Command []string
	// Pause is the time between two attempts to connect; 0 is 250 ms.
	Pause time.Duration
	// Down is called when the system before stops answering: at a time that is known to
	// plus or minus uncertainty. If the machine was only slow, it is called again. nil
	// ignores it.
	Down func(at time.Time, uncertainty time.Duration)
	// Knock returns when an attempt to connect makes sense; nil tries at once.
	Knock func(ctx context.Context) error
}

// The bounds and steps of a reboot.
const (
	commandLimit = 2 * time.Minute        // of the command that reboots
	aliveStep    = 50 * time.Millisecond  // between two questions to a system that shuts down
	aliveLimit   = 2 * time.Second        // of its answer
	pause        = 250 * time.Millisecond // between two attempts to connect
	attemptLimit = time.Minute            // of each: it may copy the agent
	refusalLimit = 30 * time.Second       // after a command that failed, for the machine to go down all the same
)

// AndWait reboots the machine and returns when the agent answers in another boot, or when
// ctx ends. It calls Check first. An error of kind fault.Unsupported says that the machine
// was refused, or that another one answers in its place.
func AndWait(ctx context.Context, m Machine, o Options) error {
	before := m.Machine()
	if err := Check(before); err != nil {
		return err
	}
	r := rebooting{Machine: m, Options: o, began: time.Now()}
	r.refused = r.startCommand(ctx, before.GOOS)
	for {
		if err := r.waitDown(ctx); err != nil {
			return err
		}
		if err := r.connectAgain(ctx); err != nil {
			return err
		}
		if m.Machine().Boot != before.Boot && r.startedSince(ctx) {
			return nil
		}
	}
}

// rebooting is a reboot that takes place.
type rebooting struct {
	Machine
	Options
	began   time.Time
	refused <-chan error // of the command
}

// startedSince reports whether the system that answers started after the reboot began, as
// far as its agent says how long it has run. The boot time that BSD systems have for a boot
// ID also changes when their clock is set.
func (r *rebooting) startedSince(ctx context.Context) bool {
	c, err := r.Clock(ctx)
	return err == nil && time.Duration(c.SystemNS) < time.Since(r.began)
}

// startCommand starts the command that reboots. The channel has its error. The answer may
// be lost with the machine: what counts is whether it reboots.
func (r *rebooting) startCommand(ctx context.Context, goos string) <-chan error {
	argv := r.Command
	if len(argv) == 0 {
		argv = commandOf(goos)
	}
	out := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, commandLimit)
		defer cancel()
		_, err := conn.Output(ctx, r.Machine, argv...)
		out <- err
	}()
	return out
}

// commandOf is the command that reboots a system in an orderly way.
func commandOf(goos string) []string {
	switch goos {
	case "linux": // shutdown is not everywhere
		return []string{"reboot"}
	case "illumos":
		return []string{"init", "6"}
	}
	return []string{"shutdown", "-r", "now"}
}

// waitDown returns when the system that runs no longer answers.
func (r *rebooting) waitDown(ctx context.Context) error {
	last := time.Now()
	var why error
	for {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, aliveLimit)
		err := r.Alive(bounded)
		cancel()
		if ctx.Err() != nil {
			return fault.New(fault.Lab, "the host answers but has not rebooted")
		}
		if err != nil {
			half := time.Since(last) / 2
			if r.Down != nil {
				r.Down(last.Add(half), half)
			}
			return nil
		}
		last = asked
		select {
		case why = <-r.refused:
			r.refused = nil
		default:
		}
		if why != nil && time.Since(r.began) > refusalLimit {
			return fault.Op("the command to reboot failed", why)
		}
		_ = sleep.For(ctx, aliveStep)
	}
}

// connectAgain returns when the agent answers again, in whichever boot.
func (r *rebooting) connectAgain(ctx context.Context) error {
	for {
		if r.Knock != nil {
			if err := r.Knock(ctx); err != nil {
				return err
			}
		}
		bounded, cancel := context.WithTimeout(ctx, attemptLimit)
		err := r.Reconnect(bounded)
		cancel()
		if err == nil || fault.Is(err, fault.Unsupported) && !lock.Refused(err) {
			return err
		}
		step := r.Pause
		if step <= 0 {
			step = pause
		}
		if sleep.For(ctx, step) != nil {
			return err
		}
	}
}
