// Package oci is the driver for containers, run by a runtime of the Open
// Container Initiative (crun, runc) without an engine above it.
//
// The container's first process is idle; programs come by the runtime's own
// exec, as they do under Docker and Podman.
package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"bakeoff/confine"
	"bakeoff/conn"
	"bakeoff/driver"
	"bakeoff/fault"
	"bakeoff/param"
	"bakeoff/volume"
)

// Driver runs things in a container.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "oci",
		Summary: "a container by an OCI runtime: all namespaces but the user's, the capabilities of Docker and Podman, no seccomp filter",
		Status:  driver.Proven,
		Hosts:   []string{"linux"},
		Root:    true,
		Image:   true,
		Options: []param.Spec{
			{Name: "runtime", Kind: param.Text, Default: "crun", Enum: []string{"crun", "runc"}, Doc: "The runtime that makes the container."},
		},
		Backings: volume.Backings(),
		Enforces: map[string]string{
			"cpus":    "the runtime, by control group cpuset",
			"memory":  "the runtime, by control group memory, with no swap beside it",
			"network": "a network namespace with one veth",
		},
		Packages: []string{"crun", "iproute2", "runc", "util-linux"},
		Source:   []string{"OCI Runtime Specification 1.0.2", "crun(1)", "runc(8)"},
	}
}

// runtimeOf is the runtime that the options name.
func runtimeOf(options param.Values) string {
	if r := options.Text("runtime"); r != "" {
		return r
	}
	return "crun"
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, options param.Values) driver.Availability {
	runtime := runtimeOf(options)
	a := confine.Check(ctx, host, confine.Needs{Overlay: true, Programs: map[string]string{runtime: runtime}})
	if !a.OK {
		return a
	}
	v, err := version(ctx, host, runtime)
	if err != nil {
		return confine.No(err)
	}
	a.Facts["runtime"], a.Facts["version"] = runtime, v
	return a
}

// version is the first line of what the runtime says of itself.
func version(ctx context.Context, host conn.Conn, runtime string) (string, error) {
	out, err := conn.Output(ctx, host, runtime, "--version")
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), err
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	if r := runtimeOf(spec.Options); !slices.Contains([]string{"crun", "runc"}, r) {
		return nil, fault.New(fault.Invalid, "there is no runtime %q; there are crun and runc", r)
	}
	e, err := confine.New(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	c := &container{env: e, runtime: runtimeOf(spec.Options)}
	if err := c.build(ctx); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return e, nil
}

// container is an environment as its runtime knows it.
type container struct {
	env     *confine.Env
	runtime string
	started bool
}

func (c *container) build(ctx context.Context) error {
	e := c.env
	var v string
	err := confine.Together(
		func() error { return e.Connect(ctx) },
		func() error { return c.files(ctx) },
		func() (err error) { v, err = version(ctx, e.Host, c.runtime); return err })
	if err != nil {
		return err
	}
	e.OnClose, e.Details = c.remove, c.state
	c.started = true
	if _, err := conn.Output(ctx, e.Host, c.command("run", "--detach", "--bundle", e.Dir("bundle"), e.Spec.Label)...); err != nil {
		return fault.Op(c.runtime+": run", err)
	}
	if err := e.Adopt(ctx); err != nil {
		return err
	}
	e.Facts()["runtime"], e.Facts()["version"], e.Facts()["seccomp"] = c.runtime, v, "none"
	// The runtime passes on a number only, so the agent says by which signal
	// a program ended.
	e.In = append(c.command("exec", e.Spec.Label), e.Info().Agent, "enter", "--report")
	return e.Answer(ctx)
}

// files makes the volumes, the root and the bundle.
func (c *container) files(ctx context.Context) error {
	volumes, err := c.env.Volumes(ctx)
	if err != nil {
		return err
	}
	if err := c.env.Mount(ctx, false, false, volumes); err != nil {
		return err
	}
	return c.bundle(ctx, volumes)
}

// bundle writes the container's configuration.
func (c *container) bundle(ctx context.Context, volumes map[string]string) error {
	e := c.env
	accounted, err := swapAccounted(ctx, e)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(configure(e, volumes, accounted), "", "\t")
	if err != nil {
		return err
	}
	if err := conn.FilesOf(e.Host).Mkdir(ctx, e.Dir("bundle")); err != nil {
		return err
	}
	return e.Host.Push(ctx, e.Dir("bundle/config.json"), 0o644, bytes.NewReader(text))
}

// swapAccounted tells whether swap can be limited. A runtime that is asked to
// limit it where it cannot fails.
func swapAccounted(ctx context.Context, e *confine.Env) (bool, error) {
	v1 := e.Layout.V1["memory"]
	if v1 == "" {
		return true, nil
	}
	names, err := conn.FilesOf(e.Host).ReadDir(ctx, v1)
	return slices.Contains(names, "memory.memsw.limit_in_bytes"), err
}

// command is the runtime with a subcommand. Its own state lies in the
// environment's directory, so that nothing of it can be left anywhere else.
func (c *container) command(args ...string) []string {
	out := c.wrapper()
	out = append(out, c.runtime, "--root", path.Join(c.env.Spec.Dir, "state"))
	if c.runtime == "crun" {
		out = append(out, "--cgroup-manager=cgroupfs") // runc has it by default
	}
	return append(out, args...)
}

// wrapper hides the version 2 hierarchy of a hybrid from crun, which refuses
// to work where it sees both.
func (c *container) wrapper() []string {
	if l := c.env.Layout; c.runtime == "crun" && l.String() == "hybrid" {
		return []string{c.env.Spec.Agent, "enter", "--private-mounts", "--umount", l.V2, "--"}
	}
	return nil
}

// remove has the runtime delete the container, dead or alive.
func (c *container) remove(ctx context.Context) error {
	if !c.started {
		return nil
	}
	if g := c.env.Group; g != nil {
		if err := g.Kill(ctx); err != nil { // a frozen one, too
			return err
		}
	}
	_, err := conn.Output(ctx, c.env.Host, c.command("delete", "--force", c.env.Spec.Label)...)
	if err != nil && c.env.Group == nil {
		return nil // run was cut off before there was anything to delete; Reap looks
	}
	return fault.Op(c.runtime+": delete", err)
}

// state is what the runtime says of the container.
func (c *container) state(ctx context.Context) []byte {
	out, err := conn.Output(ctx, c.env.Host, c.command("state", c.env.Spec.Label)...)
	if err != nil {
		return []byte(c.runtime + ": state: " + err.Error() + "\n")
	}
	return append(out, '\n')
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return confine.Reap(ctx, host, left, dryRun)
}
