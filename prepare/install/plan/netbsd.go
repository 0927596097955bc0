package plan

import (
	_ "embed" // of the script
	"slices"
	"strings"

	"bakeoff/base/hexsum"
	"bakeoff/prepare/install/spec"
)

// netbsdZFS is the recipe netbsd-zfs: NetBSD with its root on ZFS. The loader reads kernel,
// modules and a RAM disk from FFS; the RAM disk imports the pool, whose name it knows.
func (r *recipe) netbsdZFS() {
	const (
		zpool, root, altroot, boot, esp = "rpool", "rpool/ROOT", "/altroot", "/mnt/boot", "/mnt/efi"
		dev                             = "/dev/wedges/rpool"
	)
	d := strings.TrimPrefix(r.Disk.ByID, "/dev/")
	sets, release := r.spec.SetsDir, r.spec.Release
	files := r.netbsdFiles()
	if r.spec.Init != spec.InitNone {
		// An init without this node, such as that of sysinst, starts no other root.
		r.assert("init-can", "see that init can start another root; if it cannot, plan with init: none", "sysctl", "-n",
			"init.root").Local = true
	}
	r.netbsdVerify(files)
	r.run("partition", "write a partition table", "gpt", "create", "-f", d).destroys(r.Disk.ByID)
	for _, p := range [][4]string{{"1", "efi", "EFI", "512m"}, {"2", "ffs", "boot", "512m"}, {"3", "zfs", zpool, ""}} {
		argv := []string{"gpt", "add", "-a", "1m", "-i", p[0], "-t", p[1], "-l", p[2]}
		if p[3] != "" {
			argv = append(argv, "-s", p[3])
		}
		r.run("partition-"+p[1], "add a partition", append(argv, d)...).
			check("gpt", "show", "-l", d).expect(p[2]).replaces()
	}
	r.run("bootme", "mark the partition that the loader reads", "gpt", "set", "-a", "bootme", "-i", "2", d)
	s := r.run("wedges", "let the kernel read the table, and wait for the nodes", "dkctl", d, "makewedges").
		check("dkctl", d, "listwedges").expect("EFI").replaces().
		check("dkctl", d, "listwedges").expect("boot").replaces().
		check("dkctl", d, "listwedges").expect(zpool).replaces()
	s.Await, s.Local, s.Reopen = true, true, true
	s = r.run("wedge-names", "name the nodes of the wedges: zpool takes a path, and dk2 is another one tomorrow",
		"devpubd", "-1").check("test", "-e", dev)
	s.Await, s.Local, s.Reopen = true, true, true
	r.run("esp", "format the ESP", "newfs_msdos", "-F", "32", "-L", "EFI", "NAME=EFI").destroys("NAME=EFI")
	r.run("boot", "format the partition of the loader", "newfs", "-O", "2", "NAME=boot").destroys("NAME=boot")
	for _, m := range [][3]string{{"msdos", "NAME=EFI", esp}, {"ffs", "NAME=boot", boot}} {
		f := r.run("folder-"+m[0], "make a mount point", "mkdir", "-p", m[2]).check("test", "-d", m[2])
		f.Local, f.Reopen = true, true
		s = r.run("mount-"+m[0], "mount it", "mount", "-t", m[0], m[1], m[2]).
			check("mount").expect("on "+m[2]+" type").replaces().undo("umount", m[2])
		s.ReadOnly, s.Flush = []string{"mount", "-r", "-t", m[0], m[1], m[2]}, []string{"sync"}
	}
	r.run("loader-folder", "make the folder of the loader", "mkdir", "-p", esp+"/EFI/BOOT")
	for _, f := range [][3]string{{"loader", "/usr/mdec/bootx64.efi", esp + "/EFI/BOOT/BOOTX64.EFI"},
		{"loader-bios", "/usr/mdec/boot", boot + "/boot"}, {"kernel", sets + "/" + files[0].name, boot + "/netbsd.gz"},
		{"ramdisk", sets + "/" + files[1].name, boot + "/" + files[1].name}} {
		r.run(f[0], "copy it", "cp", f[1], f[2]).check("cmp", "-s", f[1], f[2]).replaces().Redo = true
	}
	r.run("loader-blocks", "let a BIOS start it too", "installboot", "-v", "NAME=boot", "/usr/mdec/bootxx_ffsv2")
	r.run("modules", "put the modules where the loader reads them: the RAM disk has none", "tar", "-xpf",
		sets+"/modules.tar.xz", "-C", boot, "./stand/amd64/"+release+"/modules/solaris", "./stand/amd64/"+release+
			"/modules/zfs")
	menu := ""
	for _, m := range []string{"solaris", "zfs"} {
		menu += "load /stand/amd64/" + release + "/modules/" + m + "/" + m + ".kmod;"
	}
	r.put("boot-cfg", "load the modules, then the RAM disk", boot+"/boot.cfg",
		"menu=Boot NetBSD with its root on ZFS:"+menu+"fs /"+files[1].name+";boot /netbsd.gz",
		"menu=Boot single user:"+menu+"fs /"+files[1].name+";boot /netbsd.gz -s",
		"menu=Drop to boot prompt:prompt", "default=1", "timeout=5")
	for _, m := range []string{"solaris", "zfs"} {
		r.run("module-"+m, "load the module; that it is there already is success", "modload", m).
			check("modstat", "-n", m).expect(m)
		r.Step("module-"+m).Local, r.Step("module-"+m).Reopen = true, true
	}
	r.run("pool", "create the pool", "zpool", "create", "-f", "-m", "none", zpool, dev).destroys(dev).
		check("zdb", "-l", dev).expect("name: '" + zpool + "'")
	r.Step("pool").Redo = false // a label that is whole is believed
	r.run("pool-import", "import it, if it is not", "zpool", "import", "-N", zpool).
		check("zpool", "list", "-H", "-o", "name", zpool).expect(zpool).undo("zpool", "export", zpool).
		ReadOnly = []string{"zpool", "import", "-o", "readonly=on", "-N", zpool}
	r.run("dataset", "create the root; the RAM disk mounts it by hand", "zfs", "create", "-o", "mountpoint=legacy", root).
		check("zfs", "get", "-H", "-o", "value", "mountpoint", root).
		expect("legacy")
	s = r.run("altroot", "make its mount point", "mkdir", "-p", altroot).check("test", "-d", altroot)
	s.Local, s.Reopen = true, true
	s = r.run("mount-root", "mount it", "mount", "-t", "zfs", root, altroot).
		check("mount").expect(root+" on "+altroot).replaces().undo("umount", altroot)
	s.ReadOnly = []string{"mount", "-r", "-t", "zfs", root, altroot}
	s.Flush = []string{"sync"} // the zpool of NetBSD has no sync; sync(2) commits the log of the dataset
	for _, s := range r.spec.Sets {
		r.run("set-"+s, "unpack the set", "tar", "-xpf", sets+"/"+s+".tar.xz", "-C", altroot)
	}
	r.netbsdConfigure(altroot)
	r.leave()
	r.assert("exported", "see that the label says so", "zdb", "-l", dev).expect("state: 1")
	r.netbsdEnter(zpool, root, altroot)
}

