// Package confine is what the environments that share the host's kernel have
// in common: a control group with the limits, a network namespace, a root
// over an image, volumes, and a way in.
//
// A driver makes an Env step by step and gives it the way in; a failure at
// any step removes what the steps before it made.
package confine

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// Where things are inside a root.
const (
	AgentPath = "/.bakeoff/agent"
	Scratch   = "/.bakeoff/tmp"
)

// Env is an environment on a Linux host, and a driver.Instance. The fields
// are the driver's to read and, until Create returns, to fill in.
type Env struct {
	Host  conn.Conn
	Spec  driver.Spec
	Group *cgroup.Group
	// Layout is the host's control groups.
	Layout cgroup.Layout
	// In is the program with its arguments that executes what follows it
	// inside, up to and including `enter` and before its flags.
	In []string
	// Run executes a command line that begins with In; nil is Host.Exec.
	Run func(ctx context.Context, cmd conn.Cmd) (conn.Exit, error)
	// Root is the mounted root on the host, "" where there is none.
	Root string
	// Resident tells that a first process lives in it as long as it does: a
	// group without processes is an environment that has ended.
	Resident bool
	// OnClose is called first when the environment is closed.
	OnClose func(ctx context.Context) error
	// Remains, where a driver sets it, removes what the technology itself may
	// have left when everything else is gone.
	Remains func(ctx context.Context) error
	// Details returns what only the driver knows for Diagnose.
	Details func(ctx context.Context) []byte

	info driver.Info
	// places is where volumes are mounted on the host, by declared path.
	places map[string]string
	held   *holder
	// start is the control group in which what In executes begins.
	start string
	log   journal
	mu    sync.Mutex
	gone  bool
}

var (
	_ driver.Instance = (*Env)(nil)
	_ driver.Freezer  = (*Env)(nil)
	_ driver.Meter    = (*Env)(nil)
	_ driver.Storer   = (*Env)(nil)
)

// cleanTime bounds the removal of what a failed or cancelled creation made.
const cleanTime = time.Minute

// New begins an environment with what needs no driver: checks of spec, the
// limits (unless the technology sets them, see Adopt), and the network.
// Whoever gets an Env must Close it, or call Abandon on failure.
func New(ctx context.Context, host conn.Conn, spec driver.Spec) (*Env, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	layout, err := cgroup.Detect(ctx, host)
	if err != nil {
		return nil, err
	}
	e := &Env{Host: host, Spec: spec, Layout: layout, places: map[string]string{},
		info: driver.Info{Agent: AgentPath, Scratch: Scratch,
			Volumes: map[string]string{}, Facts: map[string]string{"cgroup": layout.String()}}}
	e.Facts()["network"] = "none but loopback"
	if n := spec.Network; n != nil {
		e.info.Addr = n.Addr.Addr()
		e.Facts()["network"] = "veth into a namespace of its own"
	}
	// Before the first step: an environment of that label belongs to another,
	// and Abandon would remove it.
	if found, err := Reap(ctx, host, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true); err != nil {
		return nil, err
	} else if len(found) > 0 {
		return nil, fault.WithFix(fault.New(fault.Lab, "%s exists already", found[0]), "run `bakeoff clean`")
	}
	return e, nil
}

// Tuning is what environments of this package take: their network namespace is
// their own, everything else of the kernel is the host's.
func Tuning() driver.Tuning {
	return driver.Tuning{Names: []string{"net.*"}, Lacks: netns.Lacks,
		Why: "environments share the host's kernel; only the network is their own"}
}

// check refuses what no environment here can be.
func check(spec driver.Spec) error {
	if !path.IsAbs(spec.Dir) || path.Clean(spec.Dir) == "/" {
		return fault.New(fault.Invalid, "directory must be an absolute path below / (got %q)", spec.Dir)
	}
	if len(spec.CPUSet) == 0 {
		return fault.New(fault.Invalid, "the CPU set is empty")
	}
	return Tuning().Check(spec.Tuning)
}

// Facts are what the driver adds to, until Create returns.
func (e *Env) Facts() map[string]string { return e.info.Facts }

