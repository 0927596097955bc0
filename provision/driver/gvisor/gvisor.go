// Package gvisor is the driver for gVisor: containers whose system calls are
// answered by a kernel in user space, run by runsc without an engine above it.
//
// runsc is not in Debian. It is looked for in PATH and in bakeoff's cache,
// into which one command builds it from the Go module proxy.
//
// The container's init process starts the programs, with the streams of the
// client. The host cannot reach a socket inside gVisor's kernel, but that kernel
// takes descriptors out of a stream that it was given: it is the standard input
// of the init process, with a proxy at the other end (see package agent).
// runsc's own exec repeats this for each program, and takes half as long as a
// creation.
package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/confine"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// Version is the version of the module that Check's command builds: of the
// branch go, on which alone gVisor can be built without Bazel. Toolchain is
// the Go that builds it: gVisor reads the runtime's own structures at offsets
// that it knows for releases up to 1.24, and panics with later ones.
const (
	Version   = "v0.0.0-20250205023644-9414b50a5633"
	Toolchain = "go1.24.11"
)

// runtime is the name of the program.
const runtime = "runsc"

// Driver runs things in a sandbox of gVisor.
type Driver struct{}

// platforms are the values of the option platform, the default first.
var platforms = []string{"systrap", "ptrace"}

var specs = []param.Spec{
	{Name: "platform", Kind: param.Text, Default: platforms[0], Enum: platforms,
		Doc: "How gVisor intercepts system calls. kvm is not available: it needs direct access to the hardware."},
	{Name: "overlay", Kind: param.Text, Default: "root:self", Enum: []string{"root:self", "none"},
		Doc: "Where writes to the root go: to a file that gVisor keeps in the root (root:self, gVisor's default) or to the " +
			"root itself (none)."},
}

// options are the options of one sandbox.
type options struct{ platform, overlay string }

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("platform"), set.Text("overlay")}, err
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return confine.Doc(driver.Doc{
		Name: "gvisor",
		Also: map[string]string{"runsc": "gvisor"},
		Summary: "a gVisor container (runsc): a kernel in user space answers its system calls, " +
			"and that kernel has its own network stack; the container's init process starts programs",
		Image:        true,
		EndsOfMemory: true,
		Options:      specs,
		Enforces: map[string]string{
			"cpus": "control group cpuset, including the sandbox's own threads",
			"memory": "control group memory, including gVisor's kernel and the init process; exceeding it ends the whole " +
				"sandbox",
			"network": "a network namespace with one veth, which the sandbox's own network stack uses",
		},
		Tuning: driver.Tuning{Why: "gVisor's network stack has no sysctl settings"},
		Source: []string{"https://gvisor.dev/docs/", "runsc flags", "OCI Runtime Specification 1.0.2",
			"gvisor: pkg/sentry/socket/unix/transport, SCMRights"},
	})
}

// Check tells whether host can be used.
func (Driver) Check(ctx context.Context, host conn.Conn, _ param.Values) driver.Availability {
	a := confine.Check(ctx, host, confine.Needs{Overlay: true})
	if !a.OK {
		return a
	}
	runsc, err := find(ctx, host)
	if fault.Is(err, fault.NotFound) {
		return driver.Availability{Reason: "not built: runsc", Fix: fault.Fix(err)}
	}
	if err != nil {
		return confine.No(err)
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
	e, err := confine.New(ctx, host, spec)
	if err != nil {
		return nil, err
	}
	if err := build(ctx, e, runsc, o); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return confine.Kernel{Env: e}, nil
}

func build(ctx context.Context, e *confine.Env, runsc program, o options) error {
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

// start makes the container and executes something in it.
func start(ctx context.Context, e *confine.Env, runsc program, o options) error {
	place, err := limited(ctx, e)
	if err != nil {
		return err
	}
	if err := e.Contain(ctx, confine.Runtime{Name: runtime, Argv: command(e, runsc, o), Proxy: true,
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
	// A runsc that was built wrongly panics when something is executed. That is
	// found out once.
	_, err = driver.Remember(e.Spec.Memo, "runsc executes on "+o.platform,
		func() (bool, error) { return true, e.Answer(ctx) })
	return err
}

// limited makes the control group, and says where runsc starts. In a group that
// is there already it leaves out its own moving in and out of each hierarchy, for
// which the kernel holds all of its threads up. How much memory what runs inside
// is told of, runsc would read there; now it reads the host's /proc/meminfo, and
// finds the limit in its place (gvisor: runsc/sandbox, totalSystemMemory).
func limited(ctx context.Context, e *confine.Env) (place []string, err error) {
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

// panicLog is where a sandbox whose own kernel fails says why.
const panicLog = "panic.log"

// panicked is the first line of that, which has the reason; stacks follow.
func panicked(ctx context.Context, e *confine.Env) []byte {
	head, err := conn.Output(ctx, e.Host, "head", "-c", "1024", e.Dir(panicLog))
	if err != nil || len(head) == 0 {
		return nil
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return append([]byte("gVisor's own kernel failed: "), line...)
}

// command is runsc with its global flags. runsc moves the address of the link
// in its namespace into its own network stack and gives nothing back, so the
// namespace is made anew with every environment.
func command(e *confine.Env, runsc program, o options) []string {
	network := "sandbox"
	if e.Spec.Network == nil {
		network = "none"
	}
	return []string{runsc.path, "--root=" + path.Join(e.Spec.Dir, "state"), "--log=" + path.Join(e.Spec.Dir, "runsc.log"),
		"--panic-log=" + path.Join(e.Spec.Dir, panicLog), "--platform=" + o.platform, "--overlay2=" + o.overlay,
		"--network=" + network, "--ignore-cgroups"}
}

// Reap removes what an environment has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return confine.Reap(ctx, host, left, dryRun)
}
