package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/prepare/install/spec"
)

// recipe adds steps to a plan. The methods in this file are the blocks that recipes share.
type recipe struct {
	*Plan
	spec    *spec.Spec
	target  Target
	swapGiB int64 // 0: no swap
	espMiB  int64
	// uki: a unified kernel image on the ESP starts, which anybody can read: it holds no keys.
	uki bool
}

const (
	target  = "/mnt"
	pool    = "zroot"
	poolKey = "/etc/zfs/zroot.key"
	swapKey = "/boot/volume.key"
	mapped  = "/dev/mapper/cryptswap"
)

// part is the node of a partition: by its identity, or below a loop device, which udev
// gives no such name, by its number.
func (r *recipe) part(uuid string) string {
	if !strings.HasPrefix(r.Disk.ByID, "/dev/loop") {
		return "/dev/disk/by-partuuid/" + uuid
	}
	n := map[string]string{r.IDs.ESP: "1", r.IDs.Swap: "2", r.IDs.Pool: "3"}[uuid]
	return r.Disk.ByID + "p" + n
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
	sum := sha256.Sum256([]byte(text))
	s := r.run(id, purpose, "install", "-D", "-m", mode, "/dev/stdin", path)
	s.Stdin, s.Redo = &Input{Text: text}, true
	return s.check("sha256sum", path).expect(hex.EncodeToString(sum[:])).replaces()
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

// disk wipes the disk and writes the partition table.
func (r *recipe) disk() {
	d := r.Disk.ByID
	for _, p := range r.Disk.Parts {
		r.run("wipe-"+strings.TrimPrefix(p, "/dev/"), "remove signatures of a partition that goes", "wipefs", "-a", p).
			destroys(p).check("wipefs", p).replaces().nothing().Once = true
	}
	r.run("wipe-signatures", "remove signatures of file systems", "wipefs", "-a", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	r.run("wipe-table", "remove the partition table", "sgdisk", "--zap-all", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	argv := []string{
		"sgdisk",
		"--zap-all",
		"--clear",
		"-U",
		r.IDs.Disk,
		"-n",
		fmt.Sprintf("1:1m:+%dm", r.espMiB),
		"-t",
		"1:ef00",
		"-u",
		"1:" + r.IDs.ESP,
	}
	nodes := []string{r.IDs.ESP, r.IDs.Pool}
	if r.swapGiB > 0 {
		argv = append(argv, "-n", fmt.Sprintf("2:0:+%dg", r.swapGiB), "-t", "2:8200", "-u", "2:"+r.IDs.Swap)
		nodes = append(nodes, r.IDs.Swap)
	}
	argv = append(argv, "-n", "3:0:-10m", "-t", "3:bf00", "-u", "3:"+r.IDs.Pool, d)
	r.run("partition", "write all partitions at once, with their identities", argv...).destroys(d).
		check("blkid", "-p", "-s", "PTUUID", "-o", "value", d).expect(r.IDs.Disk)
	s := r.run("nodes", "let the kernel read the table, and wait for the nodes", "partx", "-u", d)
	s.Await = true
	for _, n := range nodes {
		s.check("blkid", "-p", "-s", "PART_ENTRY_UUID", "-o", "value", r.part(n)).expect(n).replaces()
	}
	r.clearPool()
}

// clearPool removes labels of an older pool that begin where the new one begins: each end
// of a device has two of 256 KiB, and wipefs before 2.41 leaves some.
func (r *recipe) clearPool() {
	dev := r.part(r.IDs.Pool)
	r.run("pool-clear-head", "remove labels of an older pool", "dd", "if=/dev/zero", "of="+dev, "bs=256k", "count=2",
		"conv=fsync").destroys(dev)
	r.run("pool-clear-tail", "and at the end", "dd", "if=/dev/zero", "of="+dev, "bs=256k", "count=2",
		"seek="+strconv.FormatInt(r.poolBytes()/(256<<10)-2, 10), "conv=fsync").destroys(dev)
}

// poolBytes is the size of the partition of the pool as sgdisk makes it: the last usable
// sector lies 33 sectors (at 512 bytes) before the end of the disk, and 10 MiB stay free.
func (r *recipe) poolBytes() int64 {
	sectors := r.Disk.Size / r.Disk.Logical
	table := 16384 / r.Disk.Logical // 128 entries of 128 bytes
	last := sectors - 2 - table - 10<<20/r.Disk.Logical
	first := ((1+r.espMiB)<<20 + r.swapGiB*gib) / r.Disk.Logical
	return (last - first + 1) * r.Disk.Logical
}

// makePool makes the encrypted pool and mounts the boot environment at the target.
func (r *recipe) makePool(bootEnv, compatibility string) {
	s := r.run("pool-key", "keep the passphrase where only root reads it", "install", "-D", "-m", "000",
		"/dev/stdin", poolKey).secret("pool").check("cmp", "-s", "-", poolKey).given("pool").replaces()
	s.Redo, s.Local, s.Reopen = true, true, true
	dev := r.part(r.IDs.Pool)
	hostID, _ := strconv.ParseUint(r.IDs.HostID, 16, 32)
	s = r.run("pool", "create the encrypted pool", "zpool", "create", "-f", "-o", "ashift=12", "-O",
		"compression=lz4", "-O", "acltype=posixacl", "-O", "xattr=sa", "-O", "relatime=on", "-O",
		"encryption=aes-256-gcm", "-O", "keylocation=file://"+poolKey, "-O", "keyformat=passphrase", "-o", "autotrim=on",
		"-o", "compatibility="+compatibility, "-m", "none", "-R", target, pool, dev).destroys(dev).
		check("zdb", "-l", dev).expect("name: '"+pool+"'").
		check("zdb", "-l", dev).expect(fmt.Sprintf("hostid: %d", hostID))
	s.Redo = false // a label that is whole is believed
	s = r.run("pool-import", "import it, if it is not", "zpool", "import", "-N", "-R", target, "-d", dev, pool).
		check("zpool", "list", "-HPv", "-o", "name", pool).expect(dev).undo("zpool", "export", pool)
	s.ReadOnly = []string{"zpool", "import", "-o", "readonly=on", "-N", "-R", target, "-d", dev, pool}
	r.run("pool-load-key", "load its key", "zfs", "load-key", "-L", "file://"+poolKey, pool).
		check("zfs", "get", "-H", "-o", "value", "keystatus", pool).expect("available").replaces().Reopen = true
	r.assert("pool-ashift", "see that the pool has the sectors that were asked for", "zpool", "get", "-H", "-o", "value",
		"ashift", pool).
		expect("12")
	r.dataset("dataset-root", "hold the boot environments", pool+"/ROOT", "mountpoint=none")
	r.dataset("dataset-system", "create the first boot environment", bootEnv, "mountpoint=/", "canmount=noauto")
	r.set("zpool", "bootfs", "make it the default", "bootfs", bootEnv, pool)
	r.mountSet("mount-root", "mount the boot environment", bootEnv)
	r.dataset(
		"dataset-home",
		"keep homes out of boot environments; this mounts it too",
		pool+"/home",
		"mountpoint=/home",
	)
	r.mountSet("mount-home", "mount it, if it is not", pool+"/home")
}

func (r *recipe) dataset(id, purpose, name string, properties ...string) {
	argv := []string{"zfs", "create"}
	for _, p := range properties {
		argv = append(argv, "-o", p)
	}
	s := r.run(id, purpose, append(argv, name)...)
	value := strings.TrimPrefix(properties[0], "mountpoint=")
	// Under -R, ZFS shows a mount point with the folder before it.
	if value != "none" {
		value = strings.TrimSuffix(target+value, "/")
	}
	s.check("zfs", "get", "-H", "-o", "value", "mountpoint", name).expect(value)
}

func (r *recipe) mountSet(id, purpose, name string) {
	r.run(id, purpose, "zfs", "mount", name).check("zfs", "get", "-H", "-o", "value", "mounted", name).expect("yes").
		replaces().undo("zfs", "unmount", name)
}

// bind shows the kernel's files to the new system.
func (r *recipe) bind() {
	for _, dir := range []string{"dev", "proc", "sys"} {
		to := target + "/" + dir
		r.run("bind-"+dir, "show the kernel's files to the new system", "mount", "--rbind", "--make-rslave", "/"+dir, to).
			check("findmnt", "-n", "-o", "TARGET", to).expect(to).undo("umount", "-R", to)
	}
}

// makeSwap makes the swap outside the pool: only there a hibernated system can
// be read before the pool is imported.
func (r *recipe) makeSwap() {
	dev, key := r.part(r.IDs.Swap), target+swapKey
	r.run("luks", "encrypt the swap", "cryptsetup", "luksFormat", "--batch-mode", "--type", "luks1",
		"--uuid", r.IDs.LUKS, "--key-file", "-", dev).destroys(dev).secret("swap").
		check("cryptsetup", "luksUUID", dev).expect(r.IDs.LUKS)
	r.in("boot-mode", "let only root read /boot", "chmod", "0700", "/boot").
		check("stat", "-c", "%a", target+"/boot").expect("700").replaces()
	from, open := key, "open the swap with the key"
	if r.uki {
		from, open = "-", "open the swap"
	} else {
		r.swapKey(dev, key)
	}
	s := r.run("swap-open", open, "cryptsetup", "open", "--key-file", from, dev, "cryptswap").
		check("cryptsetup", "status", "cryptswap").expect("is active").replaces().undo("cryptsetup", "close", "cryptswap")
	if r.uki {
		s.secret("swap")
	}
	s.ReadOnly = slices.Insert(slices.Clone(s.Argv), 2, "--readonly")
	r.run("mkswap", "format the swap", "mkswap", mapped).destroys(mapped).
		check("blkid", "-p", "-s", "TYPE", "-o", "value", mapped).expect("swap")
	by, options := swapKey, "luks"
	if r.uki {
		by = "none" // the passphrase is asked for
	}
	if r.spec.Recipe == "debian-zfs" && r.spec.Release == "trixie" {
		options += ",x-initrd.attach" // read by dracut since 103
	}
	r.write("crypttab", "open the swap at boot", "0600", target+"/etc/crypttab",
		"cryptswap UUID="+r.IDs.LUKS+" "+by+" "+options)
}

// swapKey makes a random key on the encrypted root, and lets it open the swap.
func (r *recipe) swapKey(dev, key string) {
	r.run("swap-key", "make a random key on the encrypted root", "dd", "if=/dev/urandom", "of="+key,
		"bs=64", "count=1", "conv=fsync").check("stat", "-c", "%s bytes", key).expect("64 bytes")
	r.Step("swap-key").Redo = true
	r.run("swap-key-mode", "let only root read it", "chmod", "000", key).
		check("stat", "-c", "mode %a", key).expect("mode 0").replaces()
	r.run("swap-key-add", "let the key open the swap", "cryptsetup", "luksAddKey", "--key-file", "-", dev, key).
		secret("swap").check("cryptsetup", "open", "--test-passphrase", "--key-file", key, dev)
}

// capARC leaves pages to hibernate: without a limit, the cache of ZFS fills half of the RAM
// or more.
func (r *recipe) capARC() {
	if r.spec.Hibernate {
		r.write("arc", "leave memory to hibernate", "0644", target+"/etc/modprobe.d/zfs.conf",
			fmt.Sprintf("options zfs zfs_arc_max=%d", r.target.RAM/4))
	}
}

// fstab mounts the ESP and uses the swap.
func (r *recipe) fstab() {
	lines := []string{"UUID=" + r.fatSerial() + " /boot/efi vfat umask=0077,nofail 0 0"}
	if r.swapGiB > 0 {
		lines = append(lines, mapped+" none swap defaults 0 0")
	}
	r.write("fstab", "mount the ESP and use the swap", "0644", target+"/etc/fstab", lines...)
}

func (r *recipe) fatSerial() string {
	return strings.ToUpper(r.IDs.FAT[:4] + "-" + r.IDs.FAT[4:])
}

// initramfsItems are the modules of dracut and the files that an initramfs needs.
func (r *recipe) initramfsItems() (modules, items string) {
	modules = "zfs"
	if r.swapGiB > 0 {
		modules = "zfs crypt resume"
	}
	switch {
	case r.uki && r.swapGiB > 0:
		return modules, "/etc/crypttab"
	case r.uki:
		return modules, ""
	case r.swapGiB == 0:
		return modules, poolKey
	}
	return modules, poolKey + " " + swapKey + " /etc/crypttab"
}

// commandLine tells ZFSBootMenu how to start.
func (r *recipe) commandLine(bootEnv string) {
	const line = "org.zfsbootmenu:commandline"
	own := "%{parent}" + r.resumeArgs()
	r.set("zfs", "cmdline-parent", "tell ZFSBootMenu how to start", line, "quiet", pool+"/ROOT")
	r.set("zfs", "cmdline", "tell ZFSBootMenu how to start", line, own, bootEnv)
	r.set("zfs", "keysource", "tell ZFSBootMenu where the key is", "org.zfsbootmenu:keysource", bootEnv, pool)
	if r.spec.Hibernate {
		r.set("zpool", "readonly", "keep ZFSBootMenu from writing to a pool that a hibernated system holds",
			"org.zfsbootmenu:readonly", "on", pool)
	}
}

// resumeArgs are the arguments of the kernel that open the swap and resume from it.
func (r *recipe) resumeArgs() (args string) {
	if r.swapGiB > 0 {
		args = " rd.luks.uuid=" + r.IDs.LUKS
	}
	if r.spec.Hibernate {
		args += " resume=" + mapped
	}
	return args
}

// esp formats and mounts the EFI system partition.
func (r *recipe) esp() {
	dev, to := r.part(r.IDs.ESP), target+"/boot/efi"
	r.run("esp", "format the ESP", "mkfs.vfat", "-F32", "-i", r.IDs.FAT, dev).destroys(dev).
		check("blkid", "-p", "-s", "UUID", "-o", "value", dev).expect(r.fatSerial())
	if r.Disk.Logical == 4096 {
		r.Step("esp").Argv = []string{"mkfs.vfat", "-F32", "-s", "1", "-i", r.IDs.FAT, dev}
	}
	r.run("esp-folder", "make its mount point", "mkdir", "-p", to).check("test", "-d", to)
	s := r.run("esp-mount", "mount the ESP", "mount", "-o", "umask=0077", dev, to).
		check("findmnt", "-n", "-o", "TARGET", to).expect(to).undo("umount", to)
	s.ReadOnly = []string{"mount", "-o", "ro", dev, to}
}

// bootMenu puts ZFSBootMenu on the ESP and makes its entries.
func (r *recipe) bootMenu() {
	b := r.spec.Bootloader
	for _, f := range [][2]string{{"loader", "ZBM/VMLINUZ.EFI"}, {"loader-backup", "ZBM/VMLINUZ-BACKUP.EFI"},
		{"loader-fallback", "BOOT/BOOTX64.EFI"}} {
		file := target + "/boot/efi/EFI/" + f[1]
		s := r.run(f[0], "copy the verified image", "install", "-D", b.File, file).
			check("sha256sum", file).expect(b.SHA256).replaces()
		s.Redo = true
	}
	r.entry("entry-backup", "ZFSBootMenu (Backup)", `\EFI\ZBM\VMLINUZ-BACKUP.EFI`)
	r.entry("entry", "ZFSBootMenu", `\EFI\ZBM\VMLINUZ.EFI`)
}

// entry adds an entry to the firmware. Without EFI variables, it starts
// EFI/BOOT/BOOTX64.EFI.
func (r *recipe) entry(id, label, file string) {
	if r.target.EFIVars {
		r.run(id, "add the entry to the firmware", "efibootmgr", "-c", "-d", r.Disk.ByID, "-p", "1", "-L", label, "-l",
			file).check("efibootmgr", "-v").expect(r.IDs.ESP, file).replaces()
	}
}

// verifyLoader verifies what is copied to the ESP before the disk is touched.
func (r *recipe) verifyLoader() {
	b := r.spec.Bootloader
	r.assert("loader-verify", "verify the image of ZFSBootMenu before the disk is touched", "sha256sum", b.File).
		expect(b.SHA256).Local = true
}

// hostID gives the installing system the hostid of the new one, which the label of the pool
// gets.
func (r *recipe) hostID() {
	r.run("hostid", "give the installing system the hostid of the new one", "zgenhostid", "-f", "0x"+r.IDs.HostID).
		check("hostid").expect(r.IDs.HostID).replaces().Local = true
}

// copyHostID gives the new system its hostid, before an initramfs is built.
func (r *recipe) copyHostID() {
	raw, _ := hex.DecodeString(r.IDs.HostID)
	slices.Reverse(raw) // the file is little endian
	sum := sha256.Sum256(raw)
	r.run("copy-hostid", "keep the hostid", "install", "-m", "0644", "/etc/hostid", target+"/etc/hostid").
		check("sha256sum", target+"/etc/hostid").expect(hex.EncodeToString(sum[:])).replaces()
}

// passwords sets the passwords, and makes the accounts of the specification.
func (r *recipe) passwords() {
	r.in("root-password", "set the password of root", "chpasswd", "-e").secret("root")
	r.authorize("root", "/root", r.spec.SSHKeys)
	for _, u := range r.spec.Users {
		r.in("user-"+u.Name, "create a user", "useradd", "-m", u.Name).
			check("chroot", target, "id", "-un", u.Name).expect(u.Name)
		if len(u.Groups) > 0 {
			r.in("groups-"+u.Name, "add the user to groups", "usermod", "-aG", strings.Join(u.Groups, ","), u.Name)
		}
		r.in("password-"+u.Name, "set the user's password", "chpasswd", "-e").secret("user-" + u.Name)
		r.authorize(u.Name, "/home/"+u.Name, u.SSHKeys)
	}
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
	r.assert("module", "see that there is a module of ZFS for the kernel", "find", target+"/usr/lib/modules", "-name",
		"zfs.ko*").expect("zfs.ko")
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
	dev := r.part(r.IDs.Pool)
	r.assert("exported", "see that the label says so", "zdb", "-l", dev).expect("state: 1")
}
