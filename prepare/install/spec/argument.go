package spec

import (
	"slices"
	"strconv"
	"strings"

	"bakeoff/prepare/install/installed"
)

// reserved says why an argument of the kernel contradicts the plan. applies reports for which values it does;
// nil is for all.
type reserved struct {
	why     string
	applies func(s *Spec, value string) bool
}

var (
	foreignID = "the plan gives the system its hostid; with another one, the pool is not imported"
	forces    = "the system would import a pool that another system uses, such as a hibernated one, and damage it"
	needsZFS  = "the system needs this module to mount its root"
	closed    = "the swap would stay closed"
	opens     = "crypttab opens the swap, and names the opened device"
	restricts = "the kernel would refuse the module of ZFS, which has no key that the kernel trusts, and hibernation"
)

// reservedArguments are those that the plan sets, or that keep the new system from starting or from resuming
// safely, by name.
var reservedArguments = map[string]reserved{
	"root": {"the boot loader names the root", nil},
	"resume": {"with hibernate: true, the plan sets it to the swap, because only this swap has the image of a " +
		"hibernated system",
		nil},
	"resume_offset":    {"the image of a hibernated system begins at the start of the swap", nil},
	"rd.luks.uuid":     {"the plan sets it to open the swap", nil},
	"luks.uuid":        {"the plan opens the swap", nil},
	"spl_hostid":       {foreignID, nil},
	"spl.spl_hostid":   {foreignID, nil},
	"zfs_force":        {forces, mayForce},
	"zfs.force":        {forces, mayForce},
	"zfsforce":         {forces, mayForce},
	"noinitrd":         {"the initial RAM disk mounts the root", nil},
	"rd.luks":          {closed, closesSwap},
	"luks":             {closed, closesSwap},
	"rd.luks.crypttab": {opens, closesSwap},
	"luks.crypttab":    {opens, closesSwap},
	"rd.luks.name":     {opens, encryptsSwap},
	"luks.name":        {opens, encryptsSwap},
	"noresume":         {"it discards the image of a hibernated system, and hibernate is true", hibernates},
	"nohibernate":      {"it forbids hibernation, and hibernate is true", hibernates},
	"hibernate": {"it forbids hibernation or the resume, and hibernate is true",
		func(s *Spec, value string) bool { return s.Hibernate && (value == "no" || value == "noresume") }},
	"zfs.zfs_arc_max": {"the plan limits the cache of ZFS, so that memory is left to hibernate",
		hibernates},
	"lockdown":            {restricts, func(_ *Spec, value string) bool { return value != "none" }},
	"module.sig_enforce":  {restricts, switchedOn},
	"module_blacklist":    {needsZFS, excludesZFS},
	"modprobe.blacklist":  {needsZFS, excludesZFS},
	"rd.driver.blacklist": {needsZFS, excludesZFS},
}

func hibernates(s *Spec, _ string) bool { return s.Hibernate }

func switchedOn(_ *Spec, value string) bool { return !installed.MayBeOff(value) }

func mayForce(_ *Spec, value string) bool { return !installed.SurelyOff(value) }

func encryptsSwap(s *Spec, _ string) bool { return s.Secrets.Swap != "" }

func closesSwap(s *Spec, value string) bool { return s.Secrets.Swap != "" && installed.MayBeOff(value) }

func excludesZFS(_ *Spec, value string) bool {
	return slices.ContainsFunc(strings.Split(value, ","), func(m string) bool { return m == "zfs" || m == "spl" })
}

// arguments checks the arguments of the kernel.
func (c checker) arguments(s *Spec) {
	for i, a := range s.KernelArgs {
		at := []string{"kernel_args", strconv.Itoa(i)}
		c.want(a, argument, "write an argument such as console=ttyS0", at...)
		name, value, _ := strings.Cut(a, "=")
		// The kernel takes - for _ in the names of its parameters.
		if r, ok := reservedArguments[strings.ReplaceAll(name, "-", "_")]; ok && (r.applies == nil || r.applies(s, value)) {
			c.Add(c.at(at), "leave it out", "kernel_args has %s: %s", name, r.why)
		}
	}
}
