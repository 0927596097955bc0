// Package vmm creates virtual machines with OpenBSD's vmm, through vmctl.
//
// The guest's disk is derived from an image that runs `bakeoff-agent serve
// tcp:0.0.0.0:7311` at boot. vmd gives every guest a local network with the
// host, where the guest has the address 100.64.ID.3; the agent is reached
// there.
package vmm

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// Driver creates machines.
type Driver struct{}

const agentPort = 7311

var specs = []param.Spec{
	{Name: "disk", Kind: param.Text,
		Doc: "Path of a qcow2 image, the base of the guest's disk. At boot, the guest must run `bakeoff-agent serve " +
			"tcp:0.0.0.0:7311` and configure vio0 by DHCP."},
	{Name: "kernel", Kind: param.Text, Doc: "Path of a kernel to boot instead of the kernel on the disk, such as " +
		"/bsd."},
	{Name: "boot-timeout", Kind: param.Duration, Default: "2m0s", Doc: "Maximum time until the guest's agent answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "vmm",
		Also:    map[string]string{"vmd": "vmm", "vmctl": "vmm"},
		Summary: "a virtual machine of OpenBSD's vmm with one processor, created by vmctl", Status: driver.Unproven,
		Hosts: []string{"openbsd"}, Root: true, Options: specs, Backings: []string{volume.FFS, volume.Tmpfs},
		Enforces: map[string]string{"cpus": "one virtual processor, on any CPU of the host",
			"memory": "the memory size of the guest"},
		OwnRoot: []string{"*"},
		Tuning:  driver.Tuning{Why: "the settings of the guest come from its image"},
		Source:  []string{"vmctl(8)", "vmd(8)", "vm.conf(5)"},
	}
}

// options are the options of one machine.
type options struct {
	disk, kernel string
	bootTimeout  time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("disk"), set.Text("kernel"), set.Duration("boot-timeout")}, err
}

// Check tells whether host can run such a machine.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	a := guest.System(ctx, host, "OpenBSD")
	if !a.OK {
		return a
	}
	o, err := decode(values)
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	if _, ok, err := guest.Ask(ctx, host, "vmctl", "status"); err != nil || !ok {
		return driver.Availability{Reason: "vmd does not answer", Fix: "rcctl -f start vmd"}
	}
	if o.disk == "" {
		return guest.NoDisk()
	}
	return guest.Release(ctx, host, a)
}

func nameOf(label string) string { return "bakeoff-" + label }

// Create creates a machine and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	e := guest.New(d, host, spec)
	o, err := validate(spec)
	if err != nil {
		return nil, e.Refuse(err)
	}
	// vmd keeps no machine that has ended: a listed one lives.
	row, err := find(ctx, host, nameOf(spec.Label))
	if err == nil && row != nil && row.running {
		err = guest.Taken("a machine " + nameOf(spec.Label))
	}
	if err != nil {
		return nil, e.Refuse(err)
	}
	if err := build(ctx, e, o); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return guest.Machine{Env: e}, nil
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec)
	return err
}

func validate(spec driver.Spec) (options, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = guest.Check((Driver{}).Doc(), spec, 64*unit.MiB)
	}
	switch {
	case err != nil:
		return o, err
	case !path.IsAbs(o.disk):
		err = fault.New(fault.Invalid, "disk must be the absolute path of an image (got %q)", o.disk)
	case o.kernel != "" && !path.IsAbs(o.kernel):
		err = fault.New(fault.Invalid, "kernel must be an absolute path (got %q)", o.kernel)
	case spec.CPUs != 1:
		err = fault.WithFix(fault.New(fault.Unsupported, "vmm supports only one processor (got %d)", spec.CPUs),
			"write cpus: 1")
	case spec.Network != nil:
		err = fault.WithFix(fault.New(fault.Unsupported, "vmm does not support the experiment's network"), "remove the "+
			"cells whose load comes from outside, or use another driver")
	}
	return o, err
}

// makeVolumes creates the raw disks of the volumes that are not in the guest's memory, and
// returns the arguments of vmctl for them. The guest formats them.
func makeVolumes(ctx context.Context, e *guest.Env) (argv []string, err error) {
	for i, v := range e.Spec.Volumes {
		if v.Backing == volume.Tmpfs {
			continue
		}
		disk := path.Join(e.Spec.Dir, fmt.Sprintf("volume%d.img", i))
		size := fmt.Sprintf("%dM", (v.Size+unit.MiB-1)/unit.MiB)
		if err := guest.Run(ctx, e.Host, "vmctl", "create", "-s", size, disk); err != nil {
			return nil, fault.Op("volume "+v.Path, err)
		}
		e.Properties.HostCache[v.Path] = volume.CacheUsed
		argv = append(argv, "-d", "raw:"+disk)
	}
	return argv, nil
}

