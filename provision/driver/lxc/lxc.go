// Package lxc is the driver for LXC: containers by lxc-start, without LXD or
// Incus.
//
// The driver writes a configuration for each environment. Capabilities, devices
// and the system call filter are those of the distribution's common.conf. The
// container's init process starts the programs, so they have the container's
// filter and capability bounds, and no second LXC program is needed for each.
package lxc

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// Driver runs things in a container of LXC.
type Driver struct{}

// profile is the filter of LXC's packages that common.conf names.
const profile = "/usr/share/lxc/config/common.seccomp"

var options = []param.Spec{
	isolation.FilterOption("Whether the container has the system call filter of LXC's packages. With off, " +
		"a contender shows how much time the filter takes."),
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "lxc",
		Also: map[string]string{"lxd": "lxc", "incus": "lxc"},
		Summary: "an LXC container with all namespaces except the user namespace, and with the capabilities, " +
			"devices and system call filter of the distribution's common.conf; the container's init process starts " +
			"programs",
		Image:    true,
		Options:  options,
		Packages: []string{"lxc"},
		Source:   []string{"lxc.container.conf(5)", "lxc-start(1)", "cgroups(7)"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	filter, err := isolation.Filtered(options, values)
	if err != nil {
		return driver.Unavailable(err)
	}
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true,
		Programs: map[string]string{"lxc-start": "lxc", "lxc-stop": "lxc"}})
	if a.OK && filter {
		if _, err := conn.FilesOf(host).ReadFile(ctx, profile); err != nil {
			return driver.Availability{Reason: "no filter of system calls: " + err.Error(),
				Fix: "reinstall the package lxc, which brings " + profile + ", or set the option filter: off"}
		}
	}
	return isolation.WithVersion(ctx, host, a, "lxc-start")
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	filter, err := isolation.Filtered(options, spec.Options)
	if err != nil {
		return nil, err
	}
	return isolation.Create(ctx, host, spec, func(e *isolation.Env) error { return build(ctx, e, filter) })
}

// The files in the environment's directory: LXC's own (-P), the container's
// configuration and its log.
const (
	ownDir  = "lxc"
	file    = "lxc.conf"
	logFile = "lxc.log"
)

func build(ctx context.Context, e *isolation.Env, filter bool) error {
	e.Remains = remains
	e.Details = func(ctx context.Context) []byte { return details(ctx, e) }
	v, err := e.Version(ctx, "lxc-start")
	if err != nil {
		return err
	}
	confined, more, err := apparmor(ctx, e.Host)
	if err != nil {
		return err
	}
	e.Facts()["apparmor"] = confined
	var g wire.Setup
	if err := e.LimitWhile(func() error { return limit(ctx, e) }, func() (err error) {
		g, err = files(ctx, e, filter, more)
		return err
	}); err != nil {
		return err
	}
	if err := start(ctx, e, g); err != nil {
		return err
	}
	e.Facts()["version"], e.Facts()["seccomp"] = v, "LXC's common profile"
	if !filter {
		e.Facts()["seccomp"] = "none"
	}
	return nil
}

// limit creates the control group. LXC creates those of the container and of
// its monitor below it. In version 1 a group without CPUs accepts no process,
// so ours must pass its CPUs on.
func limit(ctx context.Context, e *isolation.Env) error {
	if err := e.Limit(ctx); err != nil {
		return err
	}
	// LXC also creates groups in hierarchies that bakeoff does not limit.
	if err := e.Reserve(ctx, ""); err != nil {
		return err
	}
	v1 := e.Layout.V1["cpuset"]
	if v1 == "" {
		return nil
	}
	return conn.FilesOf(e.Host).WriteFile(ctx, path.Join(v1, e.Group.Path(), "cgroup.clone_children"), []byte("1"))
}

// files creates the volumes and the configuration, and describes the setup.
func files(ctx context.Context, e *isolation.Env, filter bool, more []string) (g wire.Setup, err error) {
	g, binds, err := e.InitSetup(ctx, nil)
	if err != nil {
		return g, err
	}
	if err := conn.FilesOf(e.Host).Mkdir(ctx, e.Dir(ownDir)); err != nil {
		return g, err
	}
	text, err := config(e, binds, filter, more)
	if err != nil {
		return g, err
	}
	return g, e.Host.Push(ctx, e.Dir(file), 0o644, strings.NewReader(text))
}

