package isolation

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Doc completes the description of a driver whose environments share the
// host's kernel with what they have in common. Enforces and Packages are added
// to; Tuning is that of the network unless the driver refuses it.
func Doc(d driver.Doc) driver.Doc {
	d.Status, d.Hosts, d.Root, d.Backings = driver.Proven, []string{"linux"}, true, volume.Backings()
	enforces := map[string]string{
		"cpus":    "control group cpuset: exactly the contender's CPUs",
		"memory":  "control group memory, without swap",
		"network": "a network namespace with one veth",
	}
	maps.Copy(enforces, d.Enforces)
	d.Enforces = cgroup.Enforces(enforces)
	if d.Tuning.Why == "" {
		d.Tuning = Tuning()
	}
	d.Packages = append(d.Packages, "iproute2", "util-linux")
	slices.Sort(d.Packages)
	return d
}

// Create begins an environment with New and has build do the rest. When build
// fails, what was created is removed.
func Create(ctx context.Context, host conn.Conn, spec driver.Spec, build func(e *Env) error) (driver.Instance, error) {
	e, err := New(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	if err := build(e); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return e, nil
}

// The OCI runtimes of Debian. Each has the name of its package and its program.
const (
	Crun = "crun"
	Runc = "runc"
)

// RuntimeOption is the option that chooses between them.
func RuntimeOption(byDefault, doc string) param.Spec {
	return param.Spec{Name: "runtime", Kind: param.Text, Default: byDefault, Enum: []string{Crun, Runc}, Doc: doc}
}

// FilterOption is the option that turns a technology's system call filter off.
func FilterOption(doc string) param.Spec {
	return param.Spec{Name: "filter", Kind: param.Text, Default: "on", Enum: []string{"on", "off"}, Doc: doc}
}

// Filtered reads the one option of a driver that has a FilterOption.
func Filtered(specs []param.Spec, options param.Values) (bool, error) {
	set, err := driver.Options(specs, options)
	return set.Text("filter") == "on", err
}

// Version is the first line that a program of host prints with --version.
func Version(ctx context.Context, host conn.Conn, program string) (string, error) {
	out, err := conn.Output(ctx, host, program, "--version")
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(line), err
}

// Version is the function Version, which asks once for all environments of a run.
func (e *Env) Version(ctx context.Context, program string) (string, error) {
	ask := func() (string, error) { return Version(ctx, e.Host, program) }
	return driver.Remember(e.Spec.Memo, program+" --version", ask)
}

// WithVersion adds the fact version to an answer of Check that says yes.
func WithVersion(ctx context.Context, host conn.Conn, a driver.Availability, program string) driver.Availability {
	if !a.OK {
		return a
	}
	v, err := Version(ctx, host, program)
	if err != nil {
		return driver.Unavailable(err)
	}
	a.Facts["version"] = v
	return a
}