// formatDisk gives disk sd$2 of the guest one partition with FFS and mounts it at $1. The disk
// with the root is sd0.
//
// Source: disklabel(8), newfs(8).
const formatDisk = `t=$(mktemp) && echo "/ 1M-* 100%" >"$t" && disklabel -w -A -T "$t" "sd$2" && rm "$t" &&
newfs "/dev/rsd$2a" >/dev/null && exec mount -o noatime "/dev/sd$2a" "$1"`

func build(ctx context.Context, e *guest.Env, o options) error {
	name, disk := nameOf(e.Spec.Label), path.Join(e.Spec.Dir, "disk.qcow2")
	if err := guest.Run(ctx, e.Host, "vmctl", "create", "-b", o.disk, disk); err != nil {
		return err
	}
	volumes, err := makeVolumes(ctx, e)
	if err != nil {
		return err
	}
	argv := []string{"vmctl", "start"}
	if o.kernel != "" {
		argv = append(argv, "-b", o.kernel)
	}
	asked := time.Now()
	argv = append(append(argv, "-d", "qcow2:"+disk), volumes...)
	if err := guest.Run(ctx, e.Host, append(argv, "-m", fmt.Sprintf("%dM", e.Spec.Memory/unit.MiB), "-L",
		name)...); err != nil {
		return err
	}
	e.Saw(bootmodel.MarkHypervisor, "vmctl start returned", time.Since(asked))
	e.Lacks("vmd does not say when it starts the processor or the kernel", bootmodel.MarkVCPU, bootmodel.MarkFirmware,
		bootmodel.MarkKernel)
	timeout := o.bootTimeout
	// vmctl returns before the machine runs.
	end := time.After(timeout)
	var row *row
	for {
		var err error
		if row, err = find(ctx, e.Host, name); err != nil {
			return err
		}
		if row != nil && row.running {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return fault.New(fault.Subject, "the machine did not start within %v", timeout)
		}
	}
	p := e.Start(ctx, "vmctl", "wait", name)
	p.Why = func(conn.Exit, []byte) error { return fault.New(fault.Subject, "the machine has stopped") }
	var rw net.Conn
	if err := p.Until(ctx, timeout, func() (err error) {
		rw, err = e.Host.Dial(ctx, "tcp", fmt.Sprintf("100.64.%d.3:%d", row.id, agentPort))
		return err
	}); err != nil {
		return err
	}
	if err := e.Meet(ctx, rw, p, timeout); err != nil {
		return err
	}
	return describe(ctx, e)
}

func describe(ctx context.Context, e *guest.Env) error {
	steps := [][]string{{"mkdir", "-p", guest.Scratch}}
	disk := 0
	for _, v := range e.Spec.Volumes {
		steps = append(steps, []string{"mkdir", "-p", v.Path})
		if v.Backing != volume.Tmpfs {
			disk++
			steps = append(steps, []string{"sh", "-c", formatDisk, "sh", v.Path, strconv.Itoa(disk)})
			continue
		}
		// OpenBSD's memory file system; its size is in sectors.
		steps = append(steps, []string{"mount_mfs", "-s",
			strconv.FormatInt(int64(v.Size)/512, 10), "swap", v.Path})
	}
	if err := e.Prepare(ctx, steps...); err != nil {
		return err
	}
	one, memory := 1, e.Spec.Memory
	p := &e.Properties
	p.OwnKernel, p.Limits.CPUs, p.Limits.Memory = true, &one, &memory
	p.Limits.NotEnforced = map[string]string{"cpu_set": "vmm pins no processors"}
	if e.Spec.Quota > 0 {
		p.Limits.NotEnforced["quota"] = "vmd has no limit of a machine's processor time"
	}
	if e.Spec.Read > 0 || e.Spec.Write > 0 {
		p.Limits.NotEnforced["io"] = "vmd has no limit of a machine's disk"
	}
	p.Facts["disk"] = "qcow2, derived from the image"
	return nil
}

// row is a machine in vmctl's list.
type row struct {
	id      int
	running bool
}

func find(ctx context.Context, host conn.Conn, name string) (*row, error) {
	list, err := guest.Output(ctx, host, "vmctl", "status")
	if err != nil {
		return nil, err
	}
	return parse(list, name)
}

// parse finds a machine in the output of `vmctl status`: a header, then a line
// for each machine with its number first, then its process ("-" if it has
// none), its state and, last, its name.
func parse(list, name string) (*row, error) {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) < 4 || f[len(f)-1] != name {
			continue
		}
		id, err := strconv.Atoi(f[0])
		if err != nil || id < 1 || id > 255 {
			return nil, fault.New(fault.Lab, "vmctl status: %q is not the number of a machine", safetext.Line(f[0]))
		}
		return &row{id: id, running: f[1] != "-" && !slices.Contains(f, "stopping")}, nil
	}
	return nil, nil
}

// Reap removes what a machine has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	name := nameOf(left.Label)
	row, err := find(ctx, host, name)
	if fault.Is(err, fault.NotFound) || err == nil && row == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := []string{"machine " + name}
	if dryRun {
		return found, nil
	}
	return found, guest.Run(ctx, host, "vmctl", "stop", "-f", "-w", name)
}
