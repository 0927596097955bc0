// Package machine is the driver for a whole machine as it stands: this one, or one that is
// reached over SSH. There is nothing between the machine and its programs, and no control
// group is needed. With the workload boot, a fresh environment is the machine after a reboot.
package machine

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"path"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/reboot"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// Driver gives whole machines.
type Driver struct{}

// The options.
const (
	optAsIs    = "as-is"
	optSet     = "processor-set"
	optReboot  = "reboot"
	optCommand = "reboot-command"
	optTimeout = "boot-timeout"
)

var specs = []param.Spec{
	{Name: optAsIs, Kind: param.Bool, Default: "false", Doc: "Whether bakeoff measures the machine without the " +
		"limits that its system cannot enforce, and lists these limits as confounders on the page of the run. With " +
		"false, bakeoff refuses such limits. reboot: true implies as-is: true."},
	{Name: optSet, Kind: param.Text, Doc: "On illumos: the number of the processor set (psrset -c), or the name of " +
		"the resource pool, in which programs run. Required on illumos if the contender has more than one CPU. " +
		"bakeoff does not create processor sets, because a set takes its CPUs away from all other programs."},
	{Name: optReboot, Kind: param.Bool, Default: "false", Doc: "Whether bakeoff may reboot the machine. Each trial " +
		"of the workload boot reboots the machine once, which ends all programs on it."},
	{Name: optCommand, Kind: param.List, Doc: "The command that reboots the machine, as [program, argument]. The " +
		"default is reboot on Linux, init 6 on illumos, and shutdown -r now elsewhere."},
	{Name: optTimeout, Kind: param.Duration, Default: "10m0s", Doc: "Maximum time from the reboot command until " +
		"bakeoff-agent answers after the reboot. On servers, the firmware alone takes minutes."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name: "machine",
		Also: map[string]string{"reboot": "machine", "server": "machine"},
		Summary: "a bare machine as it is: this machine, or one that SSH reaches. Unlike the driver host, this " +
			"driver works on any operating system, without root and control groups. It uses the machine's own " +
			"network, and enforces only the limits that the operating system offers",
		Status: driver.Proven,
		Hosts:  []string{"linux", "freebsd", "openbsd", "netbsd", "dragonfly", "illumos", "darwin"}, Whole: true,
		ProvenOn: []string{"linux"},
		Options:  specs,
		Backings: slices.DeleteFunc(volume.Backings(), func(b string) bool { return b == volume.NFS }),
		Enforces: map[string]string{
			"cpus": "sched_setaffinity on Linux, cpuset on FreeBSD, schedctl on NetBSD, usched on DragonFly, and " +
				"pbind, a processor set or a resource pool on illumos; not enforced on OpenBSD and macOS",
			"memory": "an rctl rule for each program, on FreeBSD with kern.racct.enable=1; not enforced elsewhere",
		},
		Tuning: driver.Tuning{Why: "bakeoff does not change the settings of a bare machine"},
		Source: []string{"random(4): boot_id", "reboot(8)", "org.freedesktop.systemd1(5)", "sched_setaffinity(2)",
			"cpuset(1)", "rctl(8)", "schedctl(8)", "usched(8)", "pbind(8)", "psrset(8)", "poolbind(8)", "ps(1)"},
	}
}

// Machine is a connection to a whole machine that outlives its reboots. *ssh.Conn is one.
type Machine interface {
	reboot.Machine
	conn.Files
	// Agent is the path of bakeoff-agent there.
	Agent() string
	// Direct is where the controller reaches sshd of the machine without a detour.
	Direct(ctx context.Context) (netip.AddrPort, error)
}

// options are the options of one machine.
type options struct {
	asIs, allowed bool
	set           string
	command       []string
	timeout       time.Duration
}

func decode(v param.Values) (options, error) {
	all, err := driver.Options(specs, v)
	return options{all.Bool(optAsIs), all.Bool(optReboot), all.Text(optSet), all.List(optCommand),
		all.Duration(optTimeout)}, err
}

// Check tells whether bakeoff can measure on the host and, if the options allow reboots,
// whether it can and may reboot it.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	o, err := decode(values)
	if err != nil {
		return driver.Unavailable(err)
	}
	k, err := kernelOf(ctx, host, nil)
	if err != nil {
		return driver.Unavailable(err)
	}
	a := driver.Availability{OK: true, Facts: map[string]string{"system": k.goos}}
	m, remote := host.(Machine)
	if remote {
		a.Facts["boot"] = m.Machine().Boot
	}
	switch {
	case !o.allowed:
	case !remote:
		return driver.Availability{Reason: "this is the machine that bakeoff runs on, and bakeoff does not reboot it",
			Fix: reboot.UseAnother}
	default:
		if err := mayReboot(m.Machine(), o); err != nil {
			return driver.Unavailable(err)
		}
	}
	return a
}

