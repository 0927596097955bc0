// Package gvisor is the driver for gVisor: a kernel in user space answers the
// system calls of a container. runsc runs it without an engine.
//
// runsc is not in Debian. The driver looks for it in PATH and in bakeoff's
// cache; one command builds it there from the Go module proxy.
//
// The container's init process starts the programs, with the streams of the
// client. The host cannot reach a socket inside gVisor's kernel, but that
// kernel takes descriptors from a stream that it was given: the standard input
// of the init process, with a proxy at the other end (see package agent).
// runsc's own exec would take half as long as a creation for each program.
package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/reach/conn"
)

// Version is the version of the module that Check's command builds, of the
// branch go, the only one that builds without Bazel. Toolchain is the Go that
// builds it: gVisor uses offsets in structures of the Go runtime that it knows
// for releases up to 1.24, and panics with later ones.
const (
	Version   = "v0.0.0-20250205023644-9414b50a5633"
	Toolchain = "go1.24.11"
)

// runtime is the name of the program.
const runtime = "runsc"

// Driver runs things in a sandbox of gVisor.
type Driver struct{ isolation.Reaper }

// platforms are the values of the option platform, the default first.
var platforms = []string{"systrap", "ptrace"}

var specs = []param.Spec{
	{Name: "platform", Kind: param.Text, Default: platforms[0], Enum: platforms,
		Doc: "How gVisor intercepts system calls. bakeoff does not offer gVisor's third platform, kvm, because kvm " +
			"needs direct access to the hardware."},
	{Name: "overlay", Kind: param.Text, Default: "root:self", Enum: []string{"root:self", "none"},
		Doc: "Where writes to the root file system go. root:self, gVisor's default: to a file that gVisor keeps in " +
			"the root file system. none: directly to the root file system."},
}

// options are the options of one sandbox.
type options struct{ platform, overlay string }

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("platform"), set.Text("overlay")}, err
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return isolation.Doc(driver.Doc{
		Name: "gvisor",
		Also: map[string]string{"runsc": "gvisor"},
		Summary: "a gVisor container (runsc): a user-space kernel with its own network stack answers the " +
			"container's system calls; the container's init process starts programs",
		Image:        true,
		EndsOfMemory: true,
		Options:      specs,
		Enforces: map[string]string{
			"cpus": "control group cpuset, including the sandbox's own threads",
			"memory": "control group memory, including gVisor's kernel and the init process; a sandbox that exceeds " +
				"the limit ends as a whole",
			"network": "a network namespace with one veth, which the sandbox's own network stack uses",
		},
		Tuning: driver.Tuning{Why: "gVisor's network stack has no sysctl settings"},
		Source: []string{"https://gvisor.dev/docs/", "runsc flags", "OCI Runtime Specification 1.0.2",
			"gvisor: pkg/sentry/socket/unix/transport, SCMRights"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := isolation.Check(ctx, host, isolation.Needs{Overlay: true})
	if !a.OK {
		return a
	}
	runsc, err := find(ctx, host)
	if fault.Is(err, fault.NotFound) {
		return driver.Availability{Reason: "runsc is not built", Fix: fault.Fix(err)}
	}
	if err != nil {
		return driver.Unavailable(err)
	}
	a.Facts["runtime"], a.Facts["version"], a.Facts["runsc"] = runtime, runsc.version, runsc.path
	return a
}

// Create makes an environment.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	o, err := decode(spec.Options)
	if err != nil {
		return nil, err
	}
	if err := (Driver{}).Doc().Tuning.Check(spec.Tuning); err != nil {
		return nil, err
	}
	runsc, err := driver.Remember(spec.Memo, "runsc", func() (program, error) { return find(ctx, host) })
	if err != nil {
		return nil, fault.Wrap(fault.Unsupported, "gvisor", err)
	}
	e, err := isolation.New(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	if err := build(ctx, e, runsc, o); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return isolation.Kernel{Env: e}, nil
}

func build(ctx context.Context, e *isolation.Env, runsc program, o options) error {
	err := start(ctx, e, runsc, o)
	if err == nil {
		err = e.Alive(ctx)
	}
	if err != nil {
		if why := panicked(ctx, e); len(why) > 0 {
			err = fault.WithFix(fault.New(fault.Lab, "%w; %s", err, why), "rebuild it: "+install(path.Join(defaultCache, "bin")))
		}
	}
	return err
}

// start creates the container and executes a program in it.
func start(ctx context.Context, e *isolation.Env, runsc program, o options) error {
	place, err := limited(ctx, e)
	if err != nil {
		return err
	}
	if err := e.Contain(ctx, isolation.Runtime{Name: runtime, Argv: command(e, runsc, o), Proxy: true,
		Place: place}); err != nil {
		return err
	}
	e.OwnKernel()
	f := e.Facts()
	f["runtime"], f["version"] = runtime, runsc.version
	if runsc.sha256 != "" {
		f["runsc-sha256"] = runsc.sha256
	}
	f["platform"], f["overlay"], f["seccomp"] = o.platform, o.overlay, "gVisor's own, around the sandbox"
	f["root"] = "gVisor's gofer, over an overlay over the image in a directory of the host's file system"
	state := e.Details
	e.Details = func(ctx context.Context) []byte { return append(state(ctx), panicked(ctx, e)...) }
	// A wrongly built runsc panics when a program is executed. Check that once.
	_, err = driver.Remember(e.Spec.Memo, "runsc executes on "+o.platform,
		func() (bool, error) { return true, e.Answer(ctx) })
	return err
}

// limited creates the control group and returns the flags of `enter` for runsc.
// If the group exists, runsc does not move itself in and out of each hierarchy,
// which would stop all its threads. runsc would also read the memory limit
// there; instead it reads /proc/meminfo, which is replaced by a file with the
// limit (gvisor: runsc/sandbox, totalSystemMemory).
func limited(ctx context.Context, e *isolation.Env) (place []string, err error) {
	if err := e.Limit(ctx); err != nil || e.Spec.Memory == 0 {
		return nil, err
	}
	const file = "meminfo"
	text := fmt.Sprintf("MemTotal: %d kB\n", int64(e.Spec.Memory)>>10)
	if err := e.Host.Push(ctx, e.Dir(file), 0o444, strings.NewReader(text)); err != nil {
		return nil, err
	}
	return []string{"--private-mounts", "--bind", e.Dir(file) + ":/proc/meminfo"}, nil
}

// panicLog is the file for the reason when gVisor's own kernel fails.
const panicLog = "panic.log"

// panicked is the first line of panicLog, which has the reason.
func panicked(ctx context.Context, e *isolation.Env) []byte {
	head, err := conn.Output(ctx, e.Host, "head", "-c", "1024", e.Dir(panicLog))
	if err != nil || len(head) == 0 {
		return nil
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return append([]byte("gVisor's own kernel failed: "), line...)
}

// command is runsc with its global flags. runsc moves the address of the link
// in its namespace into its own network stack and does not return it, so every
// environment gets a new namespace.
func command(e *isolation.Env, runsc program, o options) []string {
	network := "sandbox"
	if e.Spec.Network == nil {
		network = "none"
	}
	return []string{runsc.path, "--root=" + path.Join(e.Spec.Dir, "state"), "--log=" + path.Join(e.Spec.Dir, "runsc.log"),
		"--panic-log=" + path.Join(e.Spec.Dir, panicLog), "--platform=" + o.platform, "--overlay2=" + o.overlay,
		"--network=" + network, "--ignore-cgroups"}
}
