// Package engine is what the drivers of container engines (Docker, Podman) have
// in common. The engine's command line creates a container whose init process
// starts the programs, with the capabilities and the system call filter that
// the engine gives it. The engine's own exec, an option, does the same through
// its daemon or monitor and the runtime.
//
// Everything else is as in package isolation: the same network, the same volumes,
// and the control group of the container, frozen and read directly.
package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sleep"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// Label is the key of the label that identifies an environment's container.
const Label = "bakeoff"

// CLI is an engine's command line on a host.
type CLI struct {
	Host conn.Conn
	Name string   // for messages: docker
	Argv []string // what stands before a subcommand: docker --host unix:///…
	Vars []string // NAME=VALUE, of the engine's own process
	// Dir is the working directory of commands that change something; "" is
	// any. Podman's monitor keeps it as its own, and writes a file there when
	// memory runs out.
	Dir string
}

// patience bounds an engine command that changes something.
const patience = 2 * time.Minute

// Do runs a subcommand that changes something. It runs to its end even if ctx
// ends: an engine whose client is gone finishes the command, and what it
// creates after the cleanup would never be found.
func (c CLI) Do(ctx context.Context, args ...string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fault.Op(c.Name+" "+args[0], err)
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	out, err := conn.OutputOf(whole, c.Host, conn.Cmd{Argv: c.command(args), Env: c.Vars, Dir: c.Dir})
	return strings.TrimSpace(string(out)), errors.Join(fault.Op(c.Name+" "+args[0], err), ctx.Err())
}

// Ask runs a subcommand that changes nothing and returns its output.
func (c CLI) Ask(ctx context.Context, args ...string) (string, error) {
	out, err := conn.OutputOf(ctx, c.Host, conn.Cmd{Argv: c.command(args), Env: c.Vars})
	return strings.TrimSpace(string(out)), fault.Op(c.Name+" "+args[0], err)
}

func (c CLI) command(args []string) []string {
	return append(slices.Clone(c.Argv), args...)
}

// Container is an environment in an engine.
type Container struct {
	CLI
	Env     *isolation.Env
	Options Options
	// ID is the engine's identifier of the container.
	ID string
	// PID is the init process in the host's numbering.
	PID    int
	socket *wire.Bind // nil where programs come by the engine's exec
}

// Flags are the flags of `run` that both engines share: name, limits and
// mounts. The parent of the control group is not among them, because engines
// that use systemd choose it themselves.
func (c *Container) Flags(volumes map[string]string) []string {
	spec := c.Env.Spec
	out := []string{"--detach", "--name", spec.Label, "--hostname", spec.Label, "--label", Label + "=" + spec.Label,
		"--cpuset-cpus", probe.FormatCPUs(spec.CPUSet)}
	if m := int64(spec.Memory); m > 0 {
		// Memory and swap together: no swap in addition to the memory.
		out = append(out, "--memory", strconv.FormatInt(m, 10), "--memory-swap", strconv.FormatInt(m, 10))
	}
	binds := c.Env.Binds(volumes)
	if c.socket != nil {
		binds = append(binds, *c.socket)
	}
	for _, b := range binds {
		out = append(out, "--mount", mountFlag(b))
	}
	if c.Options.Unconfined {
		out = append(out, "--security-opt", "seccomp=unconfined")
	}
	return out
}

// First is the command line of the init process. It creates the directories
// that every environment has, and then serves clients, or sleeps if the
// engine's exec starts programs.
func (c *Container) First() []string {
	dirs := []string{"--dir", "/tmp", "--dir", isolation.Scratch}
	if c.socket == nil {
		return append([]string{isolation.AgentPath, "pause"}, dirs...)
	}
	return isolation.Init(true, dirs...)
}

// Prepare creates what the way in needs, before Flags and First are called.
func (c *Container) Prepare(ctx context.Context) error {
	if c.Options.EngineExec {
		return nil
	}
	socket, err := c.Env.InitSocket(ctx)
	c.socket = &socket
	return err
}