// mayReboot refuses a reboot without permission, and what reboot.Check refuses.
func mayReboot(m channel.Machine, o options) error {
	if err := reboot.Check(m); err != nil {
		return err
	}
	if m.UID != 0 && len(o.command) == 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "the user with the ID %d may not reboot the machine", m.UID),
			"reach it as root, or write reboot-command: [sudo, -n, reboot]")
	}
	return permitted(o)
}

// permitted refuses what the lab file does not allow.
func permitted(o options) error {
	if o.allowed {
		return nil
	}
	return fault.WithFix(fault.New(fault.Unsupported, "the lab file does not allow bakeoff to reboot the machine"),
		"write reboot: true if nobody else needs the machine")
}

// Validate refuses what no machine could give.
func (d Driver) Validate(spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		err = d.Doc().Tuning.Check(spec.Tuning)
	}
	if err != nil {
		return err
	}
	switch {
	case !name.ValidLabel(spec.Label):
		return fault.New(fault.Invalid, "label must have 1 to 40 of the characters a-z, 0-9 and - (got %q)", spec.Label)
	case !path.IsAbs(spec.Dir) || path.Clean(spec.Dir) == "/":
		return fault.New(fault.Invalid, "directory must be an absolute path below / (got %q)", spec.Dir)
	case len(spec.CPUSet) == 0:
		return fault.New(fault.Invalid, "the CPU set is empty")
	}
	for _, v := range spec.Volumes {
		if err := volume.Check(v); err != nil {
			return err
		}
	}
	if spec.Watch {
		return permitted(o)
	}
	return nil
}

// ValidateOn refuses the limits that the system of host cannot hold, unless the lab file
// takes the machine as it is, and volumes that bakeoff cannot make there. A limit of 0 is
// not asked for.
func (d Driver) ValidateOn(ctx context.Context, host conn.Conn, spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err != nil {
		return err
	}
	k, err := kernelOf(ctx, host, spec.Memo)
	if err != nil {
		return err
	}
	if err := k.checkVolumes(spec.Volumes); err != nil || o.asIs || o.allowed {
		return err
	}
	_, limits, err := k.limit(ctx, host, spec, o)
	if err != nil {
		return err
	}
	for _, what := range slices.Sorted(maps.Keys(limits.NotEnforced)) {
		return fault.WithFix(fault.New(fault.Unsupported, "the contender has a limit for %s, but %s", what,
			limits.NotEnforced[what]), "write as-is: true to measure without the limit, which the page then lists as a "+
			"confounder; or remove the limit"+k.elsewhere())
	}
	return nil
}

// Create returns the machine. With spec.Watch it reboots the machine before, and returns
// when bakeoff-agent answers in the new boot. A machine that does not come back within the
// option boot-timeout is an error of kind fault.Subject. A limit that the system cannot hold
// is in Info.Limits.NotEnforced.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	in, err := d.create(ctx, host, spec)
	if err != nil {
		return nil, fault.Op("machine", err)
	}
	return in, nil
}

func (d Driver) create(ctx context.Context, host conn.Conn, spec driver.Spec) (*Instance, error) {
	if err := d.Validate(spec); err != nil {
		return nil, err
	}
	o, err := decode(spec.Options)
	if err != nil {
		return nil, err
	}
	m, remote := host.(Machine)
	if spec.Watch && !remote {
		return nil, fault.WithFix(fault.New(fault.Unsupported,
			"bakeoff does not reboot the machine that it runs on"), reboot.UseAnother)
	}
	in := &Instance{Conn: host, options: o, spec: spec}
	in.life, in.end = context.WithCancel(context.Background())
	if remote {
		in.machine, in.before, in.after = m, m.Machine().Boot, m.Machine().Boot
		if in.at, in.unknown = m.Direct(ctx); spec.Watch {
			if err := in.reboot(ctx); err != nil {
				return nil, err
			}
		}
	}
	if err := in.build(ctx); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		return nil, errors.Join(err, in.Close(clean))
	}
	return in, nil
}

// Reap ends the processes that an environment left on the machine, and unmounts its volumes.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	k, err := kernelOf(ctx, host, nil)
	if err != nil {
		return nil, err
	}
	return k.reap(ctx, host, left, dryRun)
}

// reap is Reap for a known system.
func (k kernel) reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	found, err := k.reapProcesses(ctx, host, left, dryRun)
	if k.goos != "linux" { // it has only volumes that are folders
		return found, err
	}
	more, merr := isolation.ReapMounts(ctx, host, left.Dir, dryRun)
	return append(found, more...), errors.Join(err, merr)
}
