package qemu

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/reach/wire"
)

// The options of a root in memory.
const (
	optRAMDisk   = "ram-disk"
	optPartition = "partition"
)

var ramDiskOptions = []param.Spec{
	{Name: optRAMDisk, Kind: param.Text,
		Doc: "Path on the host of a raw disk with a GPT, such as bakeoff image build makes, that the guest loads into its " +
			"memory. Its root is a partition of it instead of the image's disk; the image gives the kernel and its modules. " +
			"The root is the partition with the attribute BOOTONCE (58), or else with BOOTME (59)."},
	{Name: optPartition, Kind: param.Text,
		Doc: "The name of the partition of ram-disk that is the root, instead of those attributes."},
}

// validateRAMDisk refuses options that do not fit together.
func (o options) validateRAMDisk() error {
	refuse := func(fix, format string, args ...any) error {
		return fault.WithFix(fault.New(fault.Invalid, format, args...), fix)
	}
	switch {
	case o.ramDisk == "" && o.partition == "":
		return nil
	case o.ramDisk == "":
		return refuse("name the disk with "+optRAMDisk, "%s: there is no %s", optPartition, optRAMDisk)
	case o.own() || o.onInstructions():
		return refuse("remove "+optRAMDisk, "%s: bakeoff makes no initial RAM disk for this guest", optRAMDisk)
	case len(o.partition) > 36 || strings.ContainsFunc(o.partition, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse("write at most 36 printable characters", "%s: %q is not a name in a GPT", optPartition, o.partition)
	}
	return nil
}

// initialRAMDisk is what the agent on the host writes for a guest of bakeoff.
func (in *Instance) initialRAMDisk(ctx context.Context, m machine, o options) (wire.InitramfsRequest, error) {
	q := wire.InitramfsRequest{Kernel: m.kernel, Modules: modulesDir(in.Spec, o), Wanted: wantedModules(m),
		Agent: in.Spec.Agent, Config: initConfig(in.Spec), Out: m.initrd}
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
		return q, fault.WithFix(fault.New(fault.Invalid, "%s: the guest has %v of memory, and needs %v to load %s",
			optRAMDisk,
			in.Spec.Memory, mib, o.ramDisk), "write memory: "+mib.String())
	}
	return q, nil
}

// ramDiskFacts says what the root is.
func (in *Instance) ramDiskFacts(ctx context.Context, o options) (map[string]string, error) {
	if o.ramDisk == "" {
		return nil, nil
	}
	key, err := fileKey(ctx, in.Host, o.ramDisk)
	if err != nil {
		return nil, err
	}
	sum, err := driver.Remember(in.Spec.Memo, "qemu: sha256 "+key, func() (string, error) {
		return sha256Of(ctx, in.Host, o.ramDisk)
	})
	return map[string]string{"root": "in memory, " + safetext.Line(in.Boot.Root), "ram-disk.sha256": sum}, err
}
