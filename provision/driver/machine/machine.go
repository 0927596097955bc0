// Package machine is the driver for a whole machine that is reached over SSH. There is
// nothing between the machine and its programs. A fresh environment is the machine after a
// reboot.
package machine

import (
	"context"
	"net"
	"net/netip"
	"path"
	"strconv"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/reboot"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
)

// Driver gives whole machines.
type Driver struct{}

// The options.
const (
	optReboot  = "reboot"
	optCommand = "reboot-command"
	optTimeout = "boot-timeout"
)

var specs = []param.Spec{
	{Name: optReboot, Kind: param.Bool, Default: "false", Doc: "Whether bakeoff may reboot the machine. Each trial of " +
		"the workload boot does so once, which ends everything that runs on the machine."},
	{Name: optCommand, Kind: param.List, Doc: "The command that reboots, as [program, argument]. Without it, that is " +
		"reboot on Linux, init 6 on illumos, and shutdown -r now elsewhere."},
	{Name: optTimeout, Kind: param.Duration, Default: "10m0s", Doc: "Maximum time from the command until " +
		"bakeoff-agent answers in the new boot. The firmware of servers alone takes minutes."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name: "machine",
		Also: map[string]string{"reboot": "machine", "server": "machine"},
		Summary: "a whole machine that is reached over SSH, without limits; the workload boot reboots it if the option " +
			"reboot allows that",
		Status: driver.Proven,
		Hosts:  []string{"linux", "freebsd", "openbsd", "netbsd", "dragonfly", "illumos"}, Root: true, Whole: true,
		Options: specs,
		Tuning:  driver.Tuning{Why: "the settings of the machine are its own"},
		Source:  []string{"random(4): boot_id", "reboot(8)", "org.freedesktop.systemd1(5)"},
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
	allowed bool
	command []string
	timeout time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Bool(optReboot), set.List(optCommand), set.Duration(optTimeout)}, err
}

// Check tells whether bakeoff can and may reboot the host.
func (Driver) Check(_ context.Context, host conn.Conn, values param.Values) driver.Availability {
	m, ok := host.(Machine)
	if !ok {
		return driver.Availability{Reason: "this is the machine that bakeoff runs on, and bakeoff does not reboot it",
			Fix: reboot.UseAnother}
	}
	o, err := decode(values)
	if err == nil {
		err = mayReboot(m.Machine(), o)
	}
	if err != nil {
		return refused(err)
	}
	of := m.Machine()
	return driver.Availability{OK: true, Facts: map[string]string{"boot": of.Boot, "system": of.GOOS}}
}

func refused(err error) driver.Availability {
	return driver.Availability{Reason: err.Error(), Fix: fault.Fix(err)}
}

// mayReboot refuses a reboot without permission, and what reboot.Check refuses.
func mayReboot(m channel.Machine, o options) error {
	if err := reboot.Check(m); err != nil {
		return err
	}
	if m.UID != 0 && len(o.command) == 0 {
		return fault.WithFix(fault.New(fault.Unsupported, "the user with the number %d may not reboot it", m.UID),
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
	switch {
	case err != nil:
		return err
	case len(spec.Volumes) > 0:
		return fault.WithFix(fault.New(fault.Unsupported, "the driver machine makes no volumes"), "remove volumes")
	}
	return permitted(o)
}

// Create returns the machine. With spec.Watch it reboots the machine before, and returns
// when bakeoff-agent answers in the new boot. A machine that does not come back within the
// option boot-timeout is an error of kind fault.Subject.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	m, ok := host.(Machine)
	if !ok {
		return nil, fault.WithFix(fault.New(fault.Unsupported,
			"machine: bakeoff does not reboot the machine that it runs on"), reboot.UseAnother)
	}
	if err := d.Validate(spec); err != nil {
		return nil, fault.Op("machine", err)
	}
	o, err := decode(spec.Options)
	if err != nil {
		return nil, fault.Op("machine", err)
	}
	in := &Instance{Machine: m, options: o, spec: spec, before: m.Machine().Boot, after: m.Machine().Boot}
	in.life, in.end = context.WithCancel(context.Background())
	if in.at, in.unknown = m.Direct(ctx); spec.Watch {
		err = in.reboot(ctx)
	}
	if err == nil {
		err = in.scratch(ctx)
	}
	if err != nil {
		return nil, fault.Op("machine", err)
	}
	return in, nil
}

// Reap finds nothing: a machine is left as it is.
func (Driver) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, nil
}

// Instance is a machine, in one of its boots.
type Instance struct {
	Machine
	options       options
	spec          driver.Spec
	before, after string // boots
	at            netip.AddrPort
	unknown       error // why at is not known
	list          []driver.Moment
	life          context.Context // of the programs that were started through it
	end           context.CancelFunc
}

var (
	_ driver.Instance = (*Instance)(nil)
	_ driver.Rebooted = (*Instance)(nil)
	_ driver.Watched  = (*Instance)(nil)
)

// scratch makes the scratch folder, in a state folder that may not outlive a reboot.
func (in *Instance) scratch(ctx context.Context) error {
	_, err := conn.Output(ctx, in.Machine, "mkdir", "-p", in.tmp())
	return err
}

func (in *Instance) tmp() string { return path.Join(in.spec.Dir, "tmp") }

// Info describes the machine.
func (in *Instance) Info() driver.Info {
	of := in.Machine.Machine()
	why := "the environment is the whole machine"
	return driver.Info{Agent: in.Agent(), Scratch: in.tmp(), OwnKernel: true,
		Limits: facts.Limits{NotEnforced: map[string]string{"cpus": why, "memory": why, "quota": why, "io": why}},
		Facts:  map[string]string{"system": of.GOOS, "hardware": of.Hardware.CPU}}
}

// Diagnose is the boot of the machine: it has no console here.
func (in *Instance) Diagnose(context.Context) []byte { return []byte("boot " + in.after + "\n") }

// Exec runs a program on the machine. It ends with Close.
func (in *Instance) Exec(ctx context.Context, c conn.Cmd) (conn.Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.life, cancel)()
	return in.Machine.Exec(ctx, c)
}

// Close ends the programs that were started through the instance, and leaves the machine as
// it is.
func (in *Instance) Close(context.Context) error {
	in.end()
	return nil
}

// Boots implements driver.Rebooted.
func (in *Instance) Boots() (before, after string) { return in.before, in.after }

// Patience implements driver.Rebooted.
func (in *Instance) Patience() time.Duration { return in.options.timeout }

// Connect implements driver.Rebooted.
func (in *Instance) Connect(ctx context.Context, port int) (net.Conn, error) {
	if in.unknown != nil {
		return nil, in.unknown
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(in.at.Addr().String(), strconv.Itoa(port)))
}
