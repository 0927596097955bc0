package plan

import (
	"cmp"
	_ "embed" // of the script
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/hexsum"
	"bakeoff/prepare/install/spec"
)

// recipe adds steps to a plan. The methods in this file are the blocks that recipes share.
type recipe struct {
	*Plan
	spec    *spec.Spec
	target  Target
	swapGiB int64 // 0: no swap
	espMiB  int64
	// Two ways to start without ZFSBootMenu, from what anybody can read: uki is a unified kernel
	// image on the ESP, grub reads kernel and initramfs from a pool of their own.
	uki, grub bool
	// download are the packages that come from the repository of the specification. In Debian, the
	// first ones, as many as system, are installed before those that the specification names.
	download []string
	system   int
}

const (
	target  = "/mnt"
	pool    = "zroot"
	poolKey = "/etc/zfs/zroot.key"
	swapKey = "/boot/volume.key"
)

// Numbers of the partitions.
const (
	partESP  = "1"
	partSwap = "2"
	partPool = "3"
	partBoot = "4" // of the pool that GRUB reads; it lies before that of the root
)

const bootGiB = 2 // for some kernels with their images

// part is the node of a partition: by its identity, or below a loop device, which udev
// gives no such name, by its number.
func (d Drive) part(number string) string {
	if strings.HasPrefix(d.ByID, "/dev/loop") {
		return d.ByID + "p" + number
	}
	return "/dev/disk/by-partuuid/" + d.partUUID(number)
}

func (d Drive) partUUID(number string) string {
	return map[string]string{partESP: d.ESP, partSwap: d.Swap, partPool: d.Pool, partBoot: d.Boot}[number]
}

// mapped is the name of the opened swap.
func (d Drive) mapped() string { return "cryptswap" + strings.TrimPrefix(d.suffix, "-") }

// esp is where the ESP is mounted in the new system.
func (d Drive) esp() string { return "/boot/efi" + strings.TrimPrefix(d.suffix, "-") }

func (d Drive) fatSerial() string {
	return strings.ToUpper(d.FAT[:4] + "-" + d.FAT[4:])
}

// run adds a step that needs the one before it.
func (r *recipe) run(id, purpose string, argv ...string) *Step {
	s := Step{ID: id, Purpose: purpose, Argv: argv}
	if n := len(r.Steps); n > 0 {
		s.Needs = []string{r.Steps[n-1].ID}
	}
	r.Steps = append(r.Steps, s)
	return &r.Steps[len(r.Steps)-1]
}

// in adds a step that runs in the new system.
func (r *recipe) in(id, purpose string, argv ...string) *Step {
	return r.run(id, purpose, append([]string{"chroot", target}, argv...)...)
}

// write adds a step that writes a file.
func (r *recipe) write(id, purpose, mode, path string, lines ...string) *Step {
	text := strings.Join(lines, "\n") + "\n"
	s := r.run(id, purpose, "install", "-D", "-m", mode, "/dev/stdin", path)
	s.Stdin, s.Redo = &Input{Text: text}, true
	return s.check("sha256sum", path).expect(hexsum.Of(text)).replaces()
}

// downloads is the folder of the rescue system for the packages, or "".
func (r *recipe) downloads() string {
	if r.spec.Downloads == "none" {
		return ""
	}
	system, _, _ := strings.Cut(r.spec.Recipe, "-")
	return cmp.Or(r.spec.Downloads, spec.DownloadDir) + "/" + system
}

// clearDownloads begins with an empty folder: the packages of another plan, and old ones, do not
// answer the checks of this one. It is done once, so that resume keeps what is there.
func (r *recipe) clearDownloads() {
	r.run("download-clear", "remove what another installation downloaded", "rm", "-rf", "--one-file-system",
		r.downloads())
}

// ofDownload makes the steps from one on those of the download, which ends when the new system has
// the packages.
func (r *recipe) ofDownload(first int) {
	for i := range r.Steps[first:] {
		r.Steps[first+i].Local, r.Steps[first+i].Until = true, "cache"
	}
}

// link adds a step that makes a symbolic link in the new system.
func (r *recipe) link(id, purpose, to, from string) {
	r.in(id, purpose, "ln", "-sfn", to, from).check("readlink", target+from).expect(to).replaces()
}