// Abandon removes what a creation that failed with err has made, and returns
// err.
func (e *Env) Abandon(ctx context.Context, err error) error {
	// ctx may be why it failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	return errors.Join(err, e.Close(ctx))
}

// Limit makes the control group with the limits of spec.
func (e *Env) Limit(ctx context.Context) error {
	g, err := e.Layout.Create(ctx, e.Host, e.Spec.Label, e.limits())
	if err != nil {
		return err
	}
	e.Group = g
	e.info.Limits = g.Limits()
	return nil
}

// Reserve makes room for the control group, but in the hierarchy except, before
// another program makes it.
func (e *Env) Reserve(ctx context.Context, except string) error {
	return e.Layout.Reserve(ctx, e.Host, e.Spec.Label, except)
}

// Adopt takes the control group as a container runtime has made it.
func (e *Env) Adopt(ctx context.Context) error {
	g, err := e.Layout.Adopt(ctx, e.Host, e.Spec.Label, e.limits())
	if err != nil {
		return err
	}
	e.Group = g
	e.info.Limits = g.Limits()
	return nil
}

// AdoptOf takes the control group of process pid, which a container engine has
// made below the environment's own name or elsewhere; id is in its name.
func (e *Env) AdoptOf(ctx context.Context, pid int, id string) error {
	g, err := e.Layout.AdoptOf(ctx, e.Host, e.Spec.Label, pid, id, e.limits())
	if err != nil {
		return err
	}
	e.Group = g
	e.info.Limits = g.Limits()
	return nil
}

func (e *Env) limits() cgroup.Limits {
	return cgroup.Limits{CPUSet: e.Spec.CPUSet, Memory: e.Spec.Memory, Quota: e.Spec.Quota,
		IO: cgroup.IO{Read: e.Spec.Read, Write: e.Spec.Write, Dir: e.Spec.Dir}}
}

// Connect makes the environment's network namespace and applies the tuning,
// where the technology makes the root.
func (e *Env) Connect(ctx context.Context) error { return e.Join(ctx, 0) }

// Join does the same to the network namespace that the technology has made,
// in which process pid is.
func (e *Env) Join(ctx context.Context, pid int) error {
	own, err := netns.Describe(e.Spec.Network, e.Spec.Label, pid)
	if err != nil {
		return err
	}
	return e.setUp(ctx, wire.Setup{Network: &own})
}

// Enter makes the agent's `enter` with these flags the way in: it joins the
// network namespace and the control group, and executes the program.
func (e *Env) Enter(flags ...string) {
	e.In = append([]string{e.Spec.Agent, "enter", "--netns", e.Netns()}, flags...)
	e.In = append(e.In, e.Group.EnterArgs()...)
	e.start = e.Group.StartDir()
}

// setUp makes what g describes, and applies the tuning to the namespace in it.
func (e *Env) setUp(ctx context.Context, g wire.Setup) error {
	cmd, err := agent.SetupCommand(g, e.Spec.Agent)
	if err != nil {
		return err
	}
	if _, err := conn.OutputOf(ctx, e.Host, cmd); err != nil {
		return err
	}
	return e.tune(ctx)
}

func (e *Env) tune(ctx context.Context) error {
	inside := conn.FilesOf(conn.Prefix(e.Host, e.Spec.Agent, "enter", "--netns", e.Netns(), "--"))
	for _, name := range slices.Sorted(maps.Keys(e.Spec.Tuning)) {
		file := "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
		if err := inside.WriteFile(ctx, file, []byte(e.Spec.Tuning[name])); err != nil {
			return fault.Wrap(fault.Unsupported, "tuning "+name+"="+e.Spec.Tuning[name], err)
		}
	}
	return nil
}

// Netns is the path of the environment's network namespace on the host.
func (e *Env) Netns() string { return path.Join("/run/netns", netns.Own(e.Spec.Label)) }

