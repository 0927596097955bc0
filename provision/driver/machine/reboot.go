package machine

import (
	"context"
	"fmt"
	"net"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lock"
	"bakeoff/provision/driver"
	"bakeoff/reach/answer"
	"bakeoff/reach/conn"
)

// The bounds and steps of a reboot.
const (
	commandLimit = 2 * time.Minute        // of the command that reboots
	aliveStep    = 50 * time.Millisecond  // between two questions to a system that shuts down
	aliveLimit   = 2 * time.Second        // of its answer
	knockStep    = 10 * time.Millisecond  // between two attempts to reach sshd
	pause        = 250 * time.Millisecond // between two attempts to connect
	attemptLimit = time.Minute            // of each: it may copy the agent
	refusalLimit = 30 * time.Second       // after a command that failed, for the machine to go down all the same
)

// reboot reboots the machine and returns when the agent answers in another boot.
func (in *Instance) reboot(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, in.options.timeout)
	defer cancel()
	began := time.Now()
	refused := in.order(bounded)
	for {
		if err := in.down(bounded, began, refused); err != nil {
			return in.late(ctx, began, err)
		}
		err := in.back(bounded)
		switch {
		case err != nil:
			return in.late(ctx, began, err)
		case in.Machine.Machine().Boot != in.before && in.young(bounded, began):
			in.after = in.Machine.Machine().Boot
			return nil
		}
		in.list = nil // it was slow, and not down
	}
}

// young reports whether the system that answers started after began, as far as its agent
// says how long it has run. The boot time that BSD systems have for a boot ID also changes
// when their clock is set.
func (in *Instance) young(ctx context.Context, began time.Time) bool {
	c, err := in.Clock(ctx)
	return err == nil && time.Duration(c.SystemNS) < time.Since(began)
}

// late says that the time is over, if that is so.
func (in *Instance) late(ctx context.Context, began time.Time, err error) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.Lab, "reboot", ctx.Err())
	}
	if time.Since(began) < in.options.timeout {
		return fault.Op("reboot", err)
	}
	return fault.WithFix(fault.Wrap(fault.Subject, fmt.Sprintf("the machine did not come back in %v after the command to "+
		"reboot", in.options.timeout), err), "look at its console, or raise boot-timeout")
}

// order starts the command that reboots. The channel has its error. The answer may be lost
// with the machine: what counts is whether it reboots.
func (in *Instance) order(ctx context.Context) <-chan error {
	argv := in.options.command
	if len(argv) == 0 {
		argv = rebooting(in.Machine.Machine().GOOS)
	}
	out := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, commandLimit)
		defer cancel()
		_, err := conn.Output(ctx, in.Machine, argv...)
		out <- err
	}()
	return out
}

// rebooting is the command that reboots a system in an orderly way.
func rebooting(goos string) []string {
	switch goos {
	case "linux": // shutdown is not everywhere
		return []string{"reboot"}
	case "illumos":
		return []string{"init", "6"}
	}
	return []string{"shutdown", "-r", "now"}
}

// down returns when the system that runs no longer answers.
func (in *Instance) down(ctx context.Context, began time.Time, refused <-chan error) error {
	last := time.Now()
	var why error
	for {
		asked := time.Now()
		bounded, cancel := context.WithTimeout(ctx, aliveLimit)
		err := in.Alive(bounded)
		cancel()
		if ctx.Err() != nil {
			return fault.New(fault.Lab, "it still answers in the boot before")
		}
		if err != nil {
			half := time.Since(last) / 2
			in.list = append(in.list, driver.Moment{Name: driver.MomentDown, At: last.Add(half), Uncertainty: half,
				How: "the agent of the boot before stopped answering"})
			return nil
		}
		last = asked
		select {
		case why = <-refused:
			refused = nil
		default:
		}
		if why != nil && time.Since(began) > refusalLimit {
			return fault.Op("the command to reboot failed", why)
		}
		if err := sleep(ctx, aliveStep); err != nil {
			return err
		}
	}
}

// back returns when the agent answers again, in whichever boot.
func (in *Instance) back(ctx context.Context) error {
	for {
		if err := in.knock(ctx); err != nil {
			return err
		}
		bounded, cancel := context.WithTimeout(ctx, attemptLimit)
		err := in.Reconnect(bounded)
		cancel()
		if err == nil || fault.Is(err, fault.Unsupported) && !lock.Refused(err) {
			return err
		}
		if serr := sleep(ctx, pause); serr != nil {
			return err
		}
	}
}

// knock returns when sshd answers, if the controller reaches it without a detour. The
// first answer of a boot is a moment.
func (in *Instance) knock(ctx context.Context) error {
	if in.unknown != nil {
		return nil
	}
	k := answer.Knock{Step: knockStep, Dial: func(ctx context.Context) (net.Conn, error) {
		return in.Connect(ctx, int(in.at.Port()))
	}}
	at, late, err := k.Wait(ctx, answer.Server{Via: answer.SSH, Port: int(in.at.Port())})
	if err == nil && !in.has(driver.MomentSSH) {
		in.list = append(in.list, driver.Moment{Name: driver.MomentSSH, At: at.Add(-late / 2), Uncertainty: late / 2,
			How: "sshd sent its banner to the controller"})
	}
	return err
}

func (in *Instance) has(name string) bool {
	for _, m := range in.list {
		if m.Name == name {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fault.Wrap(fault.Lab, "", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

// clockReadings is how often the clocks are compared. The comparison with the shortest
// round trip counts.
const clockReadings = 20

// Moments returns what was seen of the reboot. It compares the clock of the machine with
// the controller's.
func (in *Instance) Moments(ctx context.Context) (driver.Moments, error) {
	seen := driver.Moments{List: in.list, Absent: map[string]string{
		driver.MomentVCPU:     "only a record of the firmware says when the machine started, and it left none",
		driver.MomentFirmware: "only a record of the firmware says when it gave control away, and it left none",
		driver.MomentUserland: "no record of the system says when its first process started",
	}}
	shortest := time.Duration(-1)
	zero := driver.Moment{Name: driver.MomentClock, How: "the machine's monotonic clock was 0"}
	for range clockReadings {
		asked := time.Now()
		c, err := in.Clock(ctx)
		if err != nil {
			return seen, err
		}
		took := time.Since(asked)
		if c.SystemNS == 0 {
			break
		}
		if shortest < 0 || took < shortest {
			shortest = took
			zero.At, zero.Uncertainty = asked.Add(took/2-time.Duration(c.SystemNS)), took/2
		}
	}
	if shortest < 0 {
		why := "the agent of this system does not read its monotonic clock"
		seen.Absent[driver.MomentClock], seen.Absent[driver.MomentKernel] = why, why
		return seen, nil
	}
	kernel := zero
	kernel.Name, kernel.How = driver.MomentKernel, "the machine's monotonic clock was 0: its kernel began to keep time"
	seen.List = append(seen.List, zero, kernel)
	return seen, nil
}
