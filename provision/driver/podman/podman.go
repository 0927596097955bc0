// Package podman is the driver for containers by Podman, an engine without a
// daemon, as the podman command creates them.
//
// An image of a registry or an archive is loaded as it is there, so that its ID is the one
// that a pull gives it; it stays in Podman's storage as bakeoff.invalid/bakeoff-…, one for
// each name in a lab file. Every other image, and one with volumes or placed files, is
// bakeoff's own unpacked root in the cache with an overlay over it (--rootfs ROOT:O):
// nothing of it is imported, and nothing stays in Podman's storage.
package podman

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/engine"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
)

// Driver runs things in containers of Podman.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return engine.Doc(driver.Doc{
		Name:    name,
		Summary: "a Podman container: Podman's capabilities, seccomp filter and storage, on the experiment's network",
		Options: []param.Spec{isolation.RuntimeOption(isolation.Runc,
			"The OCI runtime that Podman uses. Docker uses runc too, so with runc, Podman and Docker differ only in "+
				"the engine."),
			engine.NetworkOption(engine.Experiment, engine.HostNet, engine.Bridge, engine.Published, engine.Slirp,
				engine.Pasta)},
		Packages: []string{isolation.Crun, name, isolation.Runc},
		Source:   []string{"podman-run(1)", "podman-exec(1)", "containers.conf(5)"},
	})
}

// name is the name of the driver, the program and its package.
const name = "podman"

// options are the options of one container.
type options struct {
	engine.Options
	runtime string
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options((Driver{}).Doc().Options, v)
	return options{engine.Decode(set), set.Text("runtime")}, err
}

// quiet keeps a warning of Podman 5 about control groups of version 1 out of the error
// output of each program that is started in a container.
const quiet = "PODMAN_IGNORE_CGROUPSV1_WARNING=1"

func cli(host conn.Conn, runtime string) engine.CLI {
	return engine.CLI{
		Host: host,
		Name: name,
		Argv: []string{name, "--cgroup-manager=cgroupfs", "--runtime=" + runtime},
		Vars: []string{quiet},
	}
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	o, err := decode(values)
	if err != nil {
		return driver.Unavailable(err)
	}
	programs := map[string]string{name: name, "conmon": "conmon", o.runtime: o.runtime}
	switch o.Network {
	case engine.Bridge, engine.Published:
		programs["iptables"] = "iptables"
	case engine.Slirp:
		programs["slirp4netns"] = "slirp4netns"
	case engine.Pasta:
		programs["pasta"] = "passt"
	}
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true, Programs: programs})
	if !a.OK {
		return a
	}
	if o.runtime == isolation.Crun && a.Facts["cgroup"] == "hybrid" {
		return driver.Availability{Reason: "crun does not work on hosts that mount both versions of control groups",
			Fix: "runtime: runc"}
	}
	c := cli(host, o.runtime)
	v, err := version(ctx, c)
	if err != nil {
		return driver.Unavailable(err)
	}
	if err := checkNetwork(ctx, c, o.Network, v); err != nil {
		return driver.Unavailable(err)
	}
	// Only asking shows whether its storage works.
	storage, err := c.Ask(ctx, "info", "--format", "{{.Store.GraphDriverName}}")
	if err != nil {
		return driver.Unavailable(err)
	}
	a.Facts["version"], a.Facts["storage"], a.Facts["runtime"] = v, storage, o.runtime
	return a
}

// version parses "podman version 4.3.1".
func version(ctx context.Context, c engine.CLI) (string, error) {
	out, err := isolation.Version(ctx, c.Host, name)
	return strings.TrimSpace(strings.TrimPrefix(out, "podman version")), fault.Op(name, err)
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	if err := engine.Refuse(spec); err != nil {
		return nil, err
	}
	o, err := decode(spec.Options)
	if err != nil {
		return nil, err
	}
	// Podman gives the colon a meaning, so a path cannot have one.
	if strings.Contains(spec.Image.Root, ":") {
		return nil, fault.New(fault.Unsupported, "podman cannot use an image whose path has a colon: %s", spec.Image.Root)
	}
	o.Options = o.For(spec)
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error {
		c := &container{Container: engine.Container{CLI: cli(host, o.runtime), Env: e, Options: o.Options},
			runtime: o.runtime}
		c.Dir = spec.Dir
		return c.build(ctx)
	})
}

// Validate refuses options and networks that Create refuses on any host.
func (Driver) Validate(spec driver.Spec) error {
	o, err := decode(spec.Options)
	if err == nil {
		err = o.Options.Validate(spec)
	}
	return err
}

type container struct {
	engine.Container
	runtime string
}