// netbsdEnter lets init start the new system without a reboot, as zfsinstall does: the next time that
// init has executed /etc/rc, it executes that of init.root. init of a running system executes
// /etc/rc after a person left the shell of single-user mode.
func (r *recipe) netbsdEnter(zpool, root, altroot string) {
	const single = "on the console of the target, press RETURN, and leave the shell of single-user mode with ^D: init " +
		"then starts the installed system"
	const host = "log in with the ssh_keys of the specification; the installed system has another host key"
	if r.spec.Init == spec.InitNone {
		r.After = []string{"reboot the target: it starts the installed system", host}
		return
	}
	local := func(s *Step) *Step {
		s.Local = true
		return s
	}
	local(r.run("enter-import", "import the pool again", "zpool", "import", "-N", zpool)).
		check("zpool", "list", "-H", "-o", "name", zpool).expect(zpool).undo("zpool", "export", zpool)
	local(r.run("enter-mount", "mount the new root again", "mount", "-t", "zfs", root, altroot)).
		check("mount").expect(root+" on "+altroot).replaces().undo("umount", altroot)
	local(r.run("init-root", "let init start the new root", "sysctl", "-w", "init.root="+altroot)).
		check("sysctl", "-n", "init.root").expect(altroot).replaces().undo("sysctl", "-w", "init.root=/")
	// The services of the installing system start again too, before those of the new one.
	const port = "if the installing system starts sshd, port 22 leads to that one: reboot instead"
	if r.spec.Init == spec.InitPrepare {
		r.After = []string{"reboot the target: it starts the installed system", host,
			"without a reboot: run `shutdown now` on the target; then, " + single, port}
		return
	}
	local(r.run("init-restart", "end all programs; then init starts single-user mode", "shutdown", "now")).Departs = true
	r.After = []string{single, "without a console, reset the target: it then starts from the disk", host, port}
}