// Volumes makes the volumes, and returns where they lie on the host by their
// declared path.
func (e *Env) Volumes(ctx context.Context) (map[string]string, error) {
	at := map[string]string{}
	for _, v := range e.Spec.Volumes {
		dir, err := volume.Mount(ctx, e.Host, e.within(), e.Spec.Dir, v)
		if err != nil {
			return nil, err
		}
		at[v.Path] = dir
		e.places[v.Path] = dir
		e.info.Volumes[v.Path] = v.Path
	}
	return at, nil
}

// within is the host from inside the control group, where there is one
// already: a file system that is a daemon spends what is its environment's.
func (e *Env) within() conn.Conn {
	if e.Group == nil {
		return e.Host
	}
	return conn.Prefix(e.Host, append(append([]string{e.Spec.Agent, "enter"}, e.Group.EnterArgs()...), "--")...)
}

// SettleVolume waits until what was written to a volume is on its backing.
func (e *Env) SettleVolume(ctx context.Context, declared string) (driver.VolumeUsage, error) {
	for _, v := range e.Spec.Volumes {
		if at, ok := e.places[v.Path]; ok && v.Path == declared {
			return volume.Settle(ctx, e.Host, e.Spec.Dir, at, v)
		}
	}
	return driver.VolumeUsage{}, fault.New(fault.Invalid, "there is no volume %s", declared)
}

// SetUpThen makes what g describes and goes on, in the same process, with `enter`
// and args to a program that run is to execute: starting a program costs as
// much as all that is made.
func (e *Env) SetUpThen(ctx context.Context, g wire.Setup, run func(conn.Cmd) error, args ...string) error {
	cmd, err := agent.SetupCommand(g, e.Spec.Agent, args...)
	if err != nil {
		return err
	}
	if e.Group != nil {
		cmd.Group = e.Group.StartDir()
	}
	if err := run(cmd); err != nil {
		return err
	}
	return e.tune(ctx)
}

// SetUpThenRun is SetUpThen for a program that ends when it has done its work: an
// error of kind fault.Lab has its code and the end of what it said.
func (e *Env) SetUpThenRun(ctx context.Context, g wire.Setup, args ...string) error {
	return e.SetUpThen(ctx, g, func(cmd conn.Cmd) error {
		said := conn.Tail{Limit: 4 << 10}
		cmd.Stderr = &said
		exit, err := agent.Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return e.Host.Exec(ctx, cmd) })
		if err == nil && !exit.OK() {
			err = fault.New(fault.Lab, "%v: %s", exit, bytes.TrimSpace(said.Bytes()))
		}
		return err
	}, args...)
}

// Setup describes what the environment needs: a network namespace and, where
// there is an image, a root: an overlay over it at Dir/root, in directories
// that are made now. system asks for /proc, /sys and /dev in it; volumes, as
// Volumes returned them, and the agent are bound where bind says so, otherwise
// the technology does that itself.
func (e *Env) Setup(ctx context.Context, system, bind bool, volumes map[string]string) (wire.Setup, error) {
	own, err := netns.Describe(e.Spec.Network, e.Spec.Label, 0)
	if err != nil {
		return wire.Setup{}, err
	}
	if e.Spec.Image.Root == "" {
		return wire.Setup{}, fault.WithFix(fault.New(fault.Invalid, "no image"), "name one, such as image: debian:bookworm")
	}
	dirs := []string{e.Dir("root"), e.Dir("upper"), e.Dir("work")}
	for _, d := range dirs {
		if err := conn.FilesOf(e.Host).Mkdir(ctx, d); err != nil {
			return wire.Setup{}, err
		}
	}
	r := wire.Root{At: dirs[0], Lower: e.Spec.Image.Root, Upper: dirs[1], Work: dirs[2], System: system,
		Dirs: []string{Scratch, "/tmp"}}
	if bind {
		r.Binds = e.Binds(volumes)
	}
	e.Root = r.At
	e.Facts()["root"] = "overlay over the image, written parts in a directory of the host's file system"
	e.Facts()["scratch"] = "as the root"
	return wire.Setup{Network: &own, Root: &r}, nil
}