func (c *container) build(ctx context.Context) error {
	e := c.Env
	var volumes map[string]string
	var v string
	var limits []string
	err := isolation.Together(
		func() error { return e.Connect(ctx) },
		func() (err error) { volumes, err = e.Volumes(ctx); return err },
		func() (err error) { limits, err = Ulimits(ctx, e.Host); return err },
		func() (err error) {
			v, err = driver.Remember(e.Spec.Memo, "podman --version", func() (string, error) { return version(ctx, c.CLI) })
			return err
		})
	if err != nil {
		return err
	}
	if err := c.Prepare(ctx); err != nil {
		return err
	}
	if err := e.Reserve(ctx, ""); err != nil {
		return err
	}
	e.OnClose, e.Details = c.Remove, c.State
	network := []string{"--network", "ns:" + e.Netns()}
	if c.Options.Network != engine.Experiment {
		// The namespace that has the environment's link is the machine of this Podman: its
		// bridge and its rules are there.
		c.CLI = c.Within(netns.Own(e.Spec.Label))
		network = c.NetworkFlags()
	}
	argv := slices.Concat([]string{"run", "--cgroup-parent", cgroup.Path(e.Spec.Label)}, network, c.Flags(volumes))
	argv = append(argv, limits...)
	id, err := c.RunSaved(ctx, argv)
	if errors.Is(err, engine.ErrNotLoaded) {
		argv = append(append(argv, "--rootfs", path.Clean(e.Spec.Image.Root)+":O"), c.First()...)
		id, err = c.Do(ctx, argv...)
	}
	if err != nil {
		return err
	}
	if err := c.Find(ctx, id); err != nil {
		return err
	}
	e.Facts()["version"], e.Facts()["runtime"] = v, c.runtime
	if c.Options.Network != engine.Experiment {
		if err := c.reach(ctx); err != nil {
			return err
		}
	}
	return c.Enter(ctx)
}

// reach says where load reaches the container, and what has made its network.
func (c *container) reach(ctx context.Context) error {
	e := c.Env
	if c.Options.Network.Own() && c.Options.Network != engine.Slirp && c.Options.Network != engine.Pasta {
		backend, err := driver.Remember(e.Spec.Memo, "podman network backend", func() (string, error) {
			return c.Ask(ctx, "info", "--format", "{{.Host.NetworkBackend}}")
		})
		if err != nil {
			return err
		}
		e.Facts()["network-backend"] = backend
	}
	return c.Reach(ctx)
}

// checkNetwork tells what a network needs on the host.
func checkNetwork(ctx context.Context, c engine.CLI, n engine.Network, version string) error {
	switch n {
	case engine.Pasta:
		if !atLeast(version, 4, 4) {
			return fault.WithFix(fault.New(fault.Unsupported,
				"podman %s does not support the network pasta, which needs podman 4.4", version),
				"set network: slirp4netns or network: published")
		}
	case engine.Bridge, engine.Published:
		backend, err := c.Ask(ctx, "info", "--format", "{{.Host.NetworkBackend}}")
		if err != nil {
			return err
		}
		if backend == "cni" {
			_, err = c.Ask(ctx, "network", "inspect", "podman")
			return fault.WithFix(err, "apt-get install containernetworking-plugins")
		}
	}
	return nil
}

// atLeast tells whether a version such as 4.3.1 is at least major.minor.
func atLeast(version string, major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(version, "%d.%d", &a, &b)
	return n == 2 && (a > major || a == major && b >= minor)
}

// Ulimits returns the flags that keep Podman from raising limits above the
// host's. Without CAP_SYS_RESOURCE Podman's defaults would make every container
// fail.
func Ulimits(ctx context.Context, host conn.Conn) ([]string, error) {
	files := conn.FilesOf(host)
	status, err := files.ReadFile(ctx, "/proc/self/status")
	if err != nil {
		return nil, err
	}
	if mayRaise(string(status)) {
		return nil, nil
	}
	limits, err := files.ReadFile(ctx, "/proc/self/limits")
	if err != nil {
		return nil, err
	}
	pids, err := files.ReadFile(ctx, "/proc/sys/kernel/pid_max")
	if err != nil {
		return nil, err
	}
	most, err := strconv.ParseUint(strings.TrimSpace(string(pids)), 10, 63)
	if err != nil {
		return nil, fault.New(fault.Lab, "pid_max: %w", err)
	}
	var out []string
	if n, ok := hardLimit(string(limits), "Max open files"); ok {
		out = append(out, "--ulimit", fmt.Sprintf("nofile=%d:%d", n, n))
	}
	if n, ok := hardLimit(string(limits), "Max processes"); ok {
		// Podman lowers its own limit to the maximum number of processes.
		n = min(n, most)
		out = append(out, "--ulimit", fmt.Sprintf("nproc=%d:%d", n, n))
	}
	return out, nil
}

// sysResource is the number of CAP_SYS_RESOURCE (capabilities(7)).
const sysResource = 24

// mayRaise reads from /proc/PID/status whether limits may be raised.
func mayRaise(status string) bool {
	for line := range strings.Lines(status) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
			return err == nil && n&(1<<sysResource) != 0
		}
	}
	return false
}

// hardLimit reads a limit from /proc/PID/limits (proc(5)); ok is false without
// one.
func hardLimit(limits, name string) (n uint64, ok bool) {
	for line := range strings.Lines(limits) {
		if rest, found := strings.CutPrefix(line, name); found {
			if f := strings.Fields(rest); len(f) >= 2 {
				n, err := strconv.ParseUint(f[1], 10, 63)
				return n, err == nil
			}
		}
	}
	return 0, false
}

// Reap removes what an environment has left. Podman's storage lists containers
// of every runtime.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	c := cli(host, isolation.Runc)
	// Podman removes its rules from the namespace in which they are.
	have, err := netns.Exists(ctx, host, netns.Own(left.Label))
	if err != nil {
		return nil, err
	}
	if have {
		c = c.Within(netns.Own(left.Label))
	}
	found, err := engine.Reap(ctx, c, left.Label, dryRun)
	if err != nil {
		return found, err
	}
	more, err := isolation.Reap(ctx, host, left, dryRun)
	return append(found, more...), err
}
