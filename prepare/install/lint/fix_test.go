package lint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/shell"
	"bakeoff/prepare/install/installed"
)

// TestFixes puts one fault into a system, and checks that the fix is a command that mends it.
func TestFixes(t *testing.T) {
	const hostile = "zroot/ROOT/my root; reboot"
	label := func(id string) func(*machine) {
		return func(m *machine) { m.pool("zroot", func(p *installed.Pool) { p.Label.HostID = id }) }
	}
	for i, c := range []struct {
		base             func() *machine
		damage           func(*machine)
		name, where, fix string
	}{
		// A hostid that belongs to no system is never taken over.
		{voidMachine, label("0x00bab10c"), "hostid-pool-differs", "etc/hostid",
			"In a rescue system, zgenhostid -f 0x1234abcd, then zpool import -f -N zroot and zpool export zroot"},
		{voidMachine, label("0x00000000"), "hostid-pool-differs", "etc/hostid",
			"In a rescue system, zgenhostid -f 0x1234abcd, then zpool import -f -N zroot and zpool export zroot"},
		{voidMachine, label("0xdeadbeef"), "hostid-pool-differs", "etc/hostid",
			"zgenhostid -f 0xdeadbeef, then xbps-reconfigure -fa"},
		{unifiedMachine, func(m *machine) { delete(m.files, "etc/hostid") }, "hostid-missing", "etc/hostid",
			"zgenhostid -f 0x89abcdef, then kernel-install add-all"},
		{unifiedMachine, func(m *machine) { m.write("etc/hostid", "89abcdef\n") }, "hostid-form", "etc/hostid",
			"zgenhostid -f 0x89abcdef, then kernel-install add-all"},
		{unifiedMachine, func(m *machine) {
			m.OS.ID, m.Packages, m.Services = "nixos", nil, nil
			m.write("etc/hostid", "\x00\x00\x00\x00")
		}, "hostid-zero", "etc/hostid", `networking.hostId = "89abcdef", then nixos-rebuild boot`},
		{voidMachine, func(m *machine) {
			label("")(m)
			m.write("etc/hostid", "\x00\x00\x00\x00")
		}, "hostid-zero", "etc/hostid", "zgenhostid -f, then xbps-reconfigure -fa, and in a rescue system with this " +
			"etc/hostid zpool import -f -N zroot and zpool export zroot"},
		{grubMachine, grubArgument("spl.spl_hostid=89abcdef"), "hostid-argument-form", grubDefaults,
			"Write spl.spl_hostid=0x89abcdef, then update-grub."},
		{grubMachine, grubArgument("spl.spl_hostid=0x00bab10c"), "hostid-argument-differs", grubDefaults,
			"Remove the argument (the initramfs has the hostid), then update-grub."},
		{grubMachine, grubArgument("spl.spl_hostid=12345"), "hostid-argument-differs", grubDefaults,
			"Remove the argument (the initramfs has the hostid), then update-grub."},

		// All ways to force an import.
		{grubMachine, grubArgument("zfsforce=1"), "import-forced", grubDefaults, "Remove zfsforce, then update-grub."},
		{grubMachine, grubArgument("zfs.force=on"), "import-forced", grubDefaults, "Remove zfs.force, then update-grub."},
		{grubMachine, grubArgument("zfs_force=No"), "import-forced", grubDefaults, "Remove zfs_force, then update-grub."},
		{unifiedMachine, func(m *machine) {
			delete(m.files, kernelCmdline)
			m.UKI[0].Cmdline += " zfs_force=1"
			m.write("etc/dracut.conf.d/line.conf", `kernel_cmdline="`+m.UKI[0].Cmdline+`"`)
		}, "import-forced", "etc/dracut.conf.d/line.conf", "Remove zfs_force, then kernel-install add-all."},
		{unifiedMachine, func(m *machine) {
			delete(m.files, kernelCmdline)
			m.write("etc/dracut.conf.d/line.conf", `kernel_cmdline="`+m.UKI[0].Cmdline+`"`)
			older := m.UKI[0]
			older.Path, older.Kernel, older.Cmdline = "efi/EFI/Linux/6.1.efi", "6.1.0", older.Cmdline+" zfsforce"
			m.UKI = append(m.UKI, older)
		}, "import-forced", "efi/EFI/Linux/6.1.efi", "Remove zfsforce, then kernel-install add-all."},
		{sleepingMachine, func(m *machine) {
			delete(m.files, kernelCmdline)
			m.UKI[0].Cmdline = strings.Replace(m.UKI[0].Cmdline, "/dev/mapper/cryptswap", "/dev/sda9", 1)
			m.write("etc/dracut.conf.d/zz.conf", `kernel_cmdline="`+m.UKI[0].Cmdline+`"`)
		}, "resume-wrong", "etc/dracut.conf.d/zz.conf", "Write resume=/dev/mapper/cryptswap, then kernel-install add-all."},
		{sleepingGRUBMachine, func(m *machine) {
			m.write("etc/default/grub.d/50-hib.cfg",
				`GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT noresume"`+"\n")
		}, "resume-off", "etc/default/grub.d/50-hib.cfg", "Remove noresume, then update-grub."},

		// What orders the import must be in the right section.
		{debianMachine, func(m *machine) {
			for _, unit := range []string{"scan", "cache"} {
				m.write("etc/systemd/system/zfs-import-"+unit+".service.d/resume.conf",
					"[Service]\nAfter=local-fs-pre.target\n[Unit]\n;After=local-fs-pre.target\n")
			}
		}, "import-before-resume", "etc/systemd/system/zfs-import-scan.service.d",
			"[Unit] After=local-fs-pre.target in a file in etc/systemd/system/zfs-import-scan.service.d and " +
				"etc/systemd/system/zfs-import-cache.service.d, then dracut --regenerate-all --force"},

		// The last file that forgets what others add.
		{voidMachine, func(m *machine) { m.write("etc/dracut.conf.d/zz-local.conf", `add_dracutmodules=" zfs "`) },
			"dracut-hostonly-leaves-out", "etc/dracut.conf.d/zz-local.conf",
			`add_dracutmodules+=" crypt resume ", then xbps-reconfigure -fa`},

		// Unified images are built by other commands, and anybody can read them.
		{unifiedMachine, func(m *machine) { m.UKI[0].Files = []string{"/init"} }, "hostid-not-in-initramfs",
			"efi/EFI/Linux/6.12.5.efi", "kernel-install add-all"},
		{unifiedMachine, func(m *machine) {
			m.UKI[0].Files = []string{"/init"}
			m.write("etc/dracut.conf.d/uefi.conf", "uefi=yes\n")
		}, "hostid-not-in-initramfs", "efi/EFI/Linux/6.12.5.efi", "dracut --regenerate-all --force"},
		{sleepingMachine, func(m *machine) {
			m.UKI[0].Files = slices.DeleteFunc(slices.Clone(m.UKI[0].Files), func(f string) bool { return f == "/etc/crypttab" })
		}, "initramfs-stale", "efi/EFI/Linux/6.12.5.efi", "kernel-install add-all"},
		{unifiedMachine, func(m *machine) { keyInImage(m); m.Mounts = m.Mounts[:1] }, "key-in-clear-initramfs",
			"efi/EFI/Linux/6.12.5.efi", "zfs set keylocation=prompt rpool, remove the key from its folder and from the " +
				"configuration of the initramfs, and run kernel-install add-all."},
		{unifiedMachine, func(m *machine) { keyInImage(m); m.set("rpool", "keyformat", "raw") }, "key-in-clear-initramfs",
			"efi/EFI/Linux/6.12.5.efi", "zfs change-key -o keyformat=passphrase -o keylocation=prompt rpool, remove the key " +
				"from its folder and from the configuration of the initramfs, and run kernel-install add-all."},

		// Names are data, and no commands.
		{voidMachine, func(m *machine) { m.dataset(hostile, "/", "on") }, "environment-canmount", hostile + " canmount",
			"zfs set canmount=noauto 'zroot/ROOT/my root; reboot'"},
		{voidMachine, func(m *machine) {
			m.set("zroot/ROOT", propCommandLine, "quiet dyndbg=+p debug")
			m.set(voidRoot, propCommandLine, "resume=/dev/mapper/cryptswap dyndbg='file x +p'")
		}, "commandline-drops-parent", voidRoot + " " + propCommandLine, "zfs set " + propCommandLine + "=" +
			`'%{parent} resume=/dev/mapper/cryptswap dyndbg='\''file x +p'\''' ` + voidRoot},
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
			if sent := checkSent(t, m); !slices.Equal(sent, found) {
				t.Errorf("from the facts alone: %+v, want %+v", sent, found)
			}
		})
	}
}