// Binds are what is to be seen inside: the agent, and the volumes.
func (e *Env) Binds(volumes map[string]string) []wire.Bind {
	out := []wire.Bind{{From: e.Spec.Agent, To: AgentPath, ReadOnly: true}}
	for _, p := range slices.Sorted(maps.Keys(volumes)) {
		out = append(out, wire.Bind{From: volumes[p], To: p})
	}
	return out
}

// Dir is a path in the environment's directory on the host.
func (e *Env) Dir(name string) string { return path.Join(e.Spec.Dir, name) }

// Relocate says that things lie elsewhere than inside a root: for a bare host.
func (e *Env) Relocate(agentPath, scratch string, volumes map[string]string) {
	e.info.Agent, e.info.Scratch = agentPath, scratch
	maps.Copy(e.info.Volumes, volumes)
}

// OwnKernel says that clock and counters inside are not the host's.
func (e *Env) OwnKernel() { e.info.OwnKernel = true }

// Together runs steps that do not need each other at the same time, and
// returns when all have ended, so that nothing is still being made when the
// rest is removed.
func Together(steps ...func() error) error {
	errs := make([]error, len(steps))
	var wg sync.WaitGroup
	for i, step := range steps {
		wg.Go(func() { errs[i] = step() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Answer executes the agent inside and returns when it did: the environment
// is up.
func (e *Env) Answer(ctx context.Context) error {
	_, err := conn.Output(ctx, e, e.info.Agent, "list")
	return answered(err)
}

func answered(err error) error {
	if err != nil {
		err = fault.Wrap(fault.Subject, "the environment does not answer", err)
	}
	return err
}

// Begin makes what g describes, for a technology whose way in is `enter` from
// the host and which has no first process: the environment is then up. That the
// agent runs in such a place is found out once in a run, from the same process:
// another start of it would take as long as all the rest.
func (e *Env) Begin(ctx context.Context, g wire.Setup) error {
	if len(e.In) == 0 {
		return fault.New(fault.Lab, "confine: %s has no way in: call Enter before Begin", e.Spec.Label)
	}
	done := false
	_, err := driver.Remember(e.Spec.Memo, "the agent answers in "+e.Spec.Image.Root, func() (bool, error) {
		in := append(slices.Clone(e.In[2:]), "--clear-env", "--dir", "/", "--", e.info.Agent, "list")
		done = true
		return true, answered(e.SetUpThenRun(ctx, g, in...))
	})
	if err == nil && !done {
		err = e.setUp(ctx, g)
	}
	return err
}

// Alive returns an error of kind fault.Subject unless something runs in the
// environment: its first process, once the technology has said that it runs.
func (e *Env) Alive(ctx context.Context) error {
	pids, err := e.Group.PIDs(ctx)
	if err == nil && len(pids) == 0 {
		err = fault.New(fault.Subject, "the environment has ended: its init process is gone")
	}
	return err
}

// Info says what this environment is.
func (e *Env) Info() driver.Info { return e.info }

// Freeze stops everything inside. Until Thaw, Exec, Push and Pull wait.
func (e *Env) Freeze(ctx context.Context) error { return e.Group.Freeze(ctx) }

// Thaw lets it run again.
func (e *Env) Thaw(ctx context.Context) error { return e.Group.Thaw(ctx) }

// Usage is what it has spent since it was created.
func (e *Env) Usage(ctx context.Context) (probe.Scope, error) { return e.Group.Usage(ctx) }

// Close removes everything. A second Close does nothing; one that failed can
// be tried again.
func (e *Env) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil
	}
	var err error
	if e.OnClose != nil {
		err = e.OnClose(ctx)
	}
	err = errors.Join(err, e.release(ctx))
	// Reap knows by the label alone what there can be, also of a step that
	// was cut off in the middle.
	_, rerr := reap(ctx, e.Host, e.Layout, driver.Leftover{Label: e.Spec.Label, Dir: e.Spec.Dir}, false, e.teardown)
	if err = errors.Join(err, rerr); e.Remains != nil {
		err = errors.Join(err, e.Remains(ctx))
	}
	if err == nil {
		e.gone = true
	}
	return err
}
