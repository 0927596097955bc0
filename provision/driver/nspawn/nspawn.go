// Package nspawn is the driver for systemd-nspawn, systemd's container, without
// a manager.
//
// What is measured is what systemd-nspawn itself sets up: namespaces, control
// groups, capability bounds and system call filter. Programs that entered by
// setns(2) would have neither filter nor bounds. So an environment is one
// container whose init process starts programs on request, with the client's
// streams: their output does not pass through it.
package nspawn

import (
	"context"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs things in a container of systemd-nspawn.
type Driver struct{}

var options = []param.Spec{
	isolation.FilterOption("Whether the container has the system call filter of systemd-nspawn. With off, " +
		"a contender shows how much time the filter takes."),
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "nspawn",
		Also: map[string]string{"systemd-nspawn": "nspawn", "machinectl": "nspawn"},
		Summary: "a systemd-nspawn container without a service manager: the namespaces, capabilities and system " +
			"call filter of systemd-nspawn; the container's init process starts programs, which inherit the filter " +
			"and the capabilities",
		Image:    true,
		Options:  options,
		Packages: []string{"systemd-container"},
		Source: []string{"systemd-nspawn(1)", "systemd: docs/ENVIRONMENT.md", "namespaces(7)", "cgroups(7)",
			"unix(7), SCM_RIGHTS"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true,
		Programs: map[string]string{"systemd-nspawn": "systemd-container"}})
	return isolation.WithVersion(ctx, host, a, "systemd-nspawn")
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	filter, err := isolation.Filtered(options, spec.Options)
	if err != nil {
		return nil, err
	}
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e, filter) })
}

func build(ctx context.Context, e *isolation.Env, filter bool) error {
	e.Remains = remains
	v, err := e.Version(ctx, "systemd-nspawn")
	if err != nil {
		return err
	}
	var g wire.Setup
	var binds []wire.Bind
	if err := e.LimitWhile(func() error { return limit(ctx, e) }, func() (err error) {
		if err := withUsr(ctx, e); err != nil {
			return err
		}
		g, binds, err = e.InitSetup(ctx, hidden)
		return err
	}); err != nil {
		return err
	}
	if err := e.HoldInit(ctx, g, program(e, binds, filter)); err != nil {
		return fault.Op("systemd-nspawn", err)
	}
	e.Facts()["version"], e.Facts()["seccomp"] = v, "the filter of systemd-nspawn"
	if !filter {
		e.Facts()["seccomp"] = "none"
	}
	return nil
}

// limit creates the control group, and one in systemd's own hierarchy if
// version 1 has one. systemd-nspawn creates two groups below the one that it
// runs in, there and in version 2, and they must be below ours.
func limit(ctx context.Context, e *isolation.Env) error {
	if err := e.Limit(ctx); err != nil {
		return err
	}
	own := e.Layout.V1["name=systemd"]
	if own == "" {
		return nil
	}
	if err := e.Group.Extend(ctx, own); err != nil {
		return err
	}
	return e.Adopt(ctx)
}

// withUsr creates /usr in the written part of the root if the image has none, as an
// image with a single program: systemd-nspawn refuses a root without it.
func withUsr(ctx context.Context, e *isolation.Env) error {
	files, root := conn.FilesOf(e.Host), e.Spec.Image.Root
	has, err := driver.Remember(e.Spec.Memo, "/usr is in "+root, func() (bool, error) {
		_, err := files.ReadDir(ctx, root+"/usr")
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return true, err
	})
	if err != nil || has || root == "" {
		return err
	}
	upper := e.Upper()
	if err := files.Mkdir(ctx, upper); err != nil {
		return err
	}
	return files.Mkdir(ctx, upper+"/usr")
}

// hidden tells whether the first part of a path inside begins with a dot. The
// systemd-nspawn of systemd 255 (Ubuntu 24.04) binds /.x/y at /x/y. It keeps what is
// already mounted in the root.
func hidden(b wire.Bind) bool { return strings.HasPrefix(b.To, "/.") }

// program starts the container with the init process. It turns off what
// systemd-nspawn adds for convenience and no other technology has: time zone,
// name servers, settings files and a /tmp in memory.
func program(e *isolation.Env, binds []wire.Bind, filter bool) isolation.Program {
	env := []string{"SYSTEMD_NSPAWN_LOCK=0", "SYSTEMD_NSPAWN_TMPFS_TMP=0"}
	if !filter {
		env = append(env, "SYSTEMD_SECCOMP=0")
	}
	out := append([]string{"systemd-nspawn"}, "--quiet", "--machine="+e.Spec.Label, "--directory="+e.Root,
		"--register=no", "--keep-unit", "--pipe", "--settings=no", "--timezone=off", "--resolv-conf=off", "--link-journal=no",
		"--network-namespace-path="+e.Netns())
	for _, b := range binds {
		how := "--bind="
		if b.ReadOnly {
			how = "--bind-ro="
		}
		out = append(out, how+escape(b.From)+":"+escape(b.To))
	}
	return isolation.Program{Group: true, Env: env, Argv: append(append(out, "--"), isolation.Init(false)...)}
}

// escape escapes colons and backslashes in a path of --bind
// (systemd-nspawn(1)).
func escape(p string) string { return strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(p) }

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return isolation.ReapMore(ctx, host, left, dryRun, remains)
}

// kept are where systemd-nspawn keeps a directory for each container: to pass mounts in and, since systemd 256,
// with a file system for sockets of the container. A killed systemd-nspawn leaves them, and the next one with
// that name refuses to start.
var kept = []string{"/run/systemd/nspawn/propagate", "/run/systemd/nspawn/unix-export"}

// remains removes these directories.
func remains(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	if !name.ValidLabel(left.Label) {
		return nil, fault.New(fault.Invalid, "%q is not a label: use 1 to 40 of the characters a-z, 0-9 and -", left.Label)
	}
	var found []string
	for _, at := range kept {
		dir := path.Join(at, left.Label)
		if _, err := conn.FilesOf(host).ReadDir(ctx, dir); fault.Is(err, fault.NotFound) {
			continue
		} else if err != nil {
			return found, err
		}
		found = append(found, "directory "+dir)
		if dryRun {
			continue
		}
		mounts, err := volume.Mounts(ctx, host, dir)
		for _, m := range mounts {
			if err == nil {
				_, err = conn.AdminOutput(ctx, host, nil, "umount", m)
			}
		}
		if err == nil {
			_, err = conn.Output(ctx, host, "rmdir", dir)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}
