// Package bwrap is the driver for bubblewrap: the unprivileged sandbox that
// Flatpak uses, here started as root.
//
// An environment is one sandbox that lives as long as the environment. Its init
// process starts the programs: they have what bubblewrap gives a program, and
// outlast the Exec that started them.
package bwrap

import (
	"context"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/confine"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs things in a sandbox of bubblewrap.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:     "bwrap",
		Also:     map[string]string{"bubblewrap": "bwrap"},
		Summary:  "a sandbox of bubblewrap: mount, process, IPC, host name and control group namespaces of its own over the image, no new privileges, no seccomp filter",
		Status:   driver.Proven,
		Hosts:    []string{"linux"},
		Root:     true,
		Image:    true,
		Backings: volume.Backings(),
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":    "control group cpuset, exactly the contender's CPUs",
			"memory":  "control group memory, with no swap beside it",
			"network": "a network namespace with one veth",
		}),
		Tuning:   confine.Tuning(),
		Packages: []string{"bubblewrap", "iproute2", "util-linux"},
		Source:   []string{"bwrap(1)", "namespaces(7)", "setns(2)", "cgroups(7)"},
	}
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := confine.Check(ctx, host, confine.Needs{Overlay: true, Programs: map[string]string{"bwrap": "bubblewrap"}})
	if !a.OK {
		return a
	}
	v, err := version(ctx, host)
	if err != nil {
		return confine.No(err)
	}
	a.Facts["version"] = v
	return a
}

func version(ctx context.Context, host conn.Conn) (string, error) {
	out, err := conn.Output(ctx, host, "bwrap", "--version")
	return strings.TrimSpace(string(out)), err
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	e, err := confine.New(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	if err := build(ctx, e); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return e, nil
}

func build(ctx context.Context, e *confine.Env) error {
	if err := e.Limit(ctx); err != nil {
		return err
	}
	v, err := driver.Remember(e.Spec.Memo, "bwrap --version", func() (string, error) { return version(ctx, e.Host) })
	if err != nil {
		return err
	}
	g, binds, err := e.InitSetup(ctx)
	if err != nil {
		return err
	}
	if err := e.HoldInit(ctx, g, argv(e, binds)...); err != nil {
		return fault.Op("bwrap", err)
	}
	e.Facts()["version"], e.Facts()["seccomp"] = v, "none"
	return nil
}

// argv is where and what is entered: the sandbox, with the init process. All capabilities are kept: servers start as root and change their
// user themselves.
func argv(e *confine.Env, binds []wire.Bind) []string {
	out := append([]string{"--netns", e.Netns()}, e.Group.EnterArgs()...)
	out = append(out, "--", "bwrap", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-add", "ALL", "--die-with-parent", "--as-pid-1",
		"--bind", e.Root, "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys")
	for _, b := range binds {
		how := "--bind"
		if b.ReadOnly {
			how = "--ro-bind"
		}
		out = append(out, how, b.From, b.To)
	}
	return append(append(out, "--chdir", "/", "--"), confine.Init(false)...)
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return confine.Reap(ctx, host, left, dryRun)
}
