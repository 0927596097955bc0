// Package bhyve creates virtual machines with FreeBSD's bhyve, booted by
// bhyveload or by UEFI firmware.
//
// The guest's disk is a copy or a clone of an image that runs `bakeoff-agent
// serve /dev/vtcon/bakeoff`. The agent answers on a port of the virtio console,
// which is a socket in the environment's directory.
package bhyve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/bhyve"
	"bakeoff/provision/volume"
	"bakeoff/provision/zfs"
	"bakeoff/reach/conn"
)

// Driver creates machines.
type Driver struct{}

// The values of options that decide how a machine is created.
const (
	backingZvol = "zvol"
	loaderUEFI  = "uefi"
)

var specs = []param.Spec{
	{Name: "disk", Kind: param.Text,
		Doc: "The guest's disk: the path of a raw image or, with backing: zvol, the name of a snapshot of a volume, " +
			"such as zroot/vm/base@clean. The guest must run `bakeoff-agent serve /dev/vtcon/bakeoff` at boot."},
	{Name: "backing", Kind: param.Text, Default: "file", Enum: []string{"file", backingZvol},
		Doc: "Where bakeoff stores the guest's disk. file: a copy in the environment's directory. zvol: a clone of " +
			"the snapshot, in the dataset that contains the volume."},
	{Name: "loader", Kind: param.Text, Default: "bhyveload", Enum: []string{"bhyveload", loaderUEFI},
		Doc: "What boots the guest: bhyveload boots only FreeBSD; uefi boots any system that the firmware supports."},
	{Name: "bootrom", Kind: param.Text, Default: bhyve.Firmware,
		Doc: "Path of the firmware for loader: uefi. The package edk2-bhyve contains the default."},
	{Name: "controller", Kind: param.Text, Default: bhyve.VirtioBlk,
		Enum: []string{bhyve.VirtioBlk, bhyve.NVMe, bhyve.AHCI},
		Doc: "The controller of the guest's disk and of all volumes except tmpfs. The guest formats these volumes " +
			"with newfs -U, so the guest must run FreeBSD."},
	{Name: "boot-timeout", Kind: param.Duration, Default: "2m0s", Doc: "Maximum time until the guest's agent answers."},
}

// Doc describes the driver.
func (Driver) Doc() driver.Doc {
	return driver.Doc{
		Name:    "bhyve",
		Also:    map[string]string{"vm-bhyve": "bhyve"},
		Summary: "a virtual machine of FreeBSD's bhyve, booted by bhyveload or by UEFI", Status: driver.Unproven,
		Hosts: []string{"freebsd"}, Root: true, Options: specs,
		Backings: []string{volume.Dataset, volume.FFS, volume.Tmpfs, volume.Zvol},
		Enforces: map[string]string{
			"cpus":   "the same number of virtual processors, each pinned to one of the contender's CPUs",
			"memory": "the memory size of the guest",
		},
		OwnRoot: []string{"*"},
		Tuning:  driver.Tuning{Why: "the settings of the guest come from its image"},
		Source: []string{"bhyve(8)", "bhyveload(8)", "bhyvectl(8)", "https://reviews.freebsd.org/rS305898", "tap(4)",
			"ifconfig(8)"},
	}
}

// options are the options of one machine.
type options struct {
	disk, backing, loader, bootrom, controller string
	bootTimeout                                time.Duration
}

func decode(v param.Values) (options, error) {
	set, err := driver.Options(specs, v)
	return options{set.Text("disk"), set.Text("backing"), set.Text("loader"), set.Text("bootrom"), set.Text("controller"),
		set.Duration("boot-timeout")}, err
}

// Check tells whether host can run such a machine.
func (Driver) Check(ctx context.Context, host conn.Conn, values param.Values) driver.Availability {
	a := bhyve.Check(ctx, host)
	if !a.OK {
		return a
	}
	o, err := decode(values)
	switch {
	case err != nil:
		return driver.Availability{Reason: err.Error()}
	case o.disk == "":
		return guest.NoDisk()
	}
	return guest.Release(ctx, host, a)
}

type names struct{ vm, tap, dir, socket string }

func namesOf(label, dir string) names {
	return names{vm: "bakeoff-" + label, tap: guest.LinkName(label) + "t", dir: dir,
		socket: path.Join(dir, bhyve.SocketAgent)}
}

