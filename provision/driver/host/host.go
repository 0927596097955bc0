// Package host is the driver for the bare machine: processes on the host's own
// kernel and files, with the same limits as every other contender.
package host

import (
	"context"

	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs programs on the bare host.
type Driver struct{ isolation.Reaper }

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "host",
		Also: map[string]string{"bare": "host", "baremetal": "host", "bare-metal": "host", "metal": "host",
			"native": "host", "none": "host"},
		Summary: "the bare machine: the host's kernel and files, with a control group that limits CPUs and memory",
		Enforces: map[string]string{"network": "a network namespace with one veth, so that two environments can use " +
			"the same port and the host's packet filter does not interfere; environments of the driver machine use " +
			"the machine's own network instead"},
		Files:  true,
		Source: []string{"cgroups(7)", "network_namespaces(7)", "mount_namespaces(7)", "veth(4)"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := isolation.Check(ctx, host, isolation.Needs{})
	if system, err := guest.Output(ctx, host, "uname", "-s"); err == nil && system != "Linux" {
		a.Fix = "write driver: machine, which is the bare machine without control groups"
	}
	return a
}

// Create makes an environment: a control group, a network namespace and a
// directory.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e) })
}

func build(ctx context.Context, e *isolation.Env) error {
	own, err := netns.Describe(e.Spec.Network, e.Spec.Label, 0)
	if err != nil {
		return err
	}
	g := wire.Setup{Network: &own}
	if err := e.LimitWhile(func() error { return e.Limit(ctx) }, func() error {
		e.Start(g)
		volumes, err := e.Volumes(ctx)
		if err != nil {
			return err
		}
		scratch := e.Dir("tmp")
		e.Relocate(e.Spec.Agent, scratch, volumes)
		return conn.FilesOf(e.Host).Mkdir(ctx, scratch)
	}); err != nil {
		return err
	}
	e.Facts()["root"] = "the host's own"
	e.Facts()["scratch"] = "a directory of the host's file system"
	e.Enter(placed(e.Spec.Image.Files)...)
	return e.Begin(ctx, g)
}

// placed are the flags of `bakeoff-agent enter` for files. Each program has a mount
// namespace of its own with them, which ends with the program.
func placed(files []driver.File) []string {
	if len(files) == 0 {
		return nil
	}
	out := []string{"--private-mounts"}
	for _, f := range files {
		out = append(out, "--place", f.From+":"+f.To)
	}
	return out
}