// grubArgument adds an argument to those of GRUB.
func grubArgument(text string) func(*machine) {
	return func(m *machine) {
		m.write(grubDefaults, "GRUB_CMDLINE_LINUX="+shell.Quote("root=ZFS=rpool/ROOT/debian "+text)+"\n")
	}
}

// keyInImage puts the key of the pool into a unified image.
func keyInImage(m *machine) {
	m.set("rpool", "keylocation", "file:///etc/zfs/rpool.key")
	m.Modes = map[string]string{"/etc/zfs/rpool.key": "0400"}
	m.write("etc/zfs/rpool.key", "a passphrase")
	m.UKI[0].Files = append(slices.Clone(m.UKI[0].Files), "/etc/zfs/rpool.key")
}

// sleepingGRUBMachine is Debian 12 with GRUB, which asks for both passphrases, and hibernation.
func sleepingGRUBMachine() *machine {
	m, d := grubMachine(), oldDebianMachine()
	m.Hibernation, m.Swaps = true, d.Swaps
	crypttab := "cryptswap UUID=" + luksID + " none luks,initramfs\n"
	m.write("etc/crypttab", crypttab)
	m.write("etc/fstab", string(m.files["etc/fstab"].Data)+"/dev/mapper/cryptswap none swap defaults 0 0\n")
	m.image(func(i *installed.Initramfs) { i.Crypttab = &crypttab })
	return m
}