// netbsdFile is a file of a release of NetBSD: its folder on a mirror, and the list in sets_dir
// that has its checksum.
type netbsdFile struct{ name, folder, list string }

// netbsdFiles are the kernel, the RAM disk and the sets, in this order.
func (r *recipe) netbsdFiles() []netbsdFile {
	files := []netbsdFile{{"netbsd-" + r.spec.Kernel + ".gz", "binary/kernel", "SHA512.kernel"},
		{"ramdisk-zfsroot.fs", "installation/ramdisk", "SHA512.ramdisk"}}
	for _, s := range r.spec.Sets {
		files = append(files, netbsdFile{s + ".tar.xz", "binary/sets", "SHA512.sets"})
	}
	if r.spec.Mirror == "" { // whoever filled the folder wrote one list
		for i := range files {
			files[i].list = "SHA512"
		}
	}
	return files
}

// netbsdVerify downloads the files if there is a mirror, and verifies them.
func (r *recipe) netbsdVerify(files []netbsdFile) {
	dir := r.spec.SetsDir
	if r.spec.Mirror != "" {
		r.run("fetch-folder", "make the folder of the sets", "mkdir", "-p", dir).check("test", "-d", dir)
		r.Step("fetch-folder").Local = true
		fetch := func(name, from, to string) {
			to = dir + "/" + to
			s := r.run("fetch-"+name, "download it before the disk is touched", "ftp", "-o", to, strings.TrimSuffix(
				r.spec.Mirror, "/")+"/NetBSD-"+r.spec.Release+"/amd64/"+from).check("test", "-s", to)
			s.Local, s.Redo = true, true
		}
		for i, f := range files {
			if !slices.ContainsFunc(files[:i], func(o netbsdFile) bool { return o.list == f.list }) {
				fetch(f.list, f.folder+"/SHA512", f.list)
			}
			fetch(f.name, f.folder+"/"+f.name, f.name)
		}
	}
	listed := r.run("verify-list", "see that each file has a checksum: one without is not verified", "grep", "-F",
		"SHA512 ("+files[0].name+") = ", dir+"/"+files[0].list)
	listed.Local = true
	for _, f := range files {
		listed.check("grep", "-F", "SHA512 ("+f.name+") = ", dir+"/"+f.list).expect("(" + f.name + ")")
	}
	for _, f := range files {
		// The whole list is not checked at once: a subset of the sets may be there.
		v := r.assert("verify-"+f.name, "verify it before the disk is touched", "cksum", "-a", "SHA512", "-c", f.list, f.name)
		v.Dir, v.last().Dir, v.Local = dir, dir, true
	}
	fits := r.run("module-fits", "see that modules and kernel are of one release: a kernel loads only modules of its own",
		"tar", "-tf", dir+"/modules.tar.xz")
	fits.Local = true
	for _, m := range []string{"solaris", "zfs"} {
		fits.check(fits.Argv...).expect("./stand/amd64/" + r.spec.Release + "/modules/" + m + "/" + m + ".kmod")
	}
}

//go:embed zfsroot-update.sh
var zfsrootUpdate string

