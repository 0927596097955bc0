package qemu

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/volume"
	"bakeoff/reach/wire"
)

// nameSystem sets the option system from the kernel, and refuses a contradiction. "" is a
// system that nobody named.
func (o *options) nameSystem(k qemu.KernelFile) error {
	switch {
	case o.system == auto:
		o.system = k.System
	case k.System != "" && k.System != o.system:
		return refuseOption(fault.Invalid, optKernel, "remove "+optSystem, "%s is a kernel of another system (%s), not of %s",
			o.kernel, k.Version, o.system)
	}
	return nil
}

// setupConfig is what the agent sets up in a guest that the user brings: volumes, the address
// on the experiment's network, and settings.
func setupConfig(spec driver.Spec) wire.InitConfig {
	c := initConfig(spec)
	return wire.InitConfig{Schema: c.Schema, Volumes: c.Volumes, Network: c.Network, Sysctl: c.Sysctl}
}

// needsSetup tells whether there is anything to set up.
func needsSetup(c wire.InitConfig) bool { return len(c.Volumes)+len(c.Sysctl) > 0 || c.Network != nil }

// refuseSetup refuses what the agent cannot set up in the guest. Only the host knows the
// system of a kernel: before its file was read, nothing is refused that depends on it.
func (o options) refuseSetup(spec driver.Spec) error {
	c := setupConfig(spec)
	if !o.bringsSystem() || !needsSetup(c) {
		return nil
	}
	what := "the experiment's network, which a workload of the plan needs"
	if len(c.Volumes) > 0 {
		what = "volumes"
	} else if len(c.Sysctl) > 0 {
		what = "tuning"
	}
	switch {
	case o.agentless && len(c.Volumes)+len(c.Sysctl) == 0:
		return nil // its ports are forwarded
	case o.agentless:
		return refuseOption(fault.Unsupported, optAgent+": "+none,
			"start the agent in the guest, or prepare this on its disk", "a guest without an agent cannot get %s", what)
	case o.system == auto && o.kernel != "":
		return nil
	case o.system == auto || o.system == "":
		return refuseOption(fault.Unsupported, cmp.Or(o.kernel, o.disk), "name it, for instance "+optSystem+": "+systemLinux,
			"bakeoff does not know the system of the guest, nor whether it supports %s", what)
	}
	lacks := wire.Lacks(o.system, c)
	if len(lacks) == 0 {
		return nil
	}
	fix := "measure this with a guest of another system"
	if o.system != systemOpenBSD && o.system != systemWindows && slices.ContainsFunc(spec.Volumes,
		func(v volume.Volume) bool { return v.Backing != volume.Tmpfs }) {
		fix = "write backing: " + volume.Tmpfs
	}
	return refuseOption(fault.Unsupported, optSystem, fix, "%s", lacks[0])
}

// MakeScratch is the command that makes the scratch folder in a guest. On Windows the agent
// works in the root of the system's drive.
func MakeScratch(system string) []string {
	if system == systemWindows {
		at := "%SystemDrive%" + strings.ReplaceAll(guest.Scratch, "/", `\`)
		return []string{"cmd.exe", "/d", "/c", "if not exist " + at + " mkdir " + at}
	}
	return []string{"mkdir", "-p", guest.Scratch}
}

// setUp has the agent set the guest up, after it has answered.
func (in *Instance) setUp(ctx context.Context, o options) error {
	if in.Boot.PID != 1 { // as init, the agent has made the folder; the root may have no program but the agent
		if err := in.Prepare(ctx, MakeScratch(o.system)); err != nil {
			return err
		}
	}
	c := setupConfig(in.Spec)
	if !needsSetup(c) {
		return nil
	}
	if is := in.Boot.System; is != "" && is != o.system {
		return fault.WithFix(fault.New(fault.Invalid, "the guest runs %s, not %s", is, o.system), "write "+optSystem+": "+is)
	}
	err := in.Conn.Call(ctx, "setup", c, nil)
	if fault.Is(err, fault.Unsupported) && in.Boot.System == "" {
		return fault.WithFix(fault.New(fault.Invalid, "the agent in the guest is too old to set up volumes, "+
			"networks and settings"),
			"copy the agent of this release into the guest")
	}
	return fault.Wrap(fault.Subject, "set up the guest", err)
}