// set adds a step that sets a property of a dataset, or of a pool.
func (r *recipe) set(program, id, purpose, property, value, of string) {
	r.run(id, purpose, program, "set", property+"="+value, of).
		check(program, "get", "-H", "-o", "value", property, of).expect(value).replaces()
}

// check adds a check; expect, replaces and empty complete the last one.
func (s *Step) check(argv ...string) *Step {
	s.Checks = append(s.Checks, Check{Argv: argv})
	return s
}

func (s *Step) last() *Check { return &s.Checks[len(s.Checks)-1] }

func (s *Step) expect(all ...string) *Step {
	s.last().Expect = all
	return s
}

// nothing makes the last check expect no output.
func (s *Step) nothing() *Step {
	s.last().Empty = true
	return s
}

func (s *Step) replaces() *Step {
	s.last().Replaces = true
	return s
}

func (s *Step) given(secret string) *Step {
	s.last().Stdin = &Input{Secret: secret}
	return s
}

func (s *Step) undo(argv ...string) *Step {
	s.Undo = argv
	return s
}

func (s *Step) destroys(what string) *Step {
	s.Destroys = "everything on " + what
	s.Redo = true
	return s
}

func (s *Step) secret(name string) *Step {
	s.Stdin = &Input{Secret: name}
	return s
}

// assert adds a step that only looks, and stops if it does not see what it must.
func (r *recipe) assert(id, purpose string, argv ...string) *Step {
	return r.run(id, purpose, argv...).check(argv...)
}

// keyless reports whether the system starts from images that anybody can read, which must
// not hold a key.
func (r *recipe) keyless() bool { return !r.menu() || r.spec.Plain() }

// menu reports whether ZFSBootMenu starts the system.
func (r *recipe) menu() bool { return !r.uki && !r.grub }

// capARC leaves pages to hibernate: without a limit, the cache of ZFS fills half of the RAM
// or more.
func (r *recipe) capARC() {
	if r.spec.Hibernate {
		r.write("arc", "leave memory to hibernate", "0644", target+"/etc/modprobe.d/zfs.conf",
			fmt.Sprintf("options zfs zfs_arc_max=%d", r.target.RAM/4))
	}
}

// fstab mounts the ESPs and uses the swap. A disk of a mirror may be missing.
func (r *recipe) fstab() {
	var lines []string
	options := "umask=0077,nofail"
	if r.grub { // /boot is a dataset, which would hide an ESP that is mounted before it
		options += ",x-systemd.requires=zfs-mount.service"
	}
	for _, d := range r.Drives() {
		lines = append(lines, "UUID="+d.fatSerial()+" "+d.esp()+" vfat "+options+" 0 0")
	}
	options = "defaults"
	if r.Second != nil {
		options = "nofail"
	}
	for _, d := range r.Drives() {
		if r.swapGiB > 0 {
			lines = append(lines, "/dev/mapper/"+d.mapped()+" none swap "+options+" 0 0")
		}
	}
	r.write("fstab", "mount the ESP and use the swap", "0644", target+"/etc/fstab", lines...)
}

// initramfsItems are the modules of dracut and the files that an initramfs needs.
func (r *recipe) initramfsItems() (modules string, items []string) {
	modules = "zfs"
	if !r.keyless() {
		items = []string{poolKey}
	}
	if r.swapGiB > 0 {
		modules = "zfs crypt resume"
		if !r.keyless() {
			items = append(items, swapKey)
		}
		items = append(items, "/etc/crypttab")
	}
	if r.spec.Recipe == "debian-zfs" { // not every version of ZFS copies the drop-ins of its units
		items = append(items, afterResume("scan"), afterResume("cache"))
	}
	return modules, items
}

// imageHas sees that an initramfs has what starts and resumes the system. dracut only warns
// where it does not find a module or a file.
func (r *recipe) imageHas(name string) {
	list := []string{"chroot", target, "find", "/boot", "-name", name, "-exec", "lsinitrd", "{}", ";"}
	s := r.run("image-has", "see that the image has the module of ZFS, the hostid and the files of its configuration",
		list...)
	modules, items := r.initramfsItems()
	for _, want := range append([]string{"/zfs.ko", "/etc/hostid"}, items...) {
		s.check(list...).expect(want[1:])
	}
	if r.swapGiB > 0 {
		list = slices.Insert(slices.Clone(list), 8, "--mod")
		s = r.run("image-modules", "see that it has what opens the swap and resumes", list...)
		for _, want := range strings.Fields(modules) {
			s.check(list...).expect(want)
		}
	}
}

