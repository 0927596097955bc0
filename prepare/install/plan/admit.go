package plan

import (
	"errors"
	"slices"

	"bakeoff/base/fault"
	"bakeoff/prepare/install/spec"
)

const gib = 1 << 30

// minPool is the least room that is left for the pool.
const minPool = 8 * gib

// admit finds the disk and the size of the swap, or says why the target is
// refused: all reasons at once, each with what to do.
func admit(s *spec.Spec, t Target) (Disk, int64, error) {
	var all []error
	refuse := func(fix, format string, args ...any) {
		all = append(all, fault.WithFix(fault.New(fault.Invalid, format, args...), fix))
	}
	swap := int64(s.SwapGiB)
	if swap == 0 {
		swap = (t.RAM+t.RAM/8)/gib + 1
	}
	if t.RAM <= 0 {
		refuse("measure it again", "the facts do not say how much RAM the target has")
	}
	// The header of LUKS1 takes 2 MiB of the partition.
	if s.Hibernate && swap*gib-2<<20 <= t.RAM {
		refuse("raise swap_gib, or leave it out", "swap of %d GiB does not exceed the RAM: hibernation would fail", swap)
	}
	if t.Firmware.SecureBoot {
		refuse("switch Secure Boot off in the firmware",
			"Secure Boot is on: it forbids the unsigned modules of ZFS, and hibernation")
	}
	if !t.Firmware.EFI {
		refuse("start the installation medium by UEFI", "the target was not started by UEFI")
	}
	i := slices.IndexFunc(t.Disks, func(d Disk) bool { return d.ByID == s.Disk })
	if i < 0 {
		refuse("compare with ls /dev/disk/by-id", "the target has no disk %s", s.Disk)
		return Disk{}, 0, errors.Join(all...)
	}
	d := t.Disks[i]
	if d.Serial == "" {
		refuse("choose a disk with a serial number",
			"%s has no serial number: nothing shows that it is the same later", d.Path)
	}
	if d.System {
		refuse("choose another disk, or start a rescue system", "%s holds the running system", d.Path)
	}
	for _, u := range d.Users {
		refuse("end that use first", "%s is in use: %s", d.Path, u)
	}
	for _, g := range d.Signatures {
		if !slices.Contains(s.Destroy, g) {
			refuse("add it to destroy if it may go", "%s holds %s, which destroy does not name", d.Path, g)
		}
	}
	if d.Logical != 512 && d.Logical != 4096 {
		refuse("choose another disk", "%s has sectors of %d bytes; only 512 and 4096 are known", d.Path, d.Logical)
	}
	if d.Size < swap*gib+gib+minPool {
		refuse("choose a larger disk", "%s is too small for %d GiB of swap and 8 GiB of pool", d.Path, swap)
	}
	return d, swap, errors.Join(all...)
}
