package machine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Instance is a machine, in one of its boots.
type Instance struct {
	conn.Conn
	machine       Machine // nil: this machine
	kernel        kernel
	options       options
	spec          driver.Spec
	info          driver.Info
	prefix        []string // holds programs to the limits
	before, after string   // boots
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
	_ driver.Storer   = (*Instance)(nil)
)

// removeTime bounds the removal of what an environment made.
const removeTime = time.Minute

// build makes the folders of an environment, in a state folder that may not outlive a
// reboot, and finds out how its limits are held.
func (in *Instance) build(ctx context.Context) error {
	var err error
	if in.kernel, err = kernelOf(ctx, in.Conn, in.spec.Memo); err != nil {
		return err
	}
	in.info = driver.Info{Agent: in.spec.Agent, Scratch: path.Join(in.spec.Dir, "tmp"), OwnKernel: in.machine != nil,
		Volumes: map[string]string{}, HostCache: map[string]string{}, Facts: map[string]string{"system": in.kernel.goos}}
	if in.machine != nil {
		in.info.Agent = in.machine.Agent()
		in.info.Facts["hardware"] = in.machine.Machine().Hardware.CPU
	}
	if err := in.kernel.checkVolumes(in.spec.Volumes); err != nil {
		return err
	}
	if in.prefix, in.info.Limits, err = in.kernel.limit(ctx, in.Conn, in.spec, in.options); err != nil {
		return err
	}
	if _, err := conn.Output(ctx, in.Conn, "mkdir", "-p", in.info.Scratch); err != nil {
		return err
	}
	for _, v := range in.spec.Volumes {
		at, cached, err := volume.Mount(ctx, in.Conn, in.Conn, in.spec.Dir, v)
		if err != nil {
			return err
		}
		in.info.Volumes[v.Path] = at
		if cached != "" {
			in.info.HostCache[v.Path] = cached
		}
	}
	return nil
}

// Info describes the machine.
func (in *Instance) Info() driver.Info { return in.info }

// SettleVolume waits until everything written to a volume is on its backing.
func (in *Instance) SettleVolume(ctx context.Context, declared string) (volume.Usage, error) {
	for _, v := range in.spec.Volumes {
		if at, ok := in.info.Volumes[v.Path]; ok && v.Path == declared {
			return volume.Settle(ctx, in.Conn, in.spec.Dir, at, v)
		}
	}
	return volume.Usage{}, fault.New(fault.Invalid, "there is no volume %s", declared)
}

// Diagnose is the boot of the machine and what runs there for the environment: the machine
// has no console here.
func (in *Instance) Diagnose(ctx context.Context) []byte {
	out := []string{"system " + in.kernel.goos}
	if in.after != "" {
		out = append(out, "boot "+in.after)
	}
	list, err := in.kernel.processesOf(ctx, in.Conn, driver.Leftover{Label: in.spec.Label, Dir: in.spec.Dir})
	if err != nil {
		out = append(out, err.Error())
	}
	for _, p := range list[:min(len(list), 100)] {
		out = append(out, p.String())
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

// environ is the environment of programs: nothing of bakeoff's own, which would be a
// confounder.
func (in *Instance) environ() []string {
	home, uid := "/root", os.Getuid()
	if in.machine != nil {
		uid = in.machine.Machine().UID
	}
	switch {
	case uid != 0:
		home = in.info.Scratch
	case in.kernel.goos == "darwin":
		home = "/var/root"
	}
	return []string{"PATH=" + in.kernel.path(), "HOME=" + home, "LANG=C.UTF-8", Mark(in.spec.Label)}
}

// notFound and notExecutable are what env(1) returns if it could not execute the program.
const (
	notExecutable = 126
	notFound      = 127
)

// Exec runs a program on the machine, held to its limits. It ends with Close.
func (in *Instance) Exec(ctx context.Context, c conn.Cmd) (conn.Exit, error) {
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return conn.Exit{}, fault.New(fault.Invalid, "exec: no program named")
	case c.Dir != "" && !path.IsAbs(c.Dir):
		return conn.Exit{}, fault.New(fault.Invalid, "exec: directory %q is not absolute", c.Dir)
	case c.Dir == "":
		c.Dir = "/"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.life, cancel)()
	env := append(in.environ(), c.Env...)
	program := c.Argv
	if strings.Contains(program[0], "=") { // env would take it for a variable
		program = append([]string{"sh", "-c", `exec "$0" "$@"`}, program...)
	}
	whole := append(append([]string{}, in.prefix...), "env", "-i")
	what := c.Argv[0]
	c.Argv, c.Env, c.Group = append(append(whole, env...), program...), nil, ""
	exit, err := in.Conn.Exec(ctx, c)
	if err != nil || exit.Signal != "" || exit.Code != notFound && exit.Code != notExecutable {
		return exit, err
	}
	found, ferr := in.Conn.Exec(ctx, conn.Command(append(append([]string{"env", "-i"}, env...), "sh", "-c",
		`command -v "$1" >/dev/null || test -e "$1"`, "sh", what)...))
	if ferr == nil && found.Code == 1 || found.Code == notFound {
		return conn.Exit{}, fault.New(fault.NotFound, "exec %s: the machine has no such program", what)
	}
	return exit, nil
}

// Close ends the programs that were started through the instance, also those in the
// background, and unmounts its volumes. All else on the machine is left as it is.
func (in *Instance) Close(ctx context.Context) error {
	in.end()
	if in.kernel.goos == "" {
		return nil // nothing was made
	}
	_, err := in.kernel.reap(ctx, in.Conn, driver.Leftover{Label: in.spec.Label, Dir: in.spec.Dir}, false)
	return fault.Op("machine: close", err)
}

// Boots implements driver.Rebooted.
func (in *Instance) Boots() (before, after string) { return in.before, in.after }

// Patience implements driver.Rebooted.
func (in *Instance) Patience() time.Duration { return in.options.timeout }

// Connect implements driver.Rebooted.
func (in *Instance) Connect(ctx context.Context, port int) (net.Conn, error) {
	switch {
	case in.unknown != nil:
		return nil, in.unknown
	case in.machine == nil:
		return nil, fault.New(fault.Unsupported, "bakeoff does not reach this machine over SSH")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort(in.at.Addr().String(), strconv.Itoa(port)))
}

// process is a process of an environment.
type process struct {
	pid  int
	name string
}

func (p process) String() string { return fmt.Sprintf("process %d %s", p.pid, p.name) }
