package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/conn"
)

// checkContender adds to what a driver says of its host what the contender asks of
// both.
func (v inspector) checkContender(
	ctx context.Context,
	a driver.Availability,
	c plan.Contender,
) driver.Availability {
	d := v.driver(c)
	if !a.OK || d == nil {
		return a
	}
	if err := v.validateSpec(d, c); err != nil {
		return refusal(a, err)
	}
	if err := cmp.Or(v.checkAgent(d, c), v.checkFromHost(d, c)); err != nil {
		return refusal(a, err)
	}
	if c.System != "" { // another system's is not this one's to tell
		return a
	}
	if cpus, memory, err := v.Size(c.Host); err == nil {
		if d.Doc().Whole {
			memory = 0 // it has that of the machine, whatever the default of environments is
		}
		if a = Enough(a, c.Contender, cpus, memory); !a.OK {
			return a
		}
	}
	host, err := v.Way(hostOf(c))
	if err != nil {
		return refusal(a, err)
	}
	for _, check := range []func(context.Context, driver.Driver, conn.Conn, plan.Contender) error{
		v.validateOnHost, v.checkStanding, v.checkSameMachine, v.checkNetwork, v.checkTuning, v.checkVolumes, v.checkRoom,
		v.checkMemory} {
		if err := check(ctx, d, host, c); err != nil {
			return refusal(a, err)
		}
	}
	return a
}

// refusal is an answer that err turns into a refusal.
func refusal(a driver.Availability, err error) driver.Availability {
	return driver.Availability{Reason: fault.Reason(err), Fix: fault.Fix(err), Facts: a.Facts}
}

// validateSpec asks the driver whether any host could make the contender.
func (v inspector) validateSpec(d driver.Driver, c plan.Contender) error {
	if err := d.Doc().Tuning.Check(c.Tuning); err != nil {
		return err
	}
	if x, ok := d.(driver.Validator); ok {
		return x.Validate(v.specOf(d.Doc(), c))
	}
	return nil
}

// validateOnHost asks the driver whether this host could make the contender.
func (v inspector) validateOnHost(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	if x, ok := d.(driver.HostValidator); ok {
		return x.ValidateOn(ctx, host, v.specOf(d.Doc(), c))
	}
	return nil
}

