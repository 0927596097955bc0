// Package isolation is what the environments that share the host's kernel have in
// common: a control group with the limits, a network namespace, a root over an
// image, volumes, and a way to execute programs inside.
//
// A driver creates an Env step by step. A failure at any step removes what the
// earlier steps created.
package isolation

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent/setup"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// Paths inside a root.
const (
	AgentPath = "/.bakeoff/agent"
	Scratch   = "/.bakeoff/tmp"
	// Upper is the written part of the root, in the environment's directory on the host or in Spec.Written.
	Upper = "upper"
)

// Env is an environment on a Linux host, and a driver.Instance. The driver may
// read the fields, and fills them in until Create returns.
type Env struct {
	Host  conn.Conn
	Spec  driver.Spec
	Group *cgroup.Group
	// Layout describes the control groups of the host.
	Layout cgroup.Layout
	// In is the beginning of a command line that executes a program inside, up
	// to and including `enter` and before its flags.
	In []string
	// Run executes a command line that begins with In; nil is Host.Exec.
	Run func(ctx context.Context, cmd conn.Cmd) (conn.Exit, error)
	// Root is the mounted root on the host, "" where there is none.
	Root string
	// Resident tells that the environment has an init process that lives as
	// long as it does: without processes the environment has ended.
	Resident bool
	// OnClose is called first when the environment is closed.
	OnClose func(ctx context.Context) error
	// Remains, if set, removes what the technology itself may leave when
	// everything else is gone.
	Remains Remains
	// Details returns the driver's part of Diagnose.
	Details func(ctx context.Context) []byte

	info driver.Info
	// places maps the declared paths of volumes to their mount points on the
	// host.
	places map[string]string
	held   *holder
	// begun waits for the setup that Start began; nil without one.
	begun func() error
	// start is the control group in which programs started by In begin.
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

// cleanTime bounds the removal after a failed or canceled creation.
const cleanTime = time.Minute

// New begins an environment: it checks spec and the host. The caller must Close
// the Env, or call Abandon on failure.
func New(ctx context.Context, host conn.Conn, spec driver.Spec) (*Env, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	layout, err := driver.Remember(spec.Memo, "control groups", func() (cgroup.Layout, error) {
		return cgroup.Detect(ctx, host)
	})
	if err != nil {
		return nil, err
	}
	e := &Env{Host: host, Spec: spec, Layout: layout, places: map[string]string{},
		info: driver.Info{Agent: AgentPath, Scratch: Scratch,
			Volumes: map[string]string{}, HostCache: map[string]string{},
			Facts: map[string]string{"cgroup": layout.String()}}}
	e.Facts()["network"] = "none but loopback"
	if n := spec.Network; n != nil {
		e.info.Addr = n.Addr.Addr()
		e.Facts()["network"] = "veth into a namespace of its own"
	}
	// Check before the first step: an environment with that label belongs to
	// another controller, and Abandon would remove it.
	if found, err := e.existing(ctx); err != nil {
		return nil, err
	} else if len(found) > 0 {
		return nil, fault.WithFix(fault.New(fault.Lab, "%s exists already", found[0]), "run `bakeoff clean`")
	}
	return e, nil
}

// existing lists what Reap would find of an environment with e's label and
// directory. In an empty directory nothing is mounted.
func (e *Env) existing(ctx context.Context) ([]string, error) {
	found, err := e.Layout.Find(ctx, e.Host, e.Spec.Label)
	for i, dir := range found {
		found[i] = "control group " + dir
	}
	if err == nil {
		var lines []string
		lines, err = network(ctx, e.Host, e.Spec.Label, true)
		found = append(found, lines...)
	}
	if err != nil {
		return found, err
	}
	if names, err := conn.FilesOf(e.Host).ReadDir(ctx, e.Spec.Dir); err == nil && len(names) == 0 {
		return found, nil
	}
	lines, err := ReapMounts(ctx, e.Host, e.Spec.Dir, true)
	return append(found, lines...), err
}

// Tuning lists the settings of environments of this package: the network
// namespace is their own, everything else belongs to the host's kernel.
func Tuning() driver.Tuning {
	return driver.Tuning{Names: []string{"net.*"}, Lacks: netns.Lacks,
		Why: "environments have their own network settings, and share all other kernel settings with the host"}
}

// check checks the parts of spec that all environments share.
func check(spec driver.Spec) error {
	if !path.IsAbs(spec.Dir) || path.Clean(spec.Dir) == "/" {
		return fault.New(fault.Invalid, "directory must be an absolute path below / (got %q)", spec.Dir)
	}
	if len(spec.CPUSet) == 0 {
		return fault.New(fault.Invalid, "the CPU set is empty")
	}
	return Tuning().Check(spec.Tuning)
}

// Facts are the facts of Info. The driver adds to them until Create returns.
func (e *Env) Facts() map[string]string { return e.info.Facts }

// Abandon removes what a failed creation has created, and returns err.
func (e *Env) Abandon(ctx context.Context, err error) error {
	// The end of ctx may be the reason for err.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	return errors.Join(err, e.Close(ctx))
}

// Limit creates the control group with the limits of spec.
func (e *Env) Limit(ctx context.Context) error {
	return e.use(e.Layout.Create(ctx, e.Host, e.Spec.Label, e.limits()))
}

// LimitWhile creates the control group by limit, which calls Limit, and
// meanwhile takes steps that do not need it. A volume may need it, and so may
// another machine.
func (e *Env) LimitWhile(limit, steps func() error) error {
	if _, ok := e.Host.(local.Conn); ok && len(e.Spec.Volumes) == 0 {
		return Together(limit, steps)
	}
	if err := limit(); err != nil {
		return err
	}
	return steps()
}

// use makes g the environment's control group, unless there was an error.
func (e *Env) use(g *cgroup.Group, err error) error {
	if err == nil {
		e.Group, e.info.Limits = g, g.Limits()
	}
	return err
}

// Reserve prepares every hierarchy except one for a control group that another
// program will create.
func (e *Env) Reserve(ctx context.Context, except string) error {
	return e.Layout.Reserve(ctx, e.Host, e.Spec.Label, except)
}

// Adopt uses the control group that a container runtime has created.
func (e *Env) Adopt(ctx context.Context) error {
	return e.use(e.Layout.Adopt(ctx, e.Host, e.Spec.Label, e.limits()))
}

// AdoptOf uses the control group of process pid, which a container engine has
// created anywhere; its name contains id.
func (e *Env) AdoptOf(ctx context.Context, pid int, id string) error {
	return e.use(e.Layout.AdoptOf(ctx, e.Host, e.Spec.Label, pid, id, e.limits()))
}

func (e *Env) limits() cgroup.Limits {
	return cgroup.Limits{CPUSet: e.Spec.CPUSet, Memory: e.Spec.Memory, Quota: e.Spec.Quota,
		IO: cgroup.IO{Read: e.Spec.Read, Write: e.Spec.Write, Dir: e.Spec.Dir}}
}

// Connect creates the environment's network namespace and applies the tuning,
// for technologies that create the root themselves.
func (e *Env) Connect(ctx context.Context) error { return e.Join(ctx, 0) }

// Join does the same for the network namespace of process pid, which the
// technology has created.
func (e *Env) Join(ctx context.Context, pid int) error {
	own, err := netns.Describe(e.Spec.Network, e.Spec.Label, pid)
	if err != nil {
		return err
	}
	return e.setUp(ctx, wire.Setup{Network: &own})
}

// Enter sets In to the agent's `enter` with these flags: it joins the network
// namespace and the control group and executes the program.
func (e *Env) Enter(flags ...string) {
	e.In = append([]string{e.Spec.Agent, "enter", "--netns", e.Netns()}, flags...)
	e.In = append(e.In, e.Group.EnterArgs()...)
	e.start = e.Group.StartDir()
}

// setUp creates what g describes and applies the tuning. On the controller's own
// machine it starts no agent, which would take as long as the setup.
func (e *Env) setUp(ctx context.Context, g wire.Setup) error {
	if _, ok := e.Host.(local.Conn); ok {
		e.Start(g)
		if err := e.begun(); err != nil {
			return err
		}
		return e.tune(ctx)
	}
	cmd, err := setup.Command(g, e.Spec.Agent)
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
func (e *Env) Netns() string { return netns.Path(netns.Own(e.Spec.Label)) }

// Volumes creates the volumes and returns their mount points on the host by
// declared path.
func (e *Env) Volumes(ctx context.Context) (map[string]string, error) {
	at := map[string]string{}
	for _, v := range e.Spec.Volumes {
		dir, cached, err := volume.Mount(ctx, e.Host, e.within(), e.Spec.Dir, v)
		if err != nil {
			return nil, err
		}
		if cached != "" {
			e.info.HostCache[v.Path] = cached
		}
		at[v.Path] = dir
		e.places[v.Path] = dir
		e.info.Volumes[v.Path] = v.Path
	}
	return at, nil
}

// within executes in the control group, if it exists: a file system that is a
// daemon is charged to its environment.
func (e *Env) within() conn.Conn {
	if e.Group == nil {
		return e.Host
	}
	return conn.Prefix(e.Host, append(append([]string{e.Spec.Agent, "enter"}, e.Group.EnterArgs()...), "--")...)
}

// SettleVolume waits until everything written to a volume is on its backing.
func (e *Env) SettleVolume(ctx context.Context, declared string) (volume.Usage, error) {
	for _, v := range e.Spec.Volumes {
		if at, ok := e.places[v.Path]; ok && v.Path == declared {
			return volume.Settle(ctx, e.Host, e.Spec.Dir, at, v)
		}
	}
	return volume.Usage{}, fault.New(fault.Invalid, "there is no volume %s", declared)
}

// Start begins to create what g describes if the environment is on the
// controller's own machine; setUp and SetUpThen with the same g wait for the
// end. The next steps of the creation, and the start of an agent that continues
// after the setup, take as long. The second call does nothing.
func (e *Env) Start(g wire.Setup) {
	if _, ok := e.Host.(local.Conn); !ok || e.begun != nil {
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- setup.Environment(g) }()
	e.begun = sync.OnceValue(func() error { return <-ended })
}

// Setup describes the network namespace and, if there is an image, the root: an
// overlay over it at Dir/root, in directories that Setup creates. system adds
// /proc, /sys and /dev. bind adds the agent and the volumes, as returned by
// Volumes; otherwise the technology binds them itself.
func (e *Env) Setup(ctx context.Context, system, bind bool, volumes map[string]string) (wire.Setup, error) {
	own, err := netns.Describe(e.Spec.Network, e.Spec.Label, 0)
	if err != nil {
		return wire.Setup{}, err
	}
	if e.Spec.Image.Root == "" {
		return wire.Setup{}, fault.WithFix(
			fault.New(fault.Invalid, "no image"),
			"name one, such as image: debian:bookworm",
		)
	}
	dirs := []string{e.Dir("root"), e.Upper(), path.Join(path.Dir(e.Upper()), "work")}
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

// Binds are the bind mounts of an environment: the agent and the volumes.
func (e *Env) Binds(volumes map[string]string) []wire.Bind {
	out := []wire.Bind{{From: e.Spec.Agent, To: AgentPath, ReadOnly: true}}
	for _, p := range slices.Sorted(maps.Keys(volumes)) {
		out = append(out, wire.Bind{From: volumes[p], To: p})
	}
	for _, s := range e.Spec.Shares {
		out = append(out, wire.Bind{From: s.From, To: s.To, ReadOnly: s.ReadOnly})
	}
	return out
}

// Dir is a path in the environment's directory on the host.
func (e *Env) Dir(name string) string { return path.Join(e.Spec.Dir, name) }

// Upper is the directory on the host with the written part of the root.
func (e *Env) Upper() string { return path.Join(cmp.Or(e.Spec.Written, e.Spec.Dir), Upper) }

// Relocate sets the paths of an environment without a root of its own: the bare
// host.
func (e *Env) Relocate(agentPath, scratch string, volumes map[string]string) {
	e.info.Agent, e.info.Scratch = agentPath, scratch
	maps.Copy(e.info.Volumes, volumes)
}

// Behind says where load reaches an environment that is not at its address on the experiment's
// network, or not directly: at addr, while its servers listen at listen.
func (e *Env) Behind(addr, listen netip.Addr) { e.info.Addr, e.info.Listen = addr, listen }

// OwnKernel sets Info.OwnKernel: clock and counters inside are not the host's.
func (e *Env) OwnKernel() { e.info.OwnKernel = true }

// Together runs independent steps concurrently and returns when all have ended,
// so that no step still creates something while the rest is removed.
func Together(steps ...func() error) error {
	errs := make([]error, len(steps))
	var wg sync.WaitGroup
	for i, step := range steps {
		wg.Go(func() { errs[i] = step() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Answer executes the agent inside: when it returns nil, the environment is up.
func (e *Env) Answer(ctx context.Context) error {
	_, err := conn.Output(ctx, e, e.info.Agent, "list")
	return answered(err)
}

func answered(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), AgentPath+": no such file or directory"): // it is there, but not its loader
		err = fault.New(fault.Subject, "%w (a dynamically linked bakeoff-agent needs its loader in the image; "+
			"make build links it statically)", err)
	}
	return fault.Wrap(fault.Subject, "the environment does not answer", err)
}

// Begin creates what g describes, for a technology without an init process that
// is entered from the host. The environment is then up. Begin checks once per
// run that the agent works in such an environment, because starting it takes as
// long as everything else.
func (e *Env) Begin(ctx context.Context, g wire.Setup) error {
	if len(e.In) == 0 {
		return fault.New(fault.Lab, "confine: %s has no way in: call Enter before Begin", e.Spec.Label)
	}
	done := false
	_, err := driver.Remember(e.Spec.Memo, "the agent answers in "+e.Spec.Image.Root, func() (bool, error) {
		first := Program{Flags: append(slices.Clone(e.In[2:]), "--clear-env", "--dir", "/"),
			Argv: []string{e.info.Agent, "list"}}
		done = true
		return true, answered(e.SetUpThenRun(ctx, g, first))
	})
	if err == nil && !done {
		err = e.setUp(ctx, g)
	}
	return err
}

// Alive returns an error of kind fault.Subject unless a process runs in the
// environment.
func (e *Env) Alive(ctx context.Context) error {
	occupied, err := e.Group.Occupied(ctx)
	if err == nil && !occupied {
		err = fault.New(fault.Subject, "the environment has ended: its init process is gone")
	}
	return err
}

// Info describes the environment.
func (e *Env) Info() driver.Info { return e.info }

// Freeze freezes everything inside. Until Thaw, Exec, Push and Pull wait.
func (e *Env) Freeze(ctx context.Context) error { return e.Group.Freeze(ctx) }

// Thaw resumes it.
func (e *Env) Thaw(ctx context.Context) error { return e.Group.Thaw(ctx) }

// Usage is what the environment has used since it was created.
func (e *Env) Usage(ctx context.Context) (facts.Scope, error) { return e.Group.Usage(ctx) }

// Close removes everything. A second Close does nothing; after an error Close
// can be called again.
func (e *Env) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return nil
	}
	if e.begun != nil {
		e.begun() // so that it creates nothing any more; a failed setup has been reported
	}
	var err error
	if e.OnClose != nil {
		err = e.OnClose(ctx)
	}
	err = errors.Join(err, e.release(ctx))
	// Reap finds everything by the label, including what an interrupted step
	// created.
	left := driver.Leftover{Label: e.Spec.Label, Dir: e.Spec.Dir}
	_, rerr := reap(ctx, e.Host, e.Layout, left, false, e.teardown)
	if err = errors.Join(err, rerr); e.Remains != nil {
		_, rerr = e.Remains(ctx, e.Host, left, false)
		err = errors.Join(err, rerr)
	}
	e.gone = err == nil
	return err
}
