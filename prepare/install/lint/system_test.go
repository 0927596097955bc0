package lint

import (
	"testing"
	"testing/fstest"

	"bakeoff/prepare/install/installed"
)

// withTrim leaves it to a job of cron to trim the pool.
func withTrim(job string) *machine {
	m := debianMachine()
	m.Pools["rpool"].Props["autotrim"] = "off"
	m.write("etc/cron.weekly/trim", "#!/bin/sh\n"+job+"\n")
	return m
}

// proxmoxMachine is Proxmox VE as its installer leaves it: canmount is on.
func proxmoxMachine() *machine {
	m := grubMachine()
	m.set("rpool/ROOT/debian", "canmount", "on")
	return m
}

// freeBSDMachine is FreeBSD, whose etc/hostid is a text.
func freeBSDMachine() *machine {
	m := netbsdMachine()
	m.OS.ID, m.OS.Version = "freebsd", "14.3"
	m.files = fstest.MapFS{}
	m.write("etc/hostid", "8f0c5a3e-1c9d-11ef-9b7e-0800271d2c11\n")
	m.write("etc/rc.conf", "zfs_enable=YES\n")
	m.Datasets = map[string]installed.Dataset{"rpool/ROOT": {"mountpoint": {Value: "/"}, "canmount": {Value: "on"}}}
	return m
}

// TestOtherInstallers checks that nothing is found on systems as other installers and administrators make them.
func TestOtherInstallers(t *testing.T) {
	for name, m := range map[string]*machine{
		"proxmox": proxmoxMachine(),
		"freebsd": freeBSDMachine(),
		"zsys, which changes canmount itself": change(proxmoxMachine(), func(m *machine) {
			m.dataset("rpool/ROOT/before", "/", "noauto")
			m.set("rpool/ROOT/debian", "com.ubuntu.zsys:bootfs", "yes")
		}),
		"nixos, a legacy root, which no import mounts": change(unifiedMachine(), func(m *machine) {
			m.OS.ID, m.Packages = "nixos", nil
			m.dataset("rpool/ROOT/before", "legacy", "on")
			m.dataset("rpool/ROOT/debian", "legacy", "on")
		}),
		"zpool trim with options":     withTrim("zpool trim -w -r 100M rpool"),
		"zpool trim of several pools": withTrim("zpool trim tank && zpool trim rpool"),
		"zpool trim of all pools":     withTrim("zpool list -Ho name | xargs -n1 zpool trim"),
		"zpool trim in a loop":        withTrim(`for p in $(zpool list -Ho name); do zpool trim "$p"; done`),
		"a timer for the pool": change(withTrim(""), func(m *machine) {
			m.Services = append(m.Services, "zfs-trim-weekly@rpool.timer")
		}),
		"a timer for an unknown pool": change(withTrim(""), func(m *machine) {
			m.Services = append(m.Services, "zfs-trim-weekly@.timer")
		}),
		"the limit of the ARC is written by systemd": change(debianMachine(), func(m *machine) {
			delete(m.files, "etc/modprobe.d/zfs.conf")
			m.write("etc/tmpfiles.d/arc.conf", "w /sys/module/zfs/parameters/zfs_arc_max - - - - 4294967296\n")
		}),
		"the limit of the ARC is written by a script": change(voidMachine(), func(m *machine) {
			delete(m.files, "etc/modprobe.d/zfs.conf")
			m.write("etc/rc.local", "echo $((4 << 30)) > /sys/module/zfs/parameters/zfs_arc_max\n")
		}),
		"resume= in the configuration of dracut": change(voidMachine(), func(m *machine) {
			m.set(voidRoot, propCommandLine, parentArguments+" loglevel=4")
			m.write("etc/dracut.conf.d/line.conf",
				`kernel_cmdline="rd.luks.uuid=`+luksID+` resume=/dev/mapper/cryptswap"`+"\n")
		}),
		"the entries of GRUB have the arguments": change(grubMachine(), func(m *machine) {
			m.write(grubDefaults, "GRUB_ENABLE_BLSCFG=true\n")
			m.write("boot/loader/entries/a-6.1.conf", "title Linux\noptions root=ZFS=rpool/ROOT/debian ro\n")
		}),
		"the hostid of the module": change(grubMachine(), func(m *machine) {
			m.write("etc/modprobe.d/spl.conf", "options spl spl_hostid=0x89abcdef\n")
		}),
	} {
		checkClean(t, name, m)
	}
}
