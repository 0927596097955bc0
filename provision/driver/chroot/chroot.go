// Package chroot is the driver for a change of the root directory: the files of
// another system on the host's kernel, with a network namespace only.
package chroot

import (
	"context"

	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs programs under another root.
type Driver struct{ isolation.Reaper }

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "chroot",
		Summary: "chroot: another root folder on the host's kernel, an overlay over the image with /proc, /sys, a minimal " +
			"/dev and the volumes",
		Image:  true,
		Source: []string{"chroot(2)", "mount(8): overlay", "cgroups(7)", "Linux Documentation/filesystems/overlayfs.rst"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	return isolation.Check(ctx, host, isolation.Needs{Overlay: true})
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e) })
}

func build(ctx context.Context, e *isolation.Env) error {
	var g wire.Setup
	if err := e.LimitWhile(func() error { return e.Limit(ctx) }, func() error {
		volumes, err := e.Volumes(ctx)
		if err != nil {
			return err
		}
		if g, err = e.Setup(ctx, true, true, volumes); err == nil {
			e.Start(g)
		}
		return err
	}); err != nil {
		return err
	}
	e.Enter("--chroot", e.Root)
	return e.Begin(ctx, g)
}