// commandLine tells ZFSBootMenu how to start.
func (r *recipe) commandLine(bootEnv string) {
	const line = "org.zfsbootmenu:commandline"
	own := "%{parent}" + r.resumeArgs()
	r.set("zfs", "cmdline-parent", "tell ZFSBootMenu how to start", line, "quiet", pool+"/ROOT")
	r.set("zfs", "cmdline", "tell ZFSBootMenu how to start", line, own, bootEnv)
	if !r.spec.Plain() {
		r.set("zfs", "keysource", "tell ZFSBootMenu where the key is", "org.zfsbootmenu:keysource", bootEnv,
			pool)
	}
	if r.spec.Hibernate {
		r.set("zpool", "readonly", "keep ZFSBootMenu from writing to a pool that a hibernated system holds",
			"org.zfsbootmenu:readonly", "on", pool)
	}
}

// resumeArgs are the arguments of the kernel that open the swap and resume from it, and
// those of the specification.
func (r *recipe) resumeArgs() (args string) {
	if r.swapGiB > 0 {
		args = " rd.luks.uuid=" + r.IDs.LUKS
	}
	if r.spec.Hibernate {
		args += " resume=/dev/mapper/" + r.Drives()[0].mapped()
	}
	for _, a := range r.spec.KernelArgs {
		args += " " + a
	}
	return args
}

// esp formats and mounts the EFI system partitions.
func (r *recipe) esp() {
	for _, d := range r.Drives() {
		n, dev, to := d.suffix, d.part(partESP), target+d.esp()
		argv := []string{"mkfs.vfat", "-F32", "-i", d.FAT, dev}
		if d.Logical == 4096 {
			argv = slices.Insert(argv, 2, "-s", "1")
		}
		r.run("esp"+n, "format the ESP", argv...).destroys(dev).
			check("blkid", "-p", "-s", "UUID", "-o", "value", dev).expect(d.fatSerial())
		r.run("esp-folder"+n, "make its mount point", "mkdir", "-p", to).check("test", "-d", to)
		s := r.run("esp-mount"+n, "mount the ESP", "mount", "-o", "umask=0077", dev, to).
			check("findmnt", "-n", "-o", "TARGET", to).expect(to).undo("umount", to)
		s.ReadOnly = []string{"mount", "-o", "ro", dev, to}
		s.Flush = []string{"sync", "-f", to}
	}
}

// bootMenu puts ZFSBootMenu on the ESP and makes its entries.
func (r *recipe) bootMenu() {
	const file = `\EFI\ZBM\VMLINUZ.EFI`
	b := r.spec.Bootloader
	for _, f := range [][2]string{{"loader", "ZBM/VMLINUZ.EFI"}, {"loader-backup", "ZBM/VMLINUZ-BACKUP.EFI"},
		{"loader-fallback", "BOOT/BOOTX64.EFI"}} {
		file := target + "/boot/efi/EFI/" + f[1]
		s := r.run(f[0], "copy the verified image", "install", "-D", b.File, file).
			check("sha256sum", file).expect(b.SHA256).replaces()
		s.Redo = true
	}
	if len(b.SSHKeys) > 0 {
		r.menuSSH()
	}
	r.syncESPs()
	// The last one that is added is the first one that the firmware tries.
	r.secondEntry("ZFSBootMenu", file)
	r.entry("entry-backup", "ZFSBootMenu (Backup)", `\EFI\ZBM\VMLINUZ-BACKUP.EFI`, r.Drives()[0])
	r.entry("entry", "ZFSBootMenu", file, r.Drives()[0])
	if len(b.SSHKeys) > 0 {
		r.entry("entry-ssh", "ZFSBootMenu (SSH)", `\EFI\ZBM-SSH\vmlinuz.EFI`, r.Drives()[0])
	}
}

// secondEntry adds an entry for the other disk of a mirror.
func (r *recipe) secondEntry(label, file string) {
	for _, d := range r.Drives()[1:] {
		r.entry("entry"+d.suffix, label+" (other disk)", file, d)
	}
}