// mountFlag is the value of --mount: a line of CSV.
func mountFlag(b wire.Bind) string {
	fields := []string{"type=bind", "source=" + b.From, "target=" + b.To}
	if b.ReadOnly {
		fields = append(fields, "readonly")
	}
	for i, f := range fields {
		if strings.ContainsAny(f, ",\"\n") {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(fields, ",")
}

// Find takes the container's identifier as printed by `run` and looks up its
// init process: in the expected control group, which is fast, or by asking the
// engine.
func (c *Container) Find(ctx context.Context, printed string) error {
	if pid, ok := c.first(ctx, printed); ok {
		c.ID, c.PID = printed, pid
		return nil
	}
	out, err := c.Ask(ctx, "inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", c.Env.Spec.Label)
	if err != nil {
		return err
	}
	c.ID, c.PID, err = parseFound(out)
	return fault.Op(c.Name+" inspect", err)
}

// first finds the one process of the container below the environment's control
// group. Podman's monitor is in a group next to it.
func (c *Container) first(ctx context.Context, id string) (int, bool) {
	e := c.Env
	g, err := e.Layout.Adopt(ctx, e.Host, e.Spec.Label, cgroup.Limits{})
	if err != nil || id == "" {
		return 0, false
	}
	pids, err := g.PIDs(ctx)
	if err != nil {
		return 0, false
	}
	var in []int
	for _, pid := range pids {
		text, err := conn.FilesOf(e.Host).ReadFile(ctx, fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(text), id) {
			in = append(in, pid)
		}
	}
	if len(in) != 1 {
		return 0, false
	}
	return in[0], true
}

// parseFound parses the answer to Find: "3f2a… 4711".
func parseFound(out string) (id string, pid int, err error) {
	f := strings.Fields(out)
	if len(f) == 2 && len(f[0]) == 64 && strings.Trim(f[0], "0123456789abcdef") == "" {
		if pid, err = strconv.Atoi(f[1]); err == nil && pid > 1 {
			return f[0], pid, nil
		}
	}
	return "", 0, fault.New(fault.Subject, "%.200q is not a running container", out)
}

// Specs describe the options that all engines have.
func Specs() []param.Spec {
	return []param.Spec{
		{Name: "exec", Kind: param.Text, Default: byInit, Enum: []string{byEngine, byInit},
			Former: map[string]string{"porter": byInit},
			Doc: "What starts programs in the container. init: the container's init process. engine: the engine's " +
				"own exec, which takes 100 ms or more for each program."},
		{Name: "seccomp", Kind: param.Text, Default: "default", Enum: []string{"default", unconfined},
			Doc: "The system call filter of the container: the engine's default, or none."},
	}
}

const (
	byEngine   = "engine"
	byInit     = "init"
	unconfined = "unconfined"
)

// Options are the options that all engines have.
type Options struct {
	EngineExec bool // programs are started by the engine's exec
	Unconfined bool // no filter of system calls
	Network    Network
}

// Decode reads them from options that driver.Options has completed.
func Decode(set param.Values) Options {
	return Options{EngineExec: set.Text("exec") == byEngine, Unconfined: set.Text("seccomp") == unconfined,
		Network: Network(set.Text("network"))}
}

// Enter sets up the way in and waits until the init process is ready.
func (c *Container) Enter(ctx context.Context) error {
	e := c.Env
	if err := e.AdoptOf(ctx, c.PID, c.ID); err != nil {
		return err
	}
	e.Facts()["root"] = "overlay over the image, written parts in the engine's own storage"
	e.Facts()["scratch"] = "as the root"
	if e.Facts()["seccomp"] = "the engine's default"; c.Options.Unconfined {
		e.Facts()["seccomp"] = "none"
	}
	if e.Facts()["exec"] = "by the first process"; c.socket == nil {
		// The engine passes on a number only, so the agent reports the signal
		// that ended a program.
		e.In = append(c.command([]string{"exec", "--interactive", e.Spec.Label}), e.Info().Agent, "enter", "--report")
		e.Run = c.run
		e.Facts()["exec"] = "by the engine"
	}
	return c.settled(ctx)
}

// upTime bounds how long the init process may take to become ready.
const upTime = 20 * time.Second

// settled returns when the init process has created its last directory. It
// checks from the host, because an exec would take as long as the rest of the
// creation.
func (c *Container) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upTime)
	defer cancel()
	files := conn.FilesOf(c.Env.Host)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		_, err := files.ReadDir(ctx, fmt.Sprintf("/proc/%d/root%s", c.PID, isolation.Scratch))
		if err == nil {
			return nil
		}
		if _, perr := files.ReadFile(ctx, fmt.Sprintf("/proc/%d/comm", c.PID)); fault.Is(perr, fault.NotFound) {
			err := fault.New(fault.Subject, "the container's init process has ended: %s", c.logs(ctx))
			if c.socket != nil {
				err = fault.WithFix(err, "if it cannot create its socket, set the option exec: engine")
			}
			return err
		}
		if sleep.For(ctx, wait) != nil {
			return fault.Wrap(fault.Subject, "the container did not become ready", errors.Join(ctx.Err(), err))
		}
	}
}

