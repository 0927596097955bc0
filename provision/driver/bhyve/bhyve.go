// Package bhyve makes virtual machines with FreeBSD's bhyve, booted by
// bhyveload or by UEFI firmware.
//
// The guest's disk is a copy, or a clone, of an image in which `bakeoff-agent
// serve /dev/vtcon/bakeoff` is started; it answers on a port of the virtio
// console, which is a socket in the environment's directory.
package bhyve

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn"
)

// Driver makes machines.
type Driver struct{}

const (
	optDisk       = "disk"
	optBacking    = "backing"
	optLoader     = "loader"
	optBootrom    = "bootrom"
	optController = "controller"
	optTimeout    = "boot-timeout"
	// maxPath is the longest path of a socket on FreeBSD, in bytes.
	maxPath = 103
)

var options = []param.Spec{
	{Name: optDisk, Kind: param.Text, Doc: "The guest's disk: a raw image, or with backing zvol a snapshot of a volume, as zroot/vm/base@clean. In it bakeoff-agent serve /dev/vtcon/bakeoff is started at boot."},
	{Name: optBacking, Kind: param.Text, Default: "file", Enum: []string{"file", "zvol"}, Doc: "What the disk lies on: file is a copy in the environment's directory, zvol a clone beside the snapshot."},
	{Name: optLoader, Kind: param.Text, Default: "bhyveload", Enum: []string{"bhyveload", "uefi"}, Doc: "What boots the guest: bhyveload knows FreeBSD, uefi whatever the firmware boots."},
	{Name: optBootrom, Kind: param.Text, Default: "/usr/local/share/uefi-firmware/BHYVE_UEFI.fd", Doc: "With loader uefi: the firmware, from the package edk2-bhyve."},
	{Name: optController, Kind: param.Text, Default: "virtio-blk", Enum: []string{"virtio-blk", "nvme", "ahci-hd"}, Doc: "The controller that the guest sees."},
	{Name: optTimeout, Kind: param.Duration, Default: "2m0s", Doc: "How long the guest may take until its agent answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "bhyve",
		Also:    map[string]string{"vm-bhyve": "bhyve"},
		Summary: "a virtual machine under FreeBSD's bhyve, by its own loader or by UEFI", Status: driver.Unproven,
		Hosts: []string{"freebsd"}, Root: true, Options: options, Backings: []string{"tmpfs"},
		Enforces: map[string]string{
			"cpus":   "as many virtual processors, each pinned to one of the contender's CPUs",
			"memory": "the size of the guest's memory",
		},
		OwnRoot: func(param.Values) bool { return true },
		Tuning:  driver.Tuning{Why: "the guest's settings are its image's"},
		Source:  []string{"bhyve(8)", "bhyveload(8)", "bhyvectl(8)", "https://reviews.freebsd.org/rS305898", "tap(4)", "ifconfig(8)"},
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

// Check tells whether host can run such a machine.
func (Driver) Check(ctx context.Context, host conn.Conn, o param.Values) driver.Availability {
	a := guest.System(ctx, host, "FreeBSD")
	if !a.OK {
		return a
	}
	_, loaded, err := guest.Ask(ctx, host, "sysctl", "-n", "hw.vmm.create")
	switch {
	case err != nil:
		return driver.Availability{Reason: err.Error()}
	case !loaded:
		return driver.Availability{Reason: "the kernel has no vmm", Fix: "kldload vmm"}
	case settings(o).Text(optDisk) == "":
		return driver.Availability{Reason: "no disk is named", Fix: "make an image in which the agent is started, and name it in the option " + optDisk}
	}
	release, err := guest.Output(ctx, host, "uname", "-r")
	if err != nil {
		return driver.Availability{Reason: err.Error()}
	}
	a.Facts["release"] = safetext.Line(release)
	return a
}

type names struct{ vm, tap, dir, socket string }

func namesOf(label, dir string) names {
	h := fnv.New32a()
	h.Write([]byte(label))
	return names{vm: "bakeoff-" + label, tap: fmt.Sprintf("bo%08xt", h.Sum32()), dir: dir, socket: path.Join(dir, "c")}
}

// Create makes a machine and returns when the agent in it answers.
func (Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	set, op := settings(spec.Options), "bhyve: create "+spec.Label
	n := namesOf(spec.Label, spec.Dir)
	if err := validate(spec, set, n); err != nil {
		return nil, fault.Op(op, err)
	}
	// What was left behind has no process; bhyvectl removes it. What lives
	// belongs to another.
	pids, _, err := guest.Ask(ctx, host, "pgrep", "-f", "bhyve: "+n.vm+"( |$)")
	if err == nil && pids != "" {
		err = fault.WithFix(fault.New(fault.Lab, "a machine %s runs already", n.vm), "`bakeoff clean` removes what was left behind")
	}
	if err == nil {
		_, err = reap(ctx, host, n, false)
	}
	if err != nil {
		return nil, fault.Op(op, err)
	}
	e := guest.New("bhyve", host, spec, func(ctx context.Context) error {
		_, err := reap(ctx, host, n, false)
		return err
	})
	if err := build(ctx, e, set, n); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return guest.Machine{Env: e}, nil
}

// snapshotForm is the name of a snapshot below a pool: nothing in it is read
// as a flag.
var snapshotForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*(/[A-Za-z0-9][A-Za-z0-9_.:-]*)+@[A-Za-z0-9][A-Za-z0-9_.:-]*$`)

// Validate refuses what Create would refuse on any host, for driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	return validate(spec, settings(spec.Options), namesOf(spec.Label, spec.Dir))
}

func validate(spec driver.Spec, set param.Values, n names) error {
	if err := guest.Check(spec); err != nil {
		return err
	}
	disk := set.Text(optDisk)
	switch {
	case spec.Memory < 128*unit.MiB || spec.Memory%unit.MiB != 0:
		return fault.New(fault.Invalid, "memory %v; a guest has whole MiB, and at least 128", spec.Memory)
	case set.Text(optBacking) == "file" && (!path.IsAbs(disk) || strings.Contains(disk, ",")):
		return fault.New(fault.Invalid, "%s: %q is not the absolute path of an image", optDisk, disk)
	case set.Text(optBacking) == "zvol" && !snapshotForm.MatchString(disk):
		return fault.New(fault.Invalid, "%s: %q is not a snapshot of a volume, as zroot/vm/base@clean", optDisk, disk)
	case set.Text(optLoader) == "uefi" && (!path.IsAbs(set.Text(optBootrom)) || strings.Contains(set.Text(optBootrom), ",")):
		return fault.New(fault.Invalid, "%s: %q is not the absolute path of a firmware", optBootrom, set.Text(optBootrom))
	case len(n.socket) > maxPath || strings.ContainsAny(n.dir, ",="):
		return fault.WithFix(fault.New(fault.Lab, "the directory %s cannot hold a socket of bhyve's", spec.Dir), "set BAKEOFF_STATE to a short and plain path")
	case len(spec.CPUSet) < spec.CPUs:
		return fault.New(fault.Invalid, "%d CPUs of the host for %d processors", len(spec.CPUSet), spec.CPUs)
	}
	if err := (Driver{}).Doc().Tuning.Check(spec.Tuning); err != nil {
		return err
	}
	for _, v := range spec.Volumes {
		if v.Backing != "tmpfs" || !path.IsAbs(v.Path) || path.Clean(v.Path) == "/" {
			return fault.New(fault.Unsupported, "volume %s (%s): a guest has volumes of backing tmpfs below /", v.Path, v.Backing)
		}
	}
	return nil
}

// arguments are bhyve's.
func arguments(spec driver.Spec, set param.Values, n names, disk string) []string {
	argv := []string{"bhyve", "-H", "-A", "-P", "-c", strconv.Itoa(spec.CPUs), "-m", fmt.Sprintf("%dM", spec.Memory/unit.MiB)}
	for i := range spec.CPUs {
		argv = append(argv, "-p", fmt.Sprintf("%d:%d", i, spec.CPUSet[i]))
	}
	argv = append(argv, "-s", "0:0,hostbridge", "-s", "1:0,lpc")
	if spec.Network != nil {
		argv = append(argv, "-s", "2:0,virtio-net,"+n.tap+",mac="+spec.Network.MAC)
	}
	argv = append(argv, "-s", "3:0,"+set.Text(optController)+","+disk, "-s", "4:0,virtio-console,bakeoff="+n.socket, "-l", "com1,stdio")
	if set.Text(optLoader) == "uefi" {
		argv = append(argv, "-l", "bootrom,"+set.Text(optBootrom))
	}
	return append(argv, n.vm)
}

func build(ctx context.Context, e *guest.Env, set param.Values, n names) error {
	run := func(argv ...string) error { return guest.Run(ctx, e.Host, argv...) }
	disk := path.Join(n.dir, "disk.raw")
	var err error
	if set.Text(optBacking) == "zvol" {
		dataset, _, _ := strings.Cut(set.Text(optDisk), "@")
		clone := path.Join(path.Dir(dataset), n.vm)
		disk, err = "/dev/zvol/"+clone, run("zfs", "clone", set.Text(optDisk), clone)
	} else {
		err = run("cp", set.Text(optDisk), disk)
	}
	if err != nil {
		return err
	}
	if net := e.Spec.Network; net != nil {
		tap, err := guest.Output(ctx, e.Host, "ifconfig", "tap", "create")
		if err != nil {
			return err
		}
		for _, argv := range [][]string{{"ifconfig", tap, "name", n.tap}, {"ifconfig", net.Bridge, "addm", n.tap}, {"ifconfig", n.tap, "up"}} {
			if err := run(argv...); err != nil {
				if argv[1] == tap { // not ours by name yet
					guest.Run(context.WithoutCancel(ctx), e.Host, "ifconfig", tap, "destroy")
				}
				return err
			}
		}
	}
	if set.Text(optLoader) == "bhyveload" {
		if err := run("bhyveload", "-c", "stdio", "-m", fmt.Sprintf("%dM", e.Spec.Memory/unit.MiB), "-d", disk, "-e", "autoboot_delay=0", n.vm); err != nil {
			return err
		}
	}
	p := e.Start(ctx, arguments(e.Spec, set, n, disk)...)
	timeout := set.Duration(optTimeout)
	rw, err := dial(ctx, e, p, n.socket, timeout)
	if err != nil {
		return err
	}
	if err := e.Meet(ctx, rw, p, timeout); err != nil {
		return err
	}
	return settle(ctx, e, set)
}

// ends are bhyve's exit codes.
var ends = map[int]string{0: "the guest restarted", 1: "the guest switched itself off", 2: "the guest halted", 3: "the guest's processor gave up (triple fault)", 4: "bhyve failed"}

// dial waits for the socket, which bhyve makes when it starts.
func dial(ctx context.Context, e *guest.Env, p *guest.Process, socket string, timeout time.Duration) (io.ReadWriteCloser, error) {
	end := time.After(timeout)
	for {
		c, err := e.Host.Dial(ctx, "unix", socket)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.Ended():
			exit, _ := p.Exit()
			return nil, p.Why(fmt.Sprintf("it did not come up: %s", ends[exit.Code]))
		case <-end:
			return nil, p.Why("bhyve makes no socket for the console")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// settle makes in a FreeBSD guest what the specification says, and says what
// the machine is.
func settle(ctx context.Context, e *guest.Env, set param.Values) error {
	steps := [][]string{{"mkdir", "-p", guest.Scratch}}
	if n := e.Spec.Network; n != nil {
		steps = append(steps, []string{"ifconfig", "vtnet0", "inet", n.Addr.String(), "up"})
	}
	for _, v := range e.Spec.Volumes {
		steps = append(steps, []string{"mkdir", "-p", v.Path}, []string{"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", int64(v.Size)), "tmpfs", v.Path})
		e.Properties.Volumes[v.Path] = v.Path
	}
	for _, argv := range steps {
		if _, err := conn.Output(ctx, e, argv...); err != nil {
			return fault.Wrap(fault.Subject, "in the guest", err)
		}
	}
	p := &e.Properties
	cpus, memory := e.Spec.CPUs, e.Spec.Memory
	p.OwnKernel, p.Limits.CPUs, p.Limits.CPUSet, p.Limits.Memory = true, &cpus, e.Spec.CPUSet[:cpus], &memory
	p.Facts["loader"], p.Facts["controller"], p.Facts["backing"] = set.Text(optLoader), set.Text(optController), set.Text(optBacking)
	if n := e.Spec.Network; n != nil {
		p.Addr = n.Addr.Addr()
	}
	return nil
}

// Reap removes what a machine has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	return reap(ctx, host, namesOf(left.Label, left.Dir), dryRun)
}

func reap(ctx context.Context, host conn.Conn, n names, dryRun bool) (found []string, err error) {
	var errs []error
	step := func(what string, ask, remove []string) {
		_, there, err := guest.Ask(ctx, host, ask...)
		if err != nil && !fault.Is(err, fault.NotFound) {
			errs = append(errs, err)
		}
		if there {
			found = append(found, what)
			if !dryRun {
				errs = append(errs, guest.Run(ctx, host, remove...))
			}
		}
	}
	step("machine "+n.vm, []string{"bhyvectl", "--vm=" + n.vm, "--get-lowmem"}, []string{"bhyvectl", "--destroy", "--vm=" + n.vm})
	step("interface "+n.tap, []string{"ifconfig", n.tap}, []string{"ifconfig", n.tap, "destroy"})
	list, ok, err := guest.Ask(ctx, host, "zfs", "list", "-H", "-t", "volume", "-o", "name")
	if err != nil && !fault.Is(err, fault.NotFound) {
		errs = append(errs, err)
	}
	if ok {
		all := strings.Fields(list)
		if i := slices.IndexFunc(all, func(d string) bool { return path.Base(d) == n.vm }); i >= 0 {
			found = append(found, "volume "+all[i])
			if !dryRun {
				errs = append(errs, guest.Run(ctx, host, "zfs", "destroy", all[i]))
			}
		}
	}
	return found, errors.Join(errs...)
}