// entries reports whether the firmware gets entries. Without them, it starts
// EFI/BOOT/BOOTX64.EFI.
func (r *recipe) entries() bool { return r.target.EFIVars && r.spec.Firmware != "fallback" }

// entry adds an entry to the firmware.
func (r *recipe) entry(id, label, file string, d Drive) {
	if r.entries() {
		r.run(id, "add the entry to the firmware", "efibootmgr", "-c", "-d", d.ByID, "-p", partESP, "-L", label, "-l",
			file).check("efibootmgr", "-v").expect(d.ESP, file).replaces()
	}
}

//go:embed esp-sync.sh
var espSync string

// keepESPs installs what keeps the ESPs of a mirror in step, where updates and the start of
// the system run it. With one disk missing, it mounts the other ESP where updates write.
func (r *recipe) keepESPs() {
	if r.Second == nil {
		return
	}
	const script, name = "/usr/local/sbin/esp-sync", "esp-sync"
	const start = "bring the ESP of a disk up to date that was missing"
	r.write(name, "copy what changes on one ESP to the other", "0755", target+script, strings.TrimSuffix(espSync, "\n"))
	if r.spec.Recipe == "debian-zfs" {
		r.write("esp-sync-hook", "run it before and after each update", "0644", target+"/etc/apt/apt.conf.d/99esp-sync",
			`DPkg::Pre-Invoke {"`+script+` --mount";};`, `DPkg::Post-Invoke {"`+script+`";};`)
		// The mounts of a missing disk end late, and nothing else waits for them.
		r.write("esp-sync-unit", start, "0644", target+"/etc/systemd/system/"+name+".service", "[Unit]",
			"Description=Keep the EFI system partitions in step",
			"After=local-fs.target boot-efi.mount boot-efi2.mount", "", "[Service]", "Type=oneshot",
			"ExecStart="+script+" --start", "", "[Install]", "WantedBy=multi-user.target")
		r.unit("enable", name, start).expect(name + ".service")
		return
	}
	// runit reads the file into a shell of its own, which must go on.
	r.write("esp-sync-start", start, "0644", target+"/etc/runit/core-services/99-esp-sync.sh", script+" --start || :")
	for _, when := range []string{"install", "remove"} {
		r.link("esp-sync-hook-"+when, "start it after each update of the kernel", script,
			"/etc/kernel.d/post-"+when+"/99-esp-sync")
	}
}

// syncESPs makes the second ESP like the first.
func (r *recipe) syncESPs() {
	if all := r.Drives(); len(all) > 1 {
		r.in("esp-in-step", "make the second ESP like the first", "/usr/local/sbin/esp-sync").
			check("diff", "-rq", "-x", "random-seed", target+all[0].esp(), target+all[1].esp()).replaces().nothing()
	}
}

// verifyLoader verifies what is copied to the ESP before the disk is touched.
func (r *recipe) verifyLoader() {
	b := r.spec.Bootloader
	r.assert("loader-verify", "verify the image of ZFSBootMenu before the disk is touched", "sha256sum", b.File).
		expect(b.SHA256).Local = true
}

// hostID gives the installing system the hostid of the new one, which the label of the pool
// gets. verify needs it too: the pool of a system that ran is not always exported.
func (r *recipe) hostID() {
	s := r.run("hostid", "give the installing system the hostid of the new one", "zgenhostid", "-f", "0x"+r.IDs.HostID).
		check("hostid").expect(r.IDs.HostID).replaces()
	s.Local, s.Reopen = true, true
}

// copyHostID gives the new system its hostid, before an initramfs is built.
func (r *recipe) copyHostID() {
	raw, _ := hex.DecodeString(r.IDs.HostID)
	slices.Reverse(raw) // the file is little endian
	r.run("copy-hostid", "keep the hostid", "install", "-m", "0644", "/etc/hostid", target+"/etc/hostid").
		check("sha256sum", target+"/etc/hostid").expect(hexsum.Of(raw)).replaces()
}

// locales are the locales to build, each with its character set.
func (r *recipe) locales() []string {
	all := []string{r.spec.Locale + " UTF-8"}
	for _, l := range r.spec.Locales {
		all = append(all, spec.LocaleLine(l))
	}
	return all
}

