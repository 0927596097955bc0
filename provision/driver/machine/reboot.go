package machine

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/reboot"
	"bakeoff/reach/readiness"
)

// knockStep is the time between two attempts to reach sshd.
const knockStep = 10 * time.Millisecond

// reboot reboots the machine and returns when the agent answers in another boot.
func (in *Instance) reboot(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, in.options.timeout)
	defer cancel()
	err := reboot.AndWait(bounded, in.machine, reboot.Options{Command: in.options.command, Down: in.addDown,
		Knock: in.waitForSSH})
	switch {
	case err == nil:
		in.after = in.machine.Machine().Boot
		return nil
	case ctx.Err() != nil:
		return fault.Wrap(fault.Lab, "reboot", ctx.Err())
	case bounded.Err() == nil:
		return fault.Op("reboot", err)
	}
	return fault.WithFix(fault.Wrap(fault.Subject, fmt.Sprintf("the machine did not come back in %v after the command to "+
		"reboot", in.options.timeout), err), "look at its console, or raise boot-timeout")
}

// addDown begins the list of moments: what was seen before was of a machine that was slow,
// and not down.
func (in *Instance) addDown(at time.Time, uncertainty time.Duration) {
	in.list = []driver.Moment{{Name: bootmodel.MarkDown, At: at, Uncertainty: uncertainty,
		How: "the agent of the boot before stopped answering"}}
}

// waitForSSH returns when sshd answers, if the controller reaches it without a detour. The
// first answer of a boot is a moment.
func (in *Instance) waitForSSH(ctx context.Context) error {
	if in.unknown != nil {
		return nil
	}
	k := readiness.Knock{Step: knockStep, Dial: func(ctx context.Context) (net.Conn, error) {
		return in.Connect(ctx, int(in.at.Port()))
	}}
	at, late, err := k.Wait(ctx, readiness.Server{Via: readiness.SSH, Port: int(in.at.Port())})
	seen := slices.ContainsFunc(in.list, func(m driver.Moment) bool { return m.Name == bootmodel.MarkSSH })
	if err == nil && !seen {
		in.list = append(in.list, driver.Moment{Name: bootmodel.MarkSSH, At: at.Add(-late / 2), Uncertainty: late / 2,
			How: "sshd sent its banner to the controller"})
	}
	return err
}

// clockReadings is how often the clocks are compared. The comparison with the shortest
// round trip counts.
const clockReadings = 20

// Moments returns what was seen of the reboot. It compares the clock of the machine with
// the controller's.
func (in *Instance) Moments(ctx context.Context) (driver.Moments, error) {
	seen := driver.Moments{List: in.list, Absent: map[string]string{
		bootmodel.MarkVCPU:     "only a record of the firmware says when the machine started, and it left none",
		bootmodel.MarkFirmware: "only a record of the firmware says when it gave control away, and it left none",
		bootmodel.MarkUserland: "no record of the system says when its first process started",
	}}
	shortest := time.Duration(-1)
	zero := driver.Moment{Name: bootmodel.MarkClock, How: "the machine's monotonic clock was 0"}
	for range clockReadings {
		asked := time.Now()
		if in.machine == nil {
			break
		}
		c, err := in.machine.Clock(ctx)
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
		why := "the agent cannot read the monotonic clock of this system"
		seen.Absent[bootmodel.MarkClock], seen.Absent[bootmodel.MarkKernel] = why, why
		return seen, nil
	}
	kernel := zero
	kernel.Name, kernel.How = bootmodel.MarkKernel, "the machine's monotonic clock was 0: its kernel began to keep time"
	seen.List = append(seen.List, zero, kernel)
	return seen, nil
}
