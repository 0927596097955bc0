// Package firecracker makes microVMs with Firecracker, which is told what to do
// over HTTP on a Unix socket.
//
// The guest boots a kernel directly; bakeoff-agent is its process 1 and answers
// on a port of the virtio socket. Its root is a copy of the image's file
// system, because Firecracker has no temporary changes.
package firecracker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/cgroup"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent"
	"bakeoff/reach/conn"
	"bakeoff/reach/probe"
)

// Driver makes microVMs.
type Driver struct{}

const (
	optKernel      = "kernel"
	optModules     = "modules"
	optCache       = "cache"
	optEngine      = "io-engine"
	optAppend      = "append"
	optProgram     = "program"
	optBootTimeout = "boot-timeout"
)

var options = []param.Spec{
	{Name: optKernel, Kind: param.Text, Doc: "Path on the host of a kernel (an ELF vmlinux) to boot instead of the image's, which is unpacked."},
	{Name: optModules, Kind: param.Text, Doc: "Directory on the host that has lib/modules/VERSION for that kernel; not needed where virtio, vsock and ext4 are built in."},
	{Name: optCache, Kind: param.Text, Default: "Unsafe", Enum: []string{"Unsafe", "Writeback"}, Doc: "Whether a flush of the guest's reaches the host's disk: Unsafe, Firecracker's default, ignores it."},
	{Name: optEngine, Kind: param.Text, Default: "Sync", Enum: []string{"Sync", "Async"}, Doc: "How Firecracker reads and writes its drives: Async is io_uring."},
	{Name: optAppend, Kind: param.Text, Doc: "Words to add to the kernel's command line, as mitigations=off."},
	{Name: optProgram, Kind: param.Text, Default: "firecracker", Doc: "Firecracker, a name or a path on the host; it needs version 1.8 or later, whose ACPI tells a packaged kernel of its devices."},
	{Name: optBootTimeout, Kind: param.Duration, Default: "30s", Doc: "How long the guest may take until its agent answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:     "firecracker",
		Summary:  "a microVM under Firecracker, with hardware virtualisation; without its jailer",
		Status:   driver.Unproven,
		Hosts:    []string{"linux"},
		Root:     true,
		Image:    true,
		Kernel:   true,
		Options:  options,
		Backings: []string{volume.Disk, volume.Ext4, volume.Tmpfs},
		Enforces: cgroup.Enforces(map[string]string{
			"cpus":   "as many virtual processors, and the host's control group cpuset for all of Firecracker",
			"memory": "the size of the guest's memory; Firecracker's own is beside it, and metered",
		}),
		Tuning: driver.Tuning{Names: []string{"*"}},
		Source: []string{
			"https://github.com/firecracker-microvm/firecracker/blob/main/src/firecracker/swagger/firecracker.yaml",
			"https://github.com/firecracker-microvm/firecracker/blob/main/docs/vsock.md",
		},
	}
}

func settings(o param.Values) param.Values {
	v := param.Defaults(options)
	for k, text := range o {
		if text != "" {
			v[k] = text
		}
	}
	return v
}

// hostAgent is where Check looks for the agent on a host: a Conn may know.
type hostAgent interface{ Agent() string }

// Check tells whether Firecracker can run a guest on host.
func (Driver) Check(ctx context.Context, host conn.Conn, o param.Values) driver.Availability {
	a := guest.System(ctx, host, "Linux")
	if !a.OK {
		return a
	}
	program := settings(o).Text(optProgram)
	version, err := guest.Output(ctx, host, program, "--version")
	if fault.Is(err, fault.NotFound) {
		return driver.Availability{Reason: program + " is not installed",
			Fix: "take a release of github.com/firecracker-microvm/firecracker, and put it into the PATH"}
	}
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	first, _, _ := strings.Cut(version, "\n")
	a.Facts["firecracker"] = safetext.Line(strings.TrimPrefix(first, "Firecracker v"))
	at := "bakeoff-agent"
	if h, ok := host.(hostAgent); ok {
		at = h.Agent()
	}
	kvm, err := probeKVM(ctx, host, at)
	if err == nil && !kvm.Works {
		return driver.Availability{Reason: "KVM does not work here: " + kvm.Reason, Fix: "use a machine with hardware virtualisation", Facts: a.Facts}
	}
	return a
}