// start starts the container and adopts its control group. lxc-start stays in the
// foreground: as a daemon it would start twice more and then wait for the state of
// the container. If the controller is killed, lxc-start and the container end.
func start(ctx context.Context, e *isolation.Env, g wire.Setup) error {
	argv := append(command(e, "lxc-start"), "--foreground", "--rcfile", e.Dir(file))
	if err := e.HoldInit(ctx, g, isolation.Program{Argv: argv}); err != nil {
		if log := causes(tail(ctx, e)); len(log) > 0 {
			err = fault.New(fault.Lab, "%w; its log says:\n%s", err, log)
		}
		return fault.Op("lxc-start", err)
	}
	hierarchy := e.Layout.V1["memory"]
	if hierarchy == "" {
		hierarchy = e.Layout.V2
	}
	procs, err := conn.FilesOf(e.Host).ReadFile(ctx, path.Join(hierarchy, e.Group.Path(), payload, "cgroup.procs"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(procs), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid < 1 {
		return fault.New(fault.Subject, "lxc-start: the container has ended; its log ends with:\n%s", tail(ctx, e))
	}
	outer := e.Group
	if err := e.AdoptOf(ctx, pid, path.Join(e.Spec.Label, payload)); err != nil {
		return err
	}
	e.Group.Within(outer)
	return nil
}

// command is an LXC program with the common flags.
func command(e *isolation.Env, program string) []string {
	return []string{program, "--lxcpath", e.Dir(ownDir), "--name", e.Spec.Label, "--logfile", e.Dir(logFile),
		"--logpriority", "ERROR"}
}

// tail is the end of LXC's log.
func tail(ctx context.Context, e *isolation.Env) []byte {
	t := conn.Tail{Limit: 4 << 10}
	if err := e.Host.Pull(ctx, e.Dir(logFile), &t); err != nil {
		return nil
	}
	return t.Bytes()
}

// causes removes lines from LXC's log that only say that something failed:
// those of the program that waits for the container.
func causes(log []byte) []byte {
	var out []byte
	for line := range bytes.Lines(log) {
		if f := bytes.Fields(line); len(f) < 5 || !slices.Contains([]string{"lxc_start", "lxccontainer", "sync"},
			string(f[4])) {
			out = append(out, line...)
		}
	}
	if len(out) == 0 {
		return log
	}
	return out
}

// details is LXC's part of Diagnose.
func details(ctx context.Context, e *isolation.Env) []byte {
	if log := tail(ctx, e); len(log) > 0 {
		return append([]byte("LXC's log ends with:\n"), log...)
	}
	return nil
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return isolation.ReapMore(ctx, host, left, dryRun, unfinished)
}

// locks is where LXC keeps a lock for each container, below the path of the
// directory in -P.
const locks = "/run/lxc/lock"

// remains removes the lock and its empty parent directories.
func remains(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	dir := left.Dir
	if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" {
		return nil, fault.New(fault.Invalid, "%q is not the directory of an environment", dir)
	}
	own := path.Join(locks, dir, ownDir)
	names, err := conn.FilesOf(host).ReadDir(ctx, own)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return removeLock(ctx, host, own, names, dryRun)
}

// unfinished removes what remains removes, and the directories that an lxc-start had
// created when it was killed: it creates them one by one.
func unfinished(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	found, err := remains(ctx, host, left, dryRun)
	if err != nil || len(found) > 0 {
		return found, err
	}
	for at := path.Join(locks, left.Dir); at != locks; at = path.Dir(at) {
		names, err := conn.FilesOf(host).ReadDir(ctx, at)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil || len(names) > 0: // those of other containers
			return nil, err
		}
		return removeLock(ctx, host, at, nil, dryRun)
	}
	return nil, nil
}

// removeLock removes the files names in the directory own, the directory, and its empty
// parent directories.
func removeLock(ctx context.Context, host conn.Conn, own string, names []string, dryRun bool) ([]string, error) {
	found := []string{"directory " + own}
	if dryRun {
		return found, nil
	}
	for _, n := range names {
		if _, err := conn.Output(ctx, host, "rm", "-f", "--", path.Join(own, n)); err != nil {
			return found, err
		}
	}
	// Two containers that end at the same time may both remove the parents.
	if _, err := conn.Output(ctx, host, "rmdir", "-p", "--ignore-fail-on-non-empty", "--", own); err != nil {
		if _, still := conn.FilesOf(host).ReadDir(ctx, own); !fault.Is(still, fault.NotFound) {
			return found, err
		}
	}
	return found, nil
}

// payload and monitor are the groups that LXC creates below ours.
const (
	payload = "payload"
	monitor = "monitor"
)

// groups sets the paths of LXC's groups.
func groups(label string) []string {
	own := strings.TrimPrefix(cgroup.Path(label), "/")
	return []string{
		"lxc.cgroup.dir.container = " + path.Join(own, payload),
		"lxc.cgroup.dir.monitor = " + path.Join(own, monitor),
		"lxc.cgroup.dir.monitor.pivot = " + path.Join(own, "pivot"),
	}
}
