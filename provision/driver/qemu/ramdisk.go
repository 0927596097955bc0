package qemu

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/wire"
)

// The names of files in a machine's directory on the host.
const (
	fileInitramfs = "initramfs.cpio"
	fileELF       = "vmlinux" // the unpacked kernel
)

// initConfig is what the agent does as init of this machine.
func initConfig(spec driver.Spec) wire.InitConfig {
	serials := make([]string, len(spec.Volumes))
	for i := range serials {
		serials[i] = qemu.VolumeSerial(i)
	}
	return guest.InitConfig(spec, qemu.PortName, qemu.RootSerial, serials)
}

// modulesDir is the directory of the kernel's modules on the host. The image's
// modules are for the image's kernel only.
func modulesDir(spec driver.Spec, o options) string {
	if o.modules != "" || o.kernel != "" {
		return o.modules
	}
	return spec.Image.Modules
}

// initialRAMDisk is what the agent on the host writes for a guest of bakeoff.
func (in *Instance) initialRAMDisk(ctx context.Context, m *qemu.Machine, o options) (wire.InitramfsRequest, error) {
	q := wire.InitramfsRequest{Kernel: m.Kernel, Modules: modulesDir(in.Spec, o),
		Wanted: append(m.Modules(), guest.FileSystems(in.Spec)...),
		Agent:  in.Spec.Agent, Config: initConfig(in.Spec), Out: m.Initrd}
	if o.ramDisk == "" {
		return q, nil
	}
	q.Disk, q.Config.Root, q.Config.RootPartition = o.ramDisk, "", &wire.InitPartition{Name: o.partition}
	text, there, err := guest.Ask(ctx, in.Host, "stat", "-L", "-c", "%s", "--", o.ramDisk)
	if err != nil || !there {
		return q, cmp.Or(err, fault.New(fault.NotFound, "%s: %s does not exist on the host", optRAMDisk, o.ramDisk))
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return q, fault.Wrap(fault.Lab, optRAMDisk, err)
	}
	// The kernel has the RAM disk twice while it unpacks it.
	if need := unit.Bytes(2*size) + minMemory; need > in.Spec.Memory {
		mib := (need + unit.MiB - 1) / unit.MiB * unit.MiB
		return q, refuseOption(fault.Invalid, optRAMDisk, "write memory: "+mib.String(),
			"the guest has %v of memory, and needs %v to load %s", in.Spec.Memory, mib, o.ramDisk)
	}
	return q, nil
}

// ramDiskFacts says what the root is.
func (in *Instance) ramDiskFacts(ctx context.Context, o options) (map[string]string, error) {
	if o.ramDisk == "" {
		return nil, nil
	}
	sum, err := qemu.FileSHA256(ctx, in.Host, in.Spec.Memo, o.ramDisk)
	return map[string]string{"root": "in memory, " + safetext.Line(in.Boot.Root), "ram-disk.sha256": sum}, err
}

// ownInit is the program that the kernel would have started as its first: of the word
// rdinit of its command line.
func ownInit(words string) string {
	init := ""
	for _, w := range strings.Fields(words) {
		if name, ok := strings.CutPrefix(w, "rdinit="); ok {
			init = name
		}
	}
	return cmp.Or(init, "/init")
}

// clockDisk writes the RAM disk with the clock programs and, after them, the user's.
func (in *Instance) clockDisk(ctx context.Context, file string, o options, files guestFiles) error {
	if system := files.kernel.System; system != "" && system != systemLinux {
		return fault.New(fault.Unsupported, "%s: %s: the program that reports the clock needs Linux, but the "+
			"kernel %s is %s", optClock,
			clockInstructions, o.kernel, files.kernel.Version)
	}
	q := wire.InitramfsRequest{Clock: true, Before: o.initrd, Agent: in.Spec.Agent, Out: file}
	if o.initrd != "" {
		q.Next = ownInit(o.append)
	}
	return guest.Initramfs(ctx, in.Host, q)
}
