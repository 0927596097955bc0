// Package bwrap is the driver for bubblewrap, the unprivileged sandbox of
// Flatpak, here started as root.
//
// An environment is one sandbox. Its init process starts the programs, so they
// have what bubblewrap gives a program, and outlive the Exec that started them.
package bwrap

import (
	"context"
	"path"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs things in a sandbox of bubblewrap.
type Driver struct{ isolation.Reaper }

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "bwrap",
		Also: map[string]string{"bubblewrap": "bwrap"},
		Summary: "a bubblewrap sandbox over the image, with its own mount, process, IPC, host name and control " +
			"group namespaces, no new privileges, and no seccomp filter",
		Image:    true,
		Packages: []string{"bubblewrap"},
		Source:   []string{"bwrap(1)", "namespaces(7)", "setns(2)", "cgroups(7)"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true, Programs: map[string]string{"bwrap": "bubblewrap"}})
	return isolation.WithVersion(ctx, host, a, "bwrap")
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e) })
}

func build(ctx context.Context, e *isolation.Env) error {
	v, err := e.Version(ctx, "bwrap")
	if err != nil {
		return err
	}
	var g wire.Setup
	if err := e.LimitWhile(func() error { return e.Limit(ctx) }, func() (err error) {
		g, err = e.InitRoot(ctx)
		return err
	}); err != nil {
		return err
	}
	if err := e.HoldInit(ctx, g, program(e)); err != nil {
		return fault.Op("bwrap", err)
	}
	e.Facts()["version"], e.Facts()["seccomp"] = v, "none"
	return nil
}

// program enters the namespace and the control group and starts the sandbox with
// the init process. It keeps all capabilities, because servers start as root
// and change their user.
//
// The root comes with its /dev, the agent, the volumes and the socket. bubblewrap
// binds a tree with one look at the list of all mounts, and needs another look and a
// remount for each further bind and for each device of its own /dev. --bind forbids
// devices in the whole tree, so /dev is bound again with them.
func program(e *isolation.Env) isolation.Program {
	return isolation.Program{Netns: true, Group: true, Argv: append([]string{"bwrap",
		"--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-add", "ALL", "--die-with-parent", "--as-pid-1",
		"--bind", e.Root, "/", "--proc", "/proc", "--dev-bind", path.Join(e.Root, "dev"), "/dev",
		"--ro-bind", "/sys", "/sys", "--chdir", "/", "--"}, isolation.Init(false)...)}
}
