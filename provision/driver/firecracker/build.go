package firecracker

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/provision/disk"
	"bakeoff/provision/guest"
	vmm "bakeoff/provision/guest/firecracker"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
	"bakeoff/reach/wire"
)

// drive is a disk of the guest.
type drive struct{ id, path, serial string }

func (in *Instance) build(ctx context.Context, o options) error {
	drives, err := in.storage(ctx)
	if err != nil {
		return err
	}
	if err := in.kernel(ctx, o, drives); err != nil {
		return err
	}
	m := in.machine(o, drives)
	p, err := in.Launch(ctx, conn.Command(m.CommandLine(o.program)...))
	if err != nil {
		return err
	}
	in.Console = p
	version, took, err := m.Start(ctx, in.Host, p)
	if err != nil {
		return err
	}
	in.Lacks("Firecracker has no firmware: it starts the kernel itself", bootmodel.MarkFirmware)
	for _, moment := range []string{bootmodel.MarkVCPU, bootmodel.MarkKernel} {
		in.Saw(moment, "Firecracker carried out InstanceStart", took)
	}
	timeout := o.bootTimeout
	var rw io.ReadWriteCloser
	err = p.Until(ctx, timeout, func() (err error) { rw, err = vmm.DialAgent(ctx, in.Host, in.Spec.Dir); return err })
	if err != nil {
		return err
	}
	if err := in.Meet(ctx, rw, p, timeout); err != nil {
		return err
	}
	in.describe(o, version)
	return nil
}

// storage creates the files of the drives, the root first. The root is a copy,
// by reference if the file system supports that.
func (in *Instance) storage(ctx context.Context) ([]drive, error) {
	root := path.Join(in.Spec.Dir, fileRoot)
	if err := disk.Copy(ctx, in.Host, in.Spec.Image.Disk, "raw", root); err != nil {
		return nil, err
	}
	drives := []drive{{id: "root", path: root}}
	for i, v := range in.Spec.Volumes {
		if v.Backing == volume.Tmpfs {
			continue
		}
		at, _, err := volume.GuestDisk(ctx, in.Host, in.Spec.Dir, v, false)
		if err != nil {
			return nil, fault.Op("volume "+v.Path, err)
		}
		drives = append(drives, drive{id: volumeID(i), path: at})
	}
	for i := range drives {
		// Firecracker derives the serial number from the file: its device, its
		// device number and its inode, the first 20 bytes.
		out, err := guest.Output(ctx, in.Host, "stat", "-L", "-c", "%d %r %i", drives[i].path)
		if err != nil {
			return nil, err
		}
		serial := strings.Join(strings.Fields(out), "")
		drives[i].serial = serial[:min(len(serial), 20)]
	}
	return drives, nil
}

// kernel writes the unpacked kernel and the initial RAM disk into the
// directory.
func (in *Instance) kernel(ctx context.Context, o options, drives []drive) error {
	file, modules := in.Spec.Image.Kernel, in.Spec.Image.Modules
	if o.kernel != "" {
		file, modules = o.kernel, o.modules
	}
	if err := guest.UnpackKernel(ctx, in.Host, file, path.Join(in.Spec.Dir, fileKernel)); err != nil {
		return err
	}
	wanted := append([]string{"virtio_mmio", "virtio_blk", "ext4", "vmw_vsock_virtio_transport"},
		guest.FileSystems(in.Spec)...)
	if in.Spec.Network != nil {
		wanted = append(wanted, "virtio_net")
	}
	// A volume in memory has no drive, and so no serial number.
	serials := make([]string, len(in.Spec.Volumes))
	for i := range serials {
		if d := slices.IndexFunc(drives, func(d drive) bool { return d.id == volumeID(i) }); d >= 0 {
			serials[i] = drives[d].serial
		}
	}
	return guest.Initramfs(ctx, in.Host, wire.InitramfsRequest{Kernel: file, Modules: modules, Wanted: wanted,
		Agent:  in.Spec.Agent,
		Config: guest.InitConfig(in.Spec, fmt.Sprintf("vsock:%d", vmm.AgentPort), drives[0].serial, serials),
		Out:    path.Join(in.Spec.Dir, fileInitrd)})
}

func volumeID(i int) string { return "volume" + strconv.Itoa(i) }

// machine is what Firecracker runs.
func (in *Instance) machine(o options, drives []drive) *vmm.Machine {
	m := &vmm.Machine{Label: in.Spec.Label, Dir: in.Spec.Dir, CPUs: in.Spec.CPUs, Memory: in.Spec.Memory,
		Kernel: path.Join(in.Spec.Dir, fileKernel), Initrd: path.Join(in.Spec.Dir, fileInitrd), Append: o.append,
		Cache: o.cache, Engine: o.engine, Vsock: true}
	for _, d := range drives {
		m.Drives = append(m.Drives, vmm.Drive{ID: d.id, Path: d.path})
	}
	if n := in.Spec.Network; n != nil {
		m.Cards = []vmm.Card{{ID: "eth0", MAC: n.MAC, Tap: netns.Tap(in.Spec.Label)}}
	}
	return m
}

func (in *Instance) describe(o options, version string) {
	f := in.Properties.Facts
	f["firecracker"], f["accelerator"] = version, "kvm"
	f["kernel"], f["kernel.append"] = safetext.Line(in.Boot.Kernel), o.append
	f["root"], f["disk.cache"], f["disk.engine"] = "virtio-blk, a copy of the image", o.cache, o.engine
	for _, v := range in.Spec.Volumes {
		if v.Backing != volume.Tmpfs {
			in.Properties.HostCache[v.Path] = volume.CacheUsed + ": Firecracker does not open a drive with O_DIRECT"
		}
	}
}
