// Package oci is the driver for containers, run by a runtime of the Open
// Container Initiative (crun, runc) without an engine above it.
//
// The container's init process starts the programs: they have what the runtime gave the container, as the program has that an image
// names. The runtime's own exec gives the same, and takes as long as the
// creation of another container.
package oci

import (
	"context"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/confine"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Driver runs things in a container.
type Driver struct{}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "oci",
		Also:    map[string]string{"crun": "oci, runtime: crun", "runc": "oci, runtime: runc", "containerd": "oci", "container": "oci"},
		Summary: "a container by an OCI runtime: all namespaces but the user's, the capabilities of Docker and Podman, no seccomp filter",
		Status:  driver.Proven,
		Hosts:   []string{"linux"},
		Root:    true,
		Image:   true,
		Options: []param.Spec{
			{Name: "runtime", Kind: param.Text, Default: "crun", Enum: []string{"crun", "runc"}, Doc: "The runtime that makes the container."},
		},
		Backings: volume.Backings(),
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":    "the runtime, by control group cpuset",
			"memory":  "the runtime, by control group memory, with no swap beside it",
			"network": "a network namespace with one veth",
		}),
		Tuning:   confine.Tuning(),
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
	if err := build(ctx, e, runtimeOf(spec.Options)); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return e, nil
}

func build(ctx context.Context, e *confine.Env, runtime string) error {
	v, err := driver.Remember(e.Spec.Memo, runtime+" --version", func() (string, error) { return version(ctx, e.Host, runtime) })
	if err != nil {
		return err
	}
	if err := e.Contain(ctx, confine.Runtime{Name: runtime, Argv: command(e, runtime), Unseen: unseen(e, runtime)}); err != nil {
		return err
	}
	e.Facts()["runtime"], e.Facts()["version"], e.Facts()["seccomp"] = runtime, v, "none"
	return e.Alive(ctx)
}

// command is the runtime with its global flags. crun refuses to work where it
// sees both versions of control groups: the version 2 hierarchy of a hybrid is
// hidden from it.
func command(e *confine.Env, runtime string) []string {
	state := path.Join(e.Spec.Dir, "state")
	if runtime != "crun" {
		return []string{runtime, "--root", state}
	}
	out := []string{"crun", "--root", state, "--cgroup-manager=cgroupfs"} // runc has it by default
	if v2 := unseen(e, runtime); v2 != "" {
		out = append([]string{e.Spec.Agent, "enter", "--private-mounts", "--umount", v2, "--"}, out...)
	}
	return out
}

// unseen is the hierarchy of control groups that is hidden from the runtime.
func unseen(e *confine.Env, runtime string) string {
	if runtime == "crun" && e.Layout.String() == "hybrid" {
		return e.Layout.V2
	}
	return ""
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return confine.Reap(ctx, host, left, dryRun)
}
