// Package oci is the driver for containers of a runtime of the Open Container
// Initiative (crun, runc) without an engine.
//
// The container's init process starts the programs, so they have what the
// runtime gave the container, like the program that an image names. The
// runtime's own exec gives the same but takes as long as the creation of
// another container.
package oci

import (
	"context"
	"path"

	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
)

// Driver runs things in a container.
type Driver struct{ isolation.Reaper }

var options = []param.Spec{isolation.RuntimeOption(isolation.Crun, "The OCI runtime that creates the container.")}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "oci",
		Also: map[string]string{"crun": "oci, runtime: crun", "runc": "oci, runtime: runc", "containerd": "oci",
			"container": "oci"},
		Summary: "a container of an OCI runtime, with all namespaces except the user namespace, the capabilities of " +
			"Docker and Podman, and no seccomp filter",
		Image:   true,
		Options: options,
		Enforces: map[string]string{
			"cpus":   "the runtime, with control group cpuset",
			"memory": "the runtime, with control group memory and without swap",
		},
		Packages: []string{isolation.Crun, isolation.Runc},
		Source:   []string{"OCI Runtime Specification 1.0.2", "crun(1)", "runc(8)"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	set, err := driver.Options(options, values)
	if err != nil {
		return driver.Unavailable(err)
	}
	runtime := set.Text("runtime")
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true, Programs: map[string]string{runtime: runtime}})
	if a = isolation.WithVersion(ctx, host, a, runtime); a.OK {
		a.Facts["runtime"] = runtime
	}
	return a
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	set, err := driver.Options(options, spec.Options)
	if err != nil {
		return nil, err
	}
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e, set.Text("runtime")) })
}

func build(ctx context.Context, e *isolation.Env, runtime string) error {
	v, err := e.Version(ctx, runtime)
	if err != nil {
		return err
	}
	if err := e.Contain(ctx, isolation.Runtime{Name: runtime, Argv: command(e, runtime),
		Unseen: unseen(e, runtime)}); err != nil {
		return err
	}
	e.Facts()["runtime"], e.Facts()["version"], e.Facts()["seccomp"] = runtime, v, "none"
	return e.Alive(ctx)
}

// command is the runtime with its global flags.
func command(e *isolation.Env, runtime string) []string {
	out := []string{runtime, "--root", path.Join(e.Spec.Dir, "state")}
	if runtime == isolation.Crun {
		out = append(out, "--cgroup-manager=cgroupfs") // the default of runc
	}
	return out
}

// unseen is the hierarchy of control groups that is hidden from the runtime.
// crun does not work if it sees both versions, so on a hybrid host the version
// 2 hierarchy is hidden.
func unseen(e *isolation.Env, runtime string) string {
	if runtime == isolation.Crun && e.Layout.String() == "hybrid" {
		return e.Layout.V2
	}
	return ""
}