func probeKVM(ctx context.Context, host conn.Conn, agentPath string) (r agent.KVMResult, err error) {
	out, err := conn.Output(ctx, host, agentPath, "kvm-probe")
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return r, err
}

// The names of what a microVM has in its directory on the host; the paths of
// sockets have 107 bytes.
const (
	socketAPI   = "a"
	socketVsock = "v"
	fileRoot    = "root.ext4"
	fileKernel  = "vmlinux"
	fileInitrd  = "initramfs.cpio"
	fileState   = "firecracker.json"
	agentPort   = 1024
	maxPath     = 107
	minMemory   = 96 * unit.MiB
)

// Instance is a microVM whose agent answers.
type Instance struct {
	guest.Machine
	group *cgroup.Group
	api   api
}

var (
	_ driver.Freezer = (*Instance)(nil)
	_ driver.Meter   = (*Instance)(nil)
)

// Create makes a microVM and returns when the agent in it answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	set := settings(spec.Options)
	op := "firecracker: create " + spec.Label
	if err := validate(spec, set); err != nil {
		return nil, fault.Op(op, err)
	}
	left := driver.Leftover{Label: spec.Label, Dir: spec.Dir}
	if err := vacant(ctx, host, left); err != nil {
		return nil, fault.Op(op, err)
	}
	e := guest.New("firecracker", host, spec, func(ctx context.Context) error {
		_, err := reap(ctx, host, left, false)
		return err
	})
	in := &Instance{Machine: guest.Machine{Env: e}, api: api{host: host, socket: path.Join(spec.Dir, socketAPI)}}
	if err := in.build(ctx, set); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return in, nil
}

// Validate refuses what Create would refuse on any host, for driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	return validate(spec, settings(spec.Options))
}

func validate(spec driver.Spec, set param.Values) error {
	if err := guest.Check(spec); err != nil {
		return err
	}
	switch {
	case len(spec.CPUSet) == 0:
		return fault.New(fault.Invalid, "no CPUs are given")
	case spec.Memory%unit.MiB != 0 || spec.Memory < minMemory:
		return fault.New(fault.Invalid, "memory %v; a guest has whole MiB, and at least %v", spec.Memory, minMemory)
	case spec.Image.Disk == "":
		return fault.New(fault.Invalid, "a machine boots from an image; name one, as image: debian:bookworm")
	case spec.Image.Kernel == "" && set.Text(optKernel) == "":
		return fault.New(fault.Invalid, "the image has no kernel; name one with the option %s", optKernel)
	case strings.HasPrefix(set.Text(optProgram), "-"):
		return fault.New(fault.Invalid, "%s: %q is not a program", optProgram, set.Text(optProgram))
	case strings.ContainsFunc(set.Text(optAppend), func(r rune) bool { return r < ' ' || r > '~' }):
		return fault.New(fault.Invalid, "%s: %q has other than printable ASCII characters", optAppend, set.Text(optAppend))
	case len(path.Join(spec.Dir, socketVsock)) > maxPath:
		return fault.WithFix(fault.New(fault.Lab, "the directory %s is too long for a socket in it", spec.Dir), "set BAKEOFF_STATE to a shorter path")
	}
	for _, v := range spec.Volumes {
		if !path.IsAbs(v.Path) || path.Clean(v.Path) == "/" {
			return fault.New(fault.Invalid, "volume %q: write an absolute path below /", v.Path)
		}
		if v.Backing == volume.Disk && !path.IsAbs(v.Device) {
			return fault.New(fault.Invalid, "volume %s: %q is not the absolute path of a device", v.Path, v.Device)
		}
		if !slices.Contains([]string{volume.Tmpfs, volume.Ext4, volume.Disk}, v.Backing) {
			return fault.New(fault.Unsupported, "volume %s: a microVM cannot have a volume of backing %s", v.Path, v.Backing)
		}
	}
	return nil
}

