// Package chroot is the driver for a change of the root directory: another
// system's files on the host's kernel, and no namespace but the network's.
package chroot

import (
	"context"

	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/confine"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Driver runs things under another root.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:     "chroot",
		Summary:  "another root directory on the host's kernel: an overlay over the image, with /proc, /sys, a minimal /dev and the volumes",
		Status:   driver.Proven,
		Hosts:    []string{"linux"},
		Root:     true,
		Image:    true,
		Backings: volume.Backings(),
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":    "control group cpuset, exactly the contender's CPUs",
			"memory":  "control group memory, with no swap beside it",
			"network": "a network namespace with one veth, as on the bare host",
		}),
		Tuning:   confine.Tuning(),
		Packages: []string{"iproute2", "util-linux"},
		Source:   []string{"chroot(2)", "mount(8): overlay", "cgroups(7)", "Linux Documentation/filesystems/overlayfs.rst"},
	}
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	return confine.Check(ctx, host, confine.Needs{Overlay: true})
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
	volumes, err := e.Volumes(ctx)
	if err != nil {
		return err
	}
	g, err := e.Setup(ctx, true, true, volumes)
	if err != nil {
		return err
	}
	e.Enter("--chroot", e.Root)
	return e.Begin(ctx, g)
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return confine.Reap(ctx, host, left, dryRun)
}