// Create creates a machine and returns when its agent answers.
func (d Driver) Create(ctx context.Context, host conn.Conn, spec driver.Spec) (driver.Instance, error) {
	e, n := guest.New(d, host, spec), namesOf(spec.Label, spec.Dir)
	o, err := validate(spec, n)
	if err != nil {
		return nil, e.Refuse(err)
	}
	// A machine that was left behind has no process, and bhyvectl removes it. A
	// live one belongs to another controller.
	lives, err := bhyve.Lives(ctx, host, n.vm)
	if lives {
		err = guest.Taken("a machine " + n.vm)
	}
	if err == nil {
		err = e.Remove(ctx)
	}
	if err != nil {
		return nil, e.Refuse(err)
	}
	if err := build(ctx, e, o, n); err != nil {
		return nil, e.Abandon(ctx, err)
	}
	return guest.Machine{Env: e}, nil
}

// Validate implements driver.Validator.
func (Driver) Validate(spec driver.Spec) error {
	_, err := validate(spec, namesOf(spec.Label, spec.Dir))
	return err
}

func validate(spec driver.Spec, n names) (options, error) {
	o, err := decode(spec.Options)
	if err == nil {
		err = guest.Check((Driver{}).Doc(), spec, bhyve.MinMemory)
	}
	switch {
	case err != nil:
		return o, err
	case o.backing != backingZvol && !bhyve.PlainPath(o.disk):
		err = fault.New(fault.Invalid, "disk must be the absolute path of an image, without commas and %% (got %q)", o.disk)
	case o.loader == loaderUEFI && !bhyve.PlainPath(o.bootrom):
		err = fault.New(fault.Invalid, "bootrom must be the absolute path of a firmware, without commas and %% (got %q)",
			o.bootrom)
	case len(n.socket) > bhyve.MaxPath || strings.ContainsAny(n.dir, ",=%"):
		err = fault.WithFix(fault.New(fault.Lab, "the path %s is too long for a socket of bhyve, or has a comma, = or %%",
			spec.Dir),
			"set BAKEOFF_STATE to a short and plain path")
	case len(spec.Volumes) > bhyve.MaxDevices-otherDevices:
		err = fault.New(fault.Invalid, "%d volumes are too many: the machine has slots for %d", len(spec.Volumes),
			bhyve.MaxDevices-otherDevices)
	case len(spec.CPUSet) < spec.CPUs:
		err = fault.New(fault.Invalid, "the CPU set has %d CPUs, but the machine has %d processors",
			len(spec.CPUSet), spec.CPUs)
	case o.backing == backingZvol:
		err = guest.CheckSnapshot("disk", o.disk, "zroot/vm/base@clean")
	}
	return o, err
}

// otherDevices are the devices besides the disks of volumes: disk, console and network card.
const otherDevices = 3

// machine describes the machine. volumes are the disks of volumes.
func machine(spec driver.Spec, o options, n names, disk string, volumes []string) *bhyve.Machine {
	m := &bhyve.Machine{Name: n.vm, CPUs: spec.CPUs, Pins: spec.CPUSet[:spec.CPUs], Memory: spec.Memory,
		Devices: []string{bhyve.Disk(o.controller, disk), bhyve.Agent(n.dir)}}
	if spec.Network != nil {
		m.Devices = append(m.Devices, bhyve.Card("virtio-net", n.tap, spec.Network.MAC, 0))
	}
	for _, v := range volumes {
		m.Devices = append(m.Devices, bhyve.Disk(o.controller, v))
	}
	if o.loader == loaderUEFI {
		m.Firmware = o.bootrom
	}
	return m
}

// makeVolumes creates the disks of the volumes that are not in the guest's memory. The guest
// formats them.
func makeVolumes(ctx context.Context, e *guest.Env) (disks []string, err error) {
	for _, v := range e.Spec.Volumes {
		if v.Backing == volume.Tmpfs {
			continue
		}
		at, cached, err := volume.GuestDisk(ctx, e.Host, e.Spec.Dir, v, true)
		if err != nil {
			return nil, fault.Op("volume "+v.Path, err)
		}
		e.Properties.HostCache[v.Path] = cached
		disks = append(disks, at)
	}
	return disks, nil
}

// formatDisk formats disk $2 of the guest and mounts it at $1; the other arguments are the
// names that drivers give such disks. The disk with the root is the first one.
//
// Source: newfs(8), virtio_blk(4), nda(4), nvd(4), ada(4).
const formatDisk = `at=$1 n=$2; shift 2
for d in "$@"; do
	test ! -e "/dev/$d$n" || { newfs -U "/dev/$d$n" >/dev/null && exec mount -o noatime "/dev/$d$n" "$at"; exit 1; }
done
echo "the guest has no disk with the number $n among $*" >&2
exit 1`

// diskNames are the names of FreeBSD for the disks of a controller.
var diskNames = map[string][]string{bhyve.VirtioBlk: {"vtbd"}, bhyve.NVMe: {"nda", "nvd"},
	bhyve.AHCI: {"ada"}}