// passwords sets the passwords, and makes the accounts of the specification.
func (r *recipe) passwords() {
	r.in("root-password", "set the password of root", "chpasswd", "-e").secret("root")
	r.authorize("root", "/root", r.spec.SSHKeys)
	for _, u := range r.spec.Users {
		r.in("user-"+u.Name, "create a user", "useradd", "-m", u.Name).
			check("chroot", target, "id", "-un", u.Name).expect(u.Name)
		r.ownHome(u.Name)
		for _, g := range u.Groups {
			if id := "group-" + g; !spec.HasGroup(r.spec.Recipe, g) && r.Step(id) == nil {
				r.in(id, "make the group, if no package has made it", "groupadd", "-f", "-r", g)
			}
		}
		if len(u.Groups) > 0 {
			r.in("groups-"+u.Name, "add the user to groups", "usermod", "-aG", strings.Join(u.Groups, ","), u.Name)
		}
		r.in("password-"+u.Name, "set the user's password", "chpasswd", "-e").secret("user-" + u.Name)
		r.authorize(u.Name, "/home/"+u.Name, u.SSHKeys)
	}
}

// ownHome gives users their folders if datasets are mounted there, or below them: useradd leaves a folder that it
// finds to root, and copies nothing into it.
func (r *recipe) ownHome(user string) {
	home := "/home/" + user
	if !r.keepsApart(home) {
		return
	}
	r.in("home-skeleton-"+user, "fill the folder of the user, which is not new", "cp", "-a", "/etc/skel/.", home)
	r.in("home-owner-"+user, "give it to the user", "chown", "-R", user+":", home).
		check("chroot", target, "stat", "-c", "%U", home).expect(user).replaces()
	r.in("home-mode-"+user, "close the folder", "chmod", "0700", home).
		check("stat", "-c", "%a", target+home).expect("700").replaces()
}

// authorize lets keys log in over SSH.
func (r *recipe) authorize(user, home string, keys []string) {
	if len(keys) == 0 {
		return
	}
	r.write("ssh-keys-"+user, "let the keys of the specification log in", "0600", target+home+"/.ssh/authorized_keys",
		keys...)
	r.in("ssh-owner-"+user, "give them to the user", "chown", "-R", user+":", home+"/.ssh")
	r.in("ssh-mode-"+user, "close the folder", "chmod", "0700", home+"/.ssh").
		check("stat", "-c", "%a", target+home+"/.ssh").expect("700").replaces()
}

// keysPrivate stops if an initramfs, which holds both keys, can be read by others.
func (r *recipe) keysPrivate() {
	r.assert("images-private", "see that only root reads the images that hold the keys", "find", target+"/boot", "-type",
		"f", "-name", "init*", "-perm", "/077").
		nothing()
	const modules = target + "/usr/lib/modules"
	r.assert("module", "see that there is a module of ZFS", "find", modules, "-name", "zfs.ko*").expect("zfs.ko")
	// A kernel has modules.builtin until its package goes, and depmod lists what modprobe finds.
	r.assert("module-each", "see that each kernel has one: a kernel without it cannot mount the root", "find", modules,
		"-mindepth", "2", "-maxdepth", "2", "-name", "modules.builtin", "-not", "-execdir", "grep", "-q", `/zfs\.ko`,
		"modules.dep", ";", "-printf", `%h has no module of ZFS\n`).nothing()
}

// leave releases everything that the steps took, in reverse order.
func (r *recipe) leave() {
	for _, s := range slices.Backward(slices.Clone(r.Steps)) {
		if s.Undo != nil {
			r.run("leave-"+s.ID, "release what "+s.ID+" took", s.Undo...).Releases = s.ID
		}
	}
}

// exported sees that the label of the pool says that it is exported, so that the new system
// imports it without force.
func (r *recipe) exported() {
	for _, d := range r.Drives() {
		r.assert("exported"+d.suffix, "see that the label says so", "zdb", "-l", d.part(partPool)).expect("state: 1")
		if r.grub {
			r.assert("exported-boot"+d.suffix, "see that this label says so too", "zdb", "-l", d.part(partBoot)).
				expect("state: 1")
		}
	}
}