// vacant sees to it that nothing of that label is there: what nothing runs in
// any more was left behind and is removed, what lives belongs to another.
func vacant(ctx context.Context, host conn.Conn, left driver.Leftover) error {
	found, err := reap(ctx, host, left, true)
	if err != nil || len(found) == 0 {
		return err
	}
	for _, f := range found {
		if strings.HasPrefix(f, "process ") {
			return fault.WithFix(fault.New(fault.Lab, "there is %s already", f), "`bakeoff clean` removes what was left behind")
		}
	}
	_, err = reap(ctx, host, left, false)
	return err
}

// Freeze stops the guest's processors.
func (in *Instance) Freeze(ctx context.Context) error {
	in.Conn.Rest(true)
	if err := in.api.call(ctx, "PATCH", "/vm", map[string]any{"state": "Paused"}, nil); err != nil {
		in.Conn.Rest(false)
		return err
	}
	return nil
}

// Thaw lets them run again.
func (in *Instance) Thaw(ctx context.Context) error {
	if err := in.api.call(ctx, "PATCH", "/vm", map[string]any{"state": "Resumed"}, nil); err != nil {
		return err
	}
	in.Conn.Rest(false)
	return nil
}

// Usage is what Firecracker has spent for the guest and for itself.
func (in *Instance) Usage(ctx context.Context) (probe.Scope, error) { return in.group.Usage(ctx) }

// Reap removes what a microVM has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return reap(ctx, host, left, dryRun)
}

func reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) (found []string, err error) {
	layout, err := cgroup.Detect(ctx, host)
	if fault.Is(err, fault.Unsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dirs, err := layout.Find(ctx, host, left.Label)
	if err != nil {
		return nil, err
	}
	if len(dirs) > 0 {
		group, err := layout.Adopt(ctx, host, left.Label, cgroup.Limits{})
		if err != nil {
			return nil, err
		}
		pids, err := group.PIDs(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range pids {
			found = append(found, fmt.Sprintf("process %d firecracker", p))
		}
		for _, d := range dirs {
			found = append(found, "control group "+d)
		}
		if !dryRun {
			if err := group.Remove(ctx); err != nil {
				return found, err
			}
		}
	}
	tap, err := reapTap(ctx, host, left, dryRun)
	return append(found, tap...), err
}

// leftover is what Reap needs to know beyond a lease, as it lies in the
// environment's directory.
type leftover struct {
	Namespace string `json:"namespace"`
}

func reapTap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	text, err := conn.FilesOf(host).ReadFile(ctx, path.Join(left.Dir, fileState))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	var l leftover
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && (l.Namespace == "" || strings.ContainsAny(l.Namespace, "/ \n") || strings.HasPrefix(l.Namespace, "-")) {
		err = fmt.Errorf("%q is not the name of a namespace", l.Namespace)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Lab, path.Join(left.Dir, fileState), err)
	}
	if there, err := netns.Exists(ctx, host, l.Namespace); !there || err != nil {
		return nil, err
	}
	tap := netns.Tap(left.Label)
	if there, err := netns.HasLink(ctx, host, l.Namespace, tap); !there || err != nil {
		return nil, err
	}
	if !dryRun {
		err = netns.DetachTap(ctx, host, l.Namespace, left.Label)
	}
	return []string{fmt.Sprintf("tap %s in namespace %s", tap, l.Namespace)}, err
}

func (in *Instance) remember(ctx context.Context, n *driver.Network) error {
	text, err := json.Marshal(leftover{n.Namespace})
	if err != nil {
		return err
	}
	return in.Host.Push(ctx, path.Join(in.Spec.Dir, fileState), 0o600, bytes.NewReader(text))
}