func build(ctx context.Context, e *guest.Env, o options, n names) error {
	run := func(argv ...string) error { return guest.Run(ctx, e.Host, argv...) }
	disk := path.Join(n.dir, "disk.raw")
	var err error
	if o.backing == backingZvol {
		var clone string
		clone, err = zfs.Clone(ctx, e.Host, o.disk, n.vm)
		disk = "/dev/zvol/" + clone
	} else {
		err = run("cp", o.disk, disk)
	}
	if err != nil {
		return err
	}
	volumes, err := makeVolumes(ctx, e)
	if err != nil {
		return err
	}
	if net := e.Spec.Network; net != nil {
		if _, err := guest.CreateLink(ctx, e.Host, "tap", n.tap); err != nil {
			return err
		}
		for _, argv := range [][]string{{"ifconfig", net.Bridge, "addm", n.tap}, {"ifconfig", n.tap, "up"}} {
			if err := run(argv...); err != nil {
				return err
			}
		}
	}
	m := machine(e.Spec, o, n, disk, volumes)
	if o.loader != loaderUEFI {
		if err := run(m.LoadLine(disk)...); err != nil {
			return err
		}
	}
	e.Saw(bootmodel.MarkHypervisor, "bakeoff started bhyve", 0)
	p := e.Start(ctx, m.CommandLine()...)
	p.Why = func(exit conn.Exit, _ []byte) error {
		return fault.New(fault.Subject, "%s (%v)", bhyve.Why(exit), exit)
	}
	e.Console = p
	e.Lacks("bhyve does not say when it starts the processors", bootmodel.MarkVCPU)
	if o.loader == loaderUEFI {
		e.Lacks("bhyve does not say when the firmware starts the kernel", bootmodel.MarkFirmware, bootmodel.MarkKernel)
	} else {
		e.Lacks("bhyveload loads the kernel before the machine starts", bootmodel.MarkFirmware)
		e.Lacks("bhyve does not say when it starts the kernel", bootmodel.MarkKernel)
	}
	var rw io.ReadWriteCloser
	// bhyve creates the socket when it starts.
	if err := p.Until(ctx, o.bootTimeout, func() (err error) {
		rw, err = e.Host.Dial(ctx, "unix", n.socket)
		return err
	}); err != nil {
		return err
	}
	if err := e.Meet(ctx, rw, p, o.bootTimeout); err != nil {
		return err
	}
	return settle(ctx, e, o)
}

// settle configures a FreeBSD guest as specified and sets the properties of the
// environment.
func settle(ctx context.Context, e *guest.Env, o options) error {
	steps := [][]string{{"mkdir", "-p", guest.Scratch}}
	if n := e.Spec.Network; n != nil {
		steps = append(steps, []string{"ifconfig", "vtnet0", "inet", n.Addr.String(), "up"})
	}
	disk := 0
	for _, v := range e.Spec.Volumes {
		steps = append(steps, []string{"mkdir", "-p", v.Path})
		if v.Backing == volume.Tmpfs {
			steps = append(steps, []string{"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", int64(v.Size)), "tmpfs", v.Path})
			continue
		}
		disk++
		steps = append(steps, append([]string{"sh", "-c", formatDisk, "sh", v.Path, strconv.Itoa(disk)},
			diskNames[o.controller]...))
	}
	if err := e.Prepare(ctx, steps...); err != nil {
		return err
	}
	p := &e.Properties
	cpus, memory := e.Spec.CPUs, e.Spec.Memory
	p.OwnKernel, p.Limits.CPUs, p.Limits.CPUSet, p.Limits.Memory = true, &cpus, e.Spec.CPUSet[:cpus], &memory
	p.Facts["loader"], p.Facts["controller"], p.Facts["backing"] = o.loader, o.controller, o.backing
	return nil
}

// Reap removes what a machine has left.
func (Driver) Reap(ctx context.Context, host conn.Conn, left driver.Leftover, dryRun bool) ([]string, error) {
	n := namesOf(left.Label, left.Dir)
	s := guest.Sweep{Host: host, DryRun: dryRun}
	bhyve.Destroy(ctx, &s, n.vm)
	if _, there := s.Ask(ctx, "ifconfig", n.tap); there {
		s.Remove(ctx, "interface "+n.tap, "ifconfig", n.tap, "destroy")
	}
	zfs.Reap(ctx, &s, zfs.Volume, n.vm, zfs.NoMountpoint)
	found, err := volume.ReapDatasets(ctx, host, left.Dir, dryRun)
	return append(s.Found, found...), errors.Join(s.Err(), err)
}