func (r *recipe) netbsdConfigure(altroot string) {
	s := r.spec
	// The sets have no nodes, and no folders for file systems of the kernel.
	r.run("devices", "make the device nodes", "sh", "./MAKEDEV", "all").
		check("test", "-c", altroot+"/dev/null").Dir = altroot + "/dev"
	r.Step("devices").Redo = true
	for _, dir := range []string{"/boot-ffs", "/efi", "/kern", "/proc"} {
		r.run("folder-"+dir[1:], "make a mount point", "mkdir", "-p", altroot+dir).check("test", "-d", altroot+dir)
	}
	r.put("fstab", "name what is mounted", altroot+"/etc/fstab",
		"rpool/ROOT / zfs rw 0 0",
		"NAME=boot /boot-ffs ffs rw,noauto 1 2",
		"NAME=EFI /efi msdos rw,noauto 0 0",
		"kernfs /kern kernfs rw 0 0",
		"ptyfs /dev/pts ptyfs rw 0 0",
		"procfs /proc procfs rw 0 0",
		"tmpfs /var/shm tmpfs rw,-m1777,-sram%25 0 0",
	)
	const update = "/root/zfsroot-update"
	r.put("update", "update kernel, RAM disk and modules together", altroot+update, strings.TrimSuffix(
		strings.ReplaceAll(zfsrootUpdate, "netbsd-GENERIC.gz", "netbsd-"+s.Kernel+".gz"), "\n"))
	r.run("update-mode", "let root run it", "chmod", "0700", altroot+update).
		check("test", "-x", altroot+update).replaces()
	r.put("rc-conf", "configure the system", altroot+"/etc/rc.conf", ". /etc/defaults/rc.conf",
		"rc_configured=YES", "hostname="+s.Hostname, "no_swap=YES", "zfs=YES", "dhcpcd=YES", "sshd=YES")
	r.run("timezone", "set the time zone", "ln", "-sfn", "/usr/share/zoneinfo/"+s.Timezone, altroot+"/etc/localtime").
		check("readlink", altroot+"/etc/localtime").expect("/usr/share/zoneinfo/" + s.Timezone).replaces()
	r.bsdKeys("root", altroot, "/root", s.SSHKeys)
	for _, u := range s.Users {
		r.run("user-"+u.Name, "create a user", "chroot", altroot, "useradd", "-m", u.Name).
			check("chroot", altroot, "id", "-un", u.Name).expect(u.Name)
		for _, g := range u.Groups {
			if id := "group-" + g; g != "wheel" && r.Step(id) == nil {
				r.run(id, "make the group, if the system lacks it", "chroot", altroot, "groupadd", g).
					check("chroot", altroot, "getent", "group", g)
			}
		}
		if len(u.Groups) > 0 {
			r.run("groups-"+u.Name, "add the user to groups", "chroot", altroot, "usermod", "-G",
				strings.Join(u.Groups, ","), u.Name)
		}
		r.bsdKeys(u.Name, altroot, "/home/"+u.Name, u.SSHKeys)
	}
}

// bsdKeys lets keys log in over SSH.
func (r *recipe) bsdKeys(user, altroot, home string, keys []string) {
	if len(keys) == 0 {
		return
	}
	r.run("ssh-folder-"+user, "make the folder of the keys", "mkdir", "-p", "-m", "0700", altroot+home+"/.ssh").
		check("test", "-d", altroot+home+"/.ssh")
	r.put("ssh-keys-"+user, "let the keys of the specification log in", altroot+home+"/.ssh/authorized_keys", keys...)
	r.run("ssh-owner-"+user, "give them to the user", "chroot", altroot, "chown", "-R", user, home+"/.ssh")
}

// put adds a step that writes a file with the programs of NetBSD.
func (r *recipe) put(id, purpose, path string, lines ...string) {
	text := strings.Join(lines, "\n") + "\n"
	s := r.run(id, purpose, "dd", "of="+path, "bs=64k").check("cksum", "-a", "SHA256", path).
		expect(hexsum.Of(text)).replaces()
	s.Stdin, s.Redo = &Input{Text: text}, true
}
