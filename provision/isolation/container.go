package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Runtime is a program that runs OCI bundles: crun, runc, runsc.
//
// Source: opencontainers/runtime-tools, the command line interface; crun(1),
// runc(8).
type Runtime struct {
	Name string
	// Argv is the program with its global flags. It must keep its state in the
	// environment's directory, because nothing asks the runtime to delete a
	// container: Reap removes everything, and starting the runtime would take
	// longer.
	Argv []string
	// Proxy tells that the runtime has its own kernel: the host cannot reach a
	// socket in a container, so a proxy forwards connections.
	Proxy bool
	// Unseen is the mount point of a hierarchy of control groups that is
	// hidden from it; "" hides none.
	Unseen string
	// Place are the flags of `bakeoff-agent enter` that it is started with.
	Place []string
}

// place are the flags of `bakeoff-agent enter` that the runtime is started with.
func (r Runtime) place() []string {
	if r.Unseen == "" {
		return r.Place
	}
	return append(slices.Clone(r.Place), "--private-mounts", "--umount", r.Unseen)
}

// Contain creates the network, the volumes, the root and a container of r. r
// sets the limits unless Limit has set them. Programs are children of the
// container's init process, as under Docker and Podman.
func (e *Env) Contain(ctx context.Context, r Runtime) error {
	g, err := e.bundle(ctx, r)
	if err != nil {
		return err
	}
	if e.Group == nil {
		if err := e.Reserve(ctx, r.Unseen); err != nil {
			return err
		}
	}
	c := &container{e, r}
	e.Details, e.Resident = c.state, true
	if err := c.run(ctx, g); err != nil {
		return fault.Op(r.Name+": run", err)
	}
	if e.Group != nil {
		return nil
	}
	return e.Adopt(ctx)
}

// bundle creates the volumes and the container's configuration, and describes
// the setup.
func (e *Env) bundle(ctx context.Context, r Runtime) (g wire.Setup, err error) {
	g, binds, err := e.InitSetup(ctx, nil)
	if err != nil {
		return g, err
	}
	accounted, err := e.swapAccounted(ctx)
	if err != nil {
		return g, err
	}
	first := Init(true)
	if r.Proxy { // the connections come through it, not through the bind
		binds, first = binds[:len(binds)-1], proxiedInit()
	}
	text, err := json.MarshalIndent(configure(e, binds, first, accounted), "", "\t")
	if err != nil {
		return g, err
	}
	if err := conn.FilesOf(e.Host).Mkdir(ctx, e.Dir("bundle")); err != nil {
		return g, err
	}
	return g, e.Host.Push(ctx, e.Dir("bundle/config.json"), 0o644, bytes.NewReader(text))
}

// run performs the setup and starts the container.
func (c *container) run(ctx context.Context, g wire.Setup) error {
	e := c.env
	argv := append(slices.Clone(c.runtime.Argv), "run", "--detach", "--bundle", e.Dir("bundle"), e.Spec.Label)
	if c.runtime.Proxy {
		return e.proxy(ctx, g, c.runtime.place(), argv)
	}
	return e.SetUpThenRun(ctx, g, Program{Flags: c.runtime.place(), Argv: argv})
}

// swapAccounted tells whether swap can be limited. Runtimes fail if they are
// asked to limit swap that the host does not account.
func (e *Env) swapAccounted(ctx context.Context) (bool, error) {
	v1 := e.Layout.V1["memory"]
	if v1 == "" {
		return true, nil
	}
	names, err := conn.FilesOf(e.Host).ReadDir(ctx, v1)
	return slices.Contains(names, "memory.memsw.limit_in_bytes"), err
}

// container is an environment as its runtime knows it.
type container struct {
	env     *Env
	runtime Runtime
}

// state is the runtime's description of the container.
func (c *container) state(ctx context.Context) []byte {
	argv := append(append([]string{c.env.Spec.Agent, "enter"}, c.runtime.place()...), "--")
	argv = append(append(argv, c.runtime.Argv...), "state", c.env.Spec.Label)
	out, err := conn.Output(ctx, c.env.Host, argv...)
	if err != nil {
		return []byte(c.runtime.Name + ": state: " + err.Error() + "\n")
	}
	return append(out, '\n')
}