// checkAgent refuses a contender without an agent if a workload of the plan needs one.
func (v inspector) checkAgent(d driver.Driver, c plan.Contender) error {
	if !c.Options.Match(d.Doc().Agentless) {
		return nil
	}
	for _, cell := range v.plan.Cells {
		for _, w := range v.Workloads {
			if doc := w.Doc(); doc.Name == cell.Workload {
				p := c.CellOf(cell.Cell).Params
				if err := v.checkWithoutAgent(doc, cell, doc.StartsNothing(p), doc.NeedsPeer(p)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkFromHost refuses a contender with a kernel of its own if the host must look at its volumes.
func (v inspector) checkFromHost(d driver.Driver, c plan.Contender) error {
	if !d.Doc().Kernel {
		return nil
	}
	for _, cell := range v.plan.Cells {
		for _, w := range v.Workloads {
			if doc := w.Doc(); doc.Name == cell.Workload && doc.FromHost {
				return fault.WithFix(fault.New(fault.Unsupported, "the workload %s of cell %s reads a volume from the host, "+
					"but the guest's kernel mounts the volume", doc.Name, cell.Name),
					"remove the cell, or use a driver that shares the host's kernel: host, chroot, crun")
			}
		}
	}
	return nil
}

// checkWithoutAgent refuses a cell of a contender without an agent. outside tells whether its
// workload starts nothing in environments, and peer whether it needs a load generator.
func (v inspector) checkWithoutAgent(doc workload.Doc, cell plan.Cell, outside, peer bool) error {
	refuse := func(fix, format string, args ...any) error {
		return fault.WithFix(fault.New(fault.Unsupported, "it has no agent, and "+format, args...), fix)
	}
	switch {
	case outside && peer && v.plan.Generator != "":
		return refuse("remove the generator, or the cell",
			"so the load generator on host %s cannot reach it (cell %s)", v.plan.Generator, cell.Name)
	case outside:
		return nil
	case doc.OutsideWith != nil:
		return refuse("measure the guest's own server (server: own), or start the agent in the guest",
			"the workload %s of cell %s starts programs in its environments", doc.Name, cell.Name)
	}
	return refuse("remove the cell, or start the agent in the guest",
		"the workload %s of cell %s starts programs in its environments", doc.Name, cell.Name)
}

// sampleLabel is as long as those of environments: lengths of paths are checked.
const sampleLabel = "000000-1000"

// specOf is the specification of a contender's environment, with names in place of
// objects that do not exist yet.
func (v inspector) specOf(d driver.Doc, c plan.Contender) driver.Spec {
	s := driver.Spec{Label: sampleLabel, Name: c.Name, Dir: env.Place(v.State(hostOf(c)), sampleLabel), CPUs: c.CPUs,
		Memory: c.Memory,
		Quota:  c.Quota, Read: c.IO.Read, Write: c.IO.Write, Agent: "/bakeoff-agent", Volumes: env.Volumes(c.Volumes),
		Options: c.Options, Tuning: c.Tuning, Watch: d.Whole && reboots(v.plan, v.Workloads)}
	if d.Whole && c.Where["memory"] == "" {
		s.Memory = 0 // the default of environments is not asked of a machine
	}
	for i := range c.CPUs {
		s.CPUSet = append(s.CPUSet, i)
	}
	if d.Image && c.Image != "" {
		s.Image = driver.Image{Ref: c.Image, Digest: "sha256:", Root: "/image/root", Disk: "/image/disk",
			Kernel: "/image/kernel", Modules: "/image"}
	}
	if v.peer {
		gateway := env.Subnet.Addr().Next()
		s.Network = &netns.Network{Namespace: "bo-000000", Bridge: "br0",
			Addr: netip.PrefixFrom(gateway.Next(), env.Subnet.Bits()), Gateway: gateway, MAC: "02:b0:00:00:00:02",
			Outside: v.plan.Generator != ""}
		volume.Place(s.Volumes, s.Network.Namespace, gateway, s.Network.Addr.Addr())
	}
	return s
}

// checkTuning asks the host for settings that its environments will not have.
func (v inspector) checkTuning(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	lacks := d.Doc().Tuning.Lacks
	if lacks == nil || len(c.Tuning) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.Tuning))
	missing, err := lacks(ctx, host, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if why := missing[name]; why != "" {
			return fault.WithFix(fault.New(fault.Unsupported, "tuning %s: %s", name, why),
				"remove it, or use a driver that boots its own kernel")
		}
	}
	return nil
}

// checkVolumes looks whether the host has what makes them, and whether the block
// devices that they name may be written to.
func (v inspector) checkVolumes(ctx context.Context, d driver.Driver, host conn.Conn, c plan.Contender) error {
	for _, vol := range env.Volumes(c.Volumes) {
		if err := volume.Check(vol); err != nil {
			return err
		}
		err := v.checkSharing(c, vol)
		if err == nil {
			err = volume.Lacks(ctx, host, vol.Backing, d.Doc().Kernel)
		}
		if err == nil && vol.Backing == volume.Disk {
			err = volume.CheckDisk(ctx, host, vol.Device)
		}
		if err != nil {
			return fault.Op("volume "+vol.Path+askedAt(c, "volumes"), err)
		}
	}
	return nil
}

// contenderSharing returns another contender of the plan that mounts the same block device, and
// whether the kernel of a guest has it mounted meanwhile. All environments of a block
// exist at the same time.
func (v inspector) contenderSharing(
	c plan.Contender,
	vol volume.Volume,
) (other plan.Contender, guest, shared bool) {
	if vol.Backing != volume.Disk {
		return other, false, false
	}
	boots := func(c plan.Contender) bool { d := v.driver(c); return d != nil && d.Doc().Kernel }
	for _, x := range v.plan.Contenders {
		same := slices.ContainsFunc(x.Volumes, func(w manifest.Volume) bool {
			return w.Backing == volume.Disk && w.Device == vol.Device
		})
		if !same || x.Name == c.Name || hostOf(x) != hostOf(c) || x.System != c.System {
			continue
		}
		if !shared {
			other, shared = x, true
		}
		if boots(c) || boots(x) {
			return x, true, true
		}
	}
	return other, false, shared
}

// checkSharing refuses a block device that two kernels would mount at the same time: each
// would overwrite what the other one wrote.
func (v inspector) checkSharing(c plan.Contender, vol volume.Volume) error {
	other, guest, _ := v.contenderSharing(c, vol)
	if !guest {
		return nil
	}
	return fault.WithFix(
		fault.New(fault.Unsupported, "%s mounts %s at the same time with another kernel; this would damage the "+
			"file system on it", mounterName(other, c), vol.Device),
		"use backing: file:ext4, or a device that no other "+
			"contender has; the baseline cannot have one, because its twin would share it",
	)
}

// mounterName names a contender for another one that shares a device with it.
func mounterName(other, c plan.Contender) string {
	if other.TwinOf == c.Name {
		return "its twin"
	}
	return cmp.Or(other.TwinOf, other.Name)
}

// sharedDevices says which contenders mount one block device: they work on the same files.
func (v inspector) sharedDevices(able func(string) bool) []string {
	var out []string
	for _, c := range v.plan.Contenders {
		if c.TwinOf != "" || !able(c.Name) {
			continue
		}
		for _, vol := range env.Volumes(c.Volumes) {
			other, guest, shared := v.contenderSharing(c, vol)
			if !shared || guest {
				continue
			}
			out = append(out, fmt.Sprintf("volume %s of %s%s: %s mounts the same device %s and works on the same files, so "+
				"that what one writes changes what the other measures; use backing: file:ext4, or a device that no other "+
				"contender has", vol.Path, c.Name, askedAt(c, "volumes"), mounterName(other, c), vol.Device))
		}
	}
	return out
}

// checkRoom refuses a contender whose volumes alone do not fit on its host's disk.
func (v inspector) checkRoom(ctx context.Context, _ driver.Driver, host conn.Conn, c plan.Contender) error {
	wants := reservedBytes(c)
	if wants == 0 {
		return nil
	}
	state := v.State(hostOf(c))
	free, err := volume.Free(ctx, host, state)
	if err != nil || wants <= free {
		return nil // creating the volumes reports the error
	}
	return fault.WithFix(fault.New(fault.Unsupported, "its volumes%s need %s in %s, but only %s are free there",
		askedAt(c, "volumes"), wants, state, wholeMiB(free)),
		"write a smaller size:, or set BAKEOFF_STATE to a folder on a larger disk")
}

// reservedBytes is what a contender's volumes take of its host's disk from their
// beginning.
func reservedBytes(c plan.Contender) (sum unit.Bytes) {
	for _, vol := range c.Volumes {
		if strings.HasPrefix(vol.Backing, "file:") || vol.Backing == volume.NFS {
			sum += vol.Size
		}
	}
	return sum
}

// crowdedDisks says where the volumes of all environments of a block together do
// not fit on their host's disk, on which they are at the same time.
func (v inspector) crowdedDisks(ctx context.Context, able func(string) bool) []string {
	sum := map[string]unit.Bytes{}
	var hosts, out []string
	for _, c := range v.plan.Contenders {
		if wants := reservedBytes(c); wants > 0 && c.System == "" && able(c.Name) {
			if sum[hostOf(c)] == 0 {
				hosts = append(hosts, hostOf(c))
			}
			sum[hostOf(c)] += wants
		}
	}
	for _, name := range hosts {
		host, err := v.Way(name)
		if err != nil {
			continue
		}
		state := v.State(name)
		if free, err := volume.Free(ctx, host, state); err == nil && sum[name] > free {
			out = append(
				out,
				fmt.Sprintf("the volumes of a block (those of the twin, too) take %s in %s on %s, which has %s "+
					"free; write a smaller size:, or set BAKEOFF_STATE to a folder on a larger disk",
					sum[name], state, name, wholeMiB(free)),
			)
		}
	}
	return out
}
