package lint

import (
	"fmt"
	"testing"

	"bakeoff/prepare/install/installed"
)

// TestCleanDisks checks that nothing is found where facts about disks, swap and the firmware are unknown,
// or are written in another way.
func TestCleanDisks(t *testing.T) {
	for name, m := range map[string]*machine{
		"blkid does not know the mounted ESP": change(voidMachine(), func(m *machine) { delete(m.Blkid, "/dev/nvme0n1p1") }),
		"blkid knows nothing of the ESP":      change(voidMachine(), func(m *machine) { m.Blkid["/dev/nvme0n1p1"] = nil }),
		"the type of the ESP is unknown": change(mirrorMachine(), func(m *machine) {
			m.Blkid["/dev/nvme1n1p1"] = map[string]string{"TYPE": ""}
			delete(m.ESPFiles, "esp-2")
		}),
		"the order of entries is unknown": change(voidMachine(), func(m *machine) { m.EFI.Order = nil }),
		"the states of entries are unknown": change(voidMachine(), func(m *machine) {
			m.EFI.Entries[0].Active, m.EFI.Entries[1].Active = nil, nil
		}),
		"an entry without a file is tried": change(voidMachine(), func(m *machine) {
			m.EFI.Entries[0].Active = truth(false)
			m.EFI.Entries[1].Loader = ""
		}),
		"partitions are unknown": change(mirrorMachine(), func(m *machine) {
			for _, d := range m.Disks {
				for n := range d.Partitions {
					d.Partitions[n].PartUUID, d.Partitions[n].Type = "", ""
				}
			}
		}),
		"the kind of disk is unknown": change(voidMachine(), func(m *machine) {
			m.Disks[0].Rotational = nil
			m.Pools["zroot"].Props["autotrim"] = "off"
		}),
		"an ashift that is no ashift": change(voidMachine(), func(m *machine) { m.Pools["zroot"].Props["ashift"] = "-3" }),
		"an ashift that is too large": change(voidMachine(), func(m *machine) { m.Pools["zroot"].Props["ashift"] = "64" }),
		"swap without a name":         change(voidMachine(), func(m *machine) { m.Swaps[0] = installed.Swap{} }),
	} {
		checkClean(t, name, m)
	}
}

// TestFixesOfDisks puts one fault into a system, and checks that the fix mends it and does no harm.
func TestFixesOfDisks(t *testing.T) {
	for i, c := range []struct {
		base             func() *machine
		damage           func(*machine)
		name, where, fix string
	}{
		{mirrorMachine, func(m *machine) {
			delete(m.Blkid, "/dev/nvme1n1p1")
			delete(m.ESPFiles, "esp-2")
		}, "esp-not-formatted", "/dev/nvme1n1p1",
			"If blkid -p /dev/nvme1n1p1 finds nothing: mkfs.vfat -F 32 /dev/nvme1n1p1, and copy the loaders"},
		{voidMachine, func(m *machine) { // the entry that works is the second
			e := m.EFI.Entries[0]
			e.Number, m.EFI.Entries[0].Active = "0003", truth(false)
			m.EFI.Entries = append(m.EFI.Entries, e)
			m.EFI.Order = []string{"0003", "0001"}
		}, "entries-doubled", "efibootmgr", "efibootmgr -b 0000 -B"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, m.EFI.Current = "0003", "0003"
			m.EFI.Entries = append(m.EFI.Entries, e)
			m.EFI.Order = append(m.EFI.Order, "0003")
		}, "entries-doubled", "efibootmgr", "efibootmgr -b 0000 -B"},
		{voidMachine, func(m *machine) {
			e := m.EFI.Entries[0]
			e.Number, e.Active = "0003", nil
			m.EFI.Entries = append(m.EFI.Entries, e)
		}, "entries-doubled", "efibootmgr",
			"Delete the one that the firmware does not use (efibootmgr -b NUMBER -B)."},
		{voidMachine, func(m *machine) {
			m.EFI.Entries[0].Active, m.EFI.Entries[1].Active = truth(false), truth(false)
		}, "entries-not-in-order", "efibootmgr", "efibootmgr -b 0000 -a; efibootmgr -b 0001 -a"},
		{voidMachine, func(m *machine) {
			m.EFI.Entries[1].Active = truth(false)
			m.EFI.Order = []string{"0001", "0007"}
		}, "entries-not-in-order", "efibootmgr", "efibootmgr -b 0001 -a; efibootmgr -o 0000,0001,0007"},
		{voidMachine, func(m *machine) {
			m.RAMBytes = 0
			delete(m.files, "etc/modprobe.d/zfs.conf")
		}, "arc-uncapped", "etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=BYTES, a quarter of the memory"},
		{voidMachine, func(m *machine) { m.write("etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4096\n") },
			"arc-limit-low", "etc/modprobe.d/zfs.conf", "options zfs zfs_arc_max=4294967296"},
		{voidMachine, func(m *machine) {
			m.Disks[0].Physical = 512
			m.Pools["zroot"].Props["ashift"] = "9"
		}, "ashift-small", "zroot ashift",
			"Make the pool again with ashift=12; the ashift of a pool cannot be changed."},
		{voidMachine, func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.VDevs[0] = "nvme0n1p3" }) },
			"pool-device-name", "zroot vdevs", "In a rescue system, zpool import -f -N -d /dev/disk/by-id zroot, then " +
				"zpool export zroot"},
		{voidMachine, func(m *machine) {
			m.Disks[0].ByID = ""
			m.Pools["tank; reboot"] = installed.Pool{VDevs: []string{"/dev/nvme0n1p3"}}
		}, "pool-device-name", "tank; reboot vdevs",
			"zpool export 'tank; reboot', then zpool import -d /dev/disk/by-partuuid 'tank; reboot'"},
		{voidMachine, func(m *machine) {
			m.Blkid["/dev/nvme0n1"] = map[string]string{"TYPE": "zfs_member", "LABEL": "old"}
			m.Tools["util_linux"] = "2.38.1"
		}, "label-stale", "/dev/nvme0n1", "With wipefs of util-linux 2.41 or later, as earlier versions miss labels of " +
			"ZFS: wipefs --all --force --types zfs_member /dev/nvme0n1; not zpool labelclear, which can remove the " +
			"partition table"},
		{grubMachine, func(m *machine) { m.write("etc/default/grub", `GRUB_CMDLINE_LINUX="console=ttyS0"`) },
			"grub-without-root", "etc/default/grub",
			"Add root=ZFS=rpool/ROOT/debian to the value of GRUB_CMDLINE_LINUX, then update-grub."},
	} {
		t.Run(fmt.Sprintf("%d %s", i, c.name), func(t *testing.T) {
			m := c.base()
			c.damage(m)
			found := check(m)
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			if f := found[0]; f.Name != c.name || f.Where != c.where || f.Fix != c.fix {
				t.Errorf("got %s at %s: %s\nwant %s at %s: %s", f.Name, f.Where, f.Fix, c.name, c.where, c.fix)
			}
		})
	}
}