// logs is the end of the init process's output.
func (c *Container) logs(ctx context.Context) string {
	said := conn.Tail{Limit: 2048}
	if _, err := c.Host.Exec(ctx, conn.Cmd{Argv: c.command([]string{"logs", "--tail", "20", c.Env.Spec.Label}),
		Env: c.Vars, Stdout: &said}); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(said.Bytes()))
}

// State is the engine's description of the container, for Diagnose.
func (c *Container) State(ctx context.Context) []byte {
	out, err := c.Ask(ctx, "inspect", "--type", "container", "--format", "{{json .State}}", c.Env.Spec.Label)
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	return []byte(c.Name + ": " + out + "\n" + c.logs(ctx) + "\n")
}

// Remove has the engine delete the container. It kills the processes first,
// which also ends a frozen container.
func (c *Container) Remove(ctx context.Context) error {
	if g := c.Env.Group; g != nil {
		if err := g.Kill(ctx); err != nil {
			return err
		}
	}
	_, err := Reap(ctx, c.CLI, c.Env.Spec.Label, false)
	return err
}

// Reap removes the containers with a label, and returns what it found; with
// dryRun it changes nothing. The engine must answer.
func Reap(ctx context.Context, c CLI, label string, dryRun bool) (found []string, err error) {
	out, err := c.Ask(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+Label+"="+label, "--format", "{{.ID}}")
	if err != nil {
		return nil, err
	}
	ids := strings.Fields(out)
	for _, id := range ids {
		found = append(found, c.Name+" container "+id[:min(12, len(id))]+" "+label)
	}
	if dryRun || len(ids) == 0 {
		return found, nil
	}
	_, err = c.Do(ctx, append([]string{"rm", "--force", "--volumes"}, ids...)...)
	return found, err
}

// Tag is the name of an image in an engine into which it is imported once.
func Tag(digest string) (string, error) {
	sum := strings.TrimPrefix(digest, "sha256:")
	if sum == "" || strings.Trim(sum, "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
		return "", fault.New(fault.Invalid, "%q is not the digest of an image", digest)
	}
	return path.Join("bakeoff.invalid", Label) + ":" + sum[:min(32, len(sum))], nil
}

// Doc completes the description of an engine's driver.
func Doc(d driver.Doc) driver.Doc {
	d.Image = true
	d.Options = append(d.Options, Specs()...)
	d.Enforces = map[string]string{
		"cpus":   "the engine, with control group cpuset",
		"memory": "the engine, with control group memory and without swap",
	}
	return isolation.Doc(d)
}

// Refuse checks spec before anything is created.
func Refuse(spec driver.Spec) error {
	if spec.Image.Root == "" {
		return fault.WithFix(fault.New(fault.Invalid, "no image"), "name one, such as image: debian:bookworm")
	}
	return nil
}
