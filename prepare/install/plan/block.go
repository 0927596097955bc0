package plan

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // of the script
	"encoding/hex"
	"fmt"
	"maps"
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
	// Two ways to start without ZFSBootMenu, from what anybody can read: uki is a unified kernel
	// image on the ESP, grub reads kernel and initramfs from a pool of their own.
	uki, grub bool
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

// disk wipes a disk and writes its partition table.
func (r *recipe) disk(drive Drive) {
	d, n := drive.ByID, drive.suffix
	for _, p := range drive.Parts {
		r.run("wipe-"+strings.TrimPrefix(p, "/dev/"), "remove signatures of a partition that goes", "wipefs", "-a", p).
			destroys(p).check("wipefs", p).replaces().nothing().Once = true
	}
	r.run("wipe-signatures"+n, "remove signatures of file systems", "wipefs", "-a", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	r.run("wipe-table"+n, "remove the partition table", "sgdisk", "--zap-all", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	argv := []string{"sgdisk", "--zap-all", "--clear", "-U", drive.DriveIDs.Disk}
	parts := r.partitions()
	for _, p := range parts {
		argv = append(argv, "-n", p.number+":"+p.room, "-t", p.number+":"+p.kind, "-u",
			p.number+":"+drive.partUUID(p.number))
	}
	r.run(drive.Partition(), "write all partitions at once, with their identities", append(argv, d)...).destroys(d).
		check("blkid", "-p", "-s", "PTUUID", "-o", "value", d).expect(drive.DriveIDs.Disk)
	s := r.run("nodes"+n, "let the kernel read the table, and wait for the nodes", "partx", "-u", d)
	s.Await = true
	for _, p := range parts {
		s.check("blkid", "-p", "-s", "PART_ENTRY_UUID", "-o", "value", drive.part(p.number)).
			expect(drive.partUUID(p.number)).replaces()
	}
	r.clearPool(drive, "pool", partPool, r.poolBytes(drive))
	if r.grub {
		r.clearPool(drive, "boot-pool", partBoot, bootGiB*gib)
	}
}

// partition is a partition: its number, its room and its type as sgdisk reads them.
type partition struct{ number, room, kind string }

// partitions are those of each disk, in order.
func (r *recipe) partitions() []partition {
	all := []partition{{partESP, fmt.Sprintf("1m:+%dm", r.espMiB), "ef00"}}
	if r.swapGiB > 0 {
		all = append(all, partition{partSwap, fmt.Sprintf("0:+%dg", r.swapGiB), "8200"})
	}
	if r.grub {
		all = append(all, partition{partBoot, fmt.Sprintf("0:+%dg", bootGiB), "be00"})
	}
	return append(all, partition{partPool, "0:-10m", "bf00"})
}

// clearPool removes labels of an older pool that begin where the new one begins: each end
// of a device has two of 256 KiB, and wipefs before 2.41 leaves some.
func (r *recipe) clearPool(d Drive, id, number string, size int64) {
	dev := d.part(number)
	r.run(id+"-clear-head"+d.suffix, "remove labels of an older pool", "dd", "if=/dev/zero", "of="+dev, "bs=256k",
		"count=2", "conv=fsync").destroys(dev)
	r.run(id+"-clear-tail"+d.suffix, "and at the end", "dd", "if=/dev/zero", "of="+dev, "bs=256k", "count=2",
		"seek="+strconv.FormatInt(size/(256<<10)-2, 10), "conv=fsync").destroys(dev)
}

// poolBytes is the size of the partition of the pool as sgdisk makes it: the last usable
// sector lies 33 sectors (at 512 bytes) before the end of the disk, and 10 MiB stay free.
func (r *recipe) poolBytes(d Drive) int64 {
	sectors := d.Size / d.Logical
	table := 16384 / d.Logical // 128 entries of 128 bytes
	last := sectors - 2 - table - 10<<20/d.Logical
	before := (1+r.espMiB)<<20 + r.swapGiB*gib
	if r.grub {
		before += bootGiB * gib
	}
	return (last - before/d.Logical + 1) * d.Logical
}

// poolDevices are the nodes of the partitions of a pool.
func (r *recipe) poolDevices(number string) (all []string) {
	for _, d := range r.Drives() {
		all = append(all, d.part(number))
	}
	return all
}

// vdevs are the arguments of zpool create for devices.
func vdevs(devices []string) []string {
	if len(devices) == 1 {
		return devices
	}
	return append([]string{"mirror"}, devices...)
}

// search are the arguments of zpool import that name the devices to read.
func search(devices []string) (argv []string) {
	for _, d := range devices {
		argv = append(argv, "-d", d)
	}
	return argv
}

// copyKey keeps the key of the pool where ZFSBootMenu and the initramfs find it.
func (r *recipe) copyKey() {
	if !r.keyless() {
		r.run("copy-key", "keep the key on the encrypted root", "install", "-D", "-m", "000", poolKey, target+poolKey).
			check("cmp", "-s", poolKey, target+poolKey).replaces()
	}
}

// makePool makes the pool and mounts the boot environment at the target.
func (r *recipe) makePool(bootEnv, compatibility string) {
	if !r.spec.Plain() {
		s := r.run("pool-key", "keep the passphrase where only root reads it", "install", "-D", "-m", "000",
			"/dev/stdin", poolKey).secret("pool").check("cmp", "-s", "-", poolKey).given("pool").replaces()
		s.Redo, s.Local, s.Reopen = true, true, true
	}
	r.mountPoint()
	devices := r.poolDevices(partPool)
	o := r.spec.Pool
	argv := []string{"zpool", "create", "-f", "-o", "ashift=" + strconv.Itoa(o.Ashift), "-O",
		"compression=" + o.Compression, "-O", "acltype=posixacl", "-O", "xattr=sa", "-O", "relatime=on"}
	for _, p := range slices.Sorted(maps.Keys(o.Properties)) {
		argv = append(argv, "-O", p+"="+o.Properties[p])
	}
	what := "create the pool"
	if !r.spec.Plain() {
		what = "create the encrypted pool"
		argv = append(argv, "-O", "encryption="+r.spec.Encryption, "-O", "keylocation=file://"+poolKey, "-O",
			"keyformat=passphrase")
	}
	argv = append(argv, "-o", "autotrim="+o.Autotrim, "-o",
		"compatibility="+cmp.Or(o.Compatibility, compatibility), "-m", "none", "-R", target, pool)
	r.poolOf("pool", what, pool, devices, append(argv, vdevs(devices)...))
	if !r.spec.Plain() {
		r.run("pool-load-key", "load its key", "zfs", "load-key", "-L", "file://"+poolKey, pool).
			check("zfs", "get", "-H", "-o", "value", "keystatus", pool).expect("available").replaces().Reopen = true
	}
	r.assert("pool-ashift", "see that the pool has the sectors that were asked for", "zpool", "get", "-H", "-o", "value",
		"ashift", pool).
		expect(strconv.Itoa(o.Ashift))
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
	for _, d := range r.spec.Datasets {
		r.ownDataset(d)
	}
}

// mountPoint makes the folder of the target a mount that no namespace of another process
// gets copies of. Many services have their own: what appears there is released in them only
// together with everything below it, and until then the pool is busy.
func (r *recipe) mountPoint() {
	r.run("mount-point", "keep what is mounted there out of the namespaces of services", "mount", "--bind",
		"--make-private", "--make-shared", target, target).
		check("findmnt", "-n", "-o", "FSROOT,PROPAGATION", "--mountpoint", target).expect(target, "shared").replaces().
		undo("umount", target)
}

// mountpoints are where datasets are mounted while the base system is installed.
func (r *recipe) mountpoints() []string {
	all := []string{target, target + "/home"}
	if r.grub {
		all = append(all, target+"/boot")
	}
	for _, d := range r.spec.Datasets {
		if mounted(d) {
			all = append(all, target+d.Mountpoint)
		}
	}
	return all
}

// mounted reports whether a dataset of the specification is mounted.
func mounted(d spec.Dataset) bool { return d.Mountpoint != "none" && d.Properties["canmount"] != "off" }

// ownDataset makes and mounts a dataset of the specification.
func (r *recipe) ownDataset(d spec.Dataset) {
	name, id := pool+"/"+d.Name, strings.ReplaceAll(d.Name, "/", "-")
	properties := []string{"mountpoint=" + d.Mountpoint}
	for _, p := range slices.Sorted(maps.Keys(d.Properties)) {
		properties = append(properties, p+"="+d.Properties[p])
	}
	r.dataset("dataset-own-"+id, "keep it out of boot environments", name, properties...)
	if !mounted(d) {
		return
	}
	r.mountSet("mount-own-"+id, "mount it, if it is not", name)
	if d.Mountpoint == "/tmp" || d.Mountpoint == "/var/tmp" {
		r.run("mode-own-"+id, "let everybody write to it", "chmod", "1777", target+d.Mountpoint).
			check("stat", "-c", "%a", target+d.Mountpoint).expect("1777").replaces()
	}
}

// poolOf adds the steps that create a pool and import it.
func (r *recipe) poolOf(id, purpose, name string, devices, create []string) {
	hostID, _ := strconv.ParseUint(r.IDs.HostID, 16, 32)
	s := r.run(id, purpose, create...).destroys(strings.Join(devices, " and "))
	for _, dev := range devices {
		s.check("zdb", "-l", dev).expect("name: '"+name+"'").
			check("zdb", "-l", dev).expect(fmt.Sprintf("hostid: %d", hostID))
	}
	s.Redo = false // a label that is whole is believed
	from := search(devices)
	s = r.run(id+"-import", "import it, if it is not", slices.Concat([]string{"zpool", "import", "-N", "-R", target},
		from, []string{name})...).undo("zpool", "export", name)
	for _, dev := range devices {
		s.check("zpool", "list", "-HPv", "-o", "name", name).expect(dev)
	}
	s.ReadOnly = slices.Concat([]string{"zpool", "import", "-o", "readonly=on", "-N", "-R", target}, from, []string{name})
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

// bind shows the kernel's files to the new system. What is unmounted there leaves the
// namespaces that a service got meanwhile, and stays in the installing system.
func (r *recipe) bind() {
	for _, dir := range []string{"dev", "proc", "sys"} {
		to := target + "/" + dir
		r.run("bind-"+dir, "show the kernel's files to the new system", "mount", "--rbind", "--make-rslave",
			"--make-rshared", "/"+dir, to).
			check("findmnt", "-n", "-o", "TARGET", to).expect(to).undo("umount", "-R", to)
	}
}

// makeSwap makes the swap outside the pool: only there a hibernated system can
// be read before the pool is imported.
func (r *recipe) makeSwap() {
	r.in("boot-mode", "let only root read /boot", "chmod", "0700", "/boot").
		check("stat", "-c", "%a", target+"/boot").expect("700").replaces()
	if !r.keyless() {
		r.swapKey()
	}
	var lines []string
	for _, d := range r.Drives() {
		r.openSwap(d)
		by, options := swapKey, "luks"
		if r.keyless() {
			by = "none" // the passphrase is asked for
		}
		if r.spec.Recipe == "debian-zfs" {
			if d.suffix == "" && r.spec.Release == "trixie" {
				options += ",x-initrd.attach" // read by dracut since 103
			}
			if r.Second != nil {
				options += ",nofail"
			}
		}
		lines = append(lines, d.mapped()+" UUID="+d.LUKS+" "+by+" "+options)
	}
	r.write("crypttab", "open the swap at boot", "0600", target+"/etc/crypttab", lines...)
}

// openSwap makes the swap of a disk, and opens it.
func (r *recipe) openSwap(d Drive) {
	n, dev, key, mapped := d.suffix, d.part(partSwap), target+swapKey, "/dev/mapper/"+d.mapped()
	r.run("luks"+n, "encrypt the swap", "cryptsetup", "luksFormat", "--batch-mode", "--type", "luks1",
		"--uuid", d.LUKS, "--key-file", "-", dev).destroys(dev).secret("swap").
		check("cryptsetup", "luksUUID", dev).expect(d.LUKS)
	from, open := key, "open the swap with the key"
	if r.keyless() {
		from, open = "-", "open the swap"
	} else {
		r.run("swap-key-add"+n, "let the key open the swap", "cryptsetup", "luksAddKey", "--key-file", "-", dev, key).
			secret("swap").check("cryptsetup", "open", "--test-passphrase", "--key-file", key, dev)
	}
	s := r.run("swap-open"+n, open, "cryptsetup", "open", "--key-file", from, dev, d.mapped()).
		check("cryptsetup", "status", d.mapped()).expect("is active").replaces().undo("cryptsetup", "close", d.mapped())
	if r.keyless() {
		s.secret("swap")
	}
	s.ReadOnly = slices.Insert(slices.Clone(s.Argv), 2, "--readonly")
	r.run("mkswap"+n, "format the swap", "mkswap", mapped).destroys(mapped).
		check("blkid", "-p", "-s", "TYPE", "-o", "value", mapped).expect("swap")
}

// swapKey makes a random key on the encrypted root.
func (r *recipe) swapKey() {
	key := target + swapKey
	r.run("swap-key", "make a random key on the encrypted root", "dd", "if=/dev/urandom", "of="+key,
		"bs=64", "count=1", "conv=fsync").check("stat", "-c", "%s bytes", key).expect("64 bytes")
	r.Step("swap-key").Redo = true
	r.run("swap-key-mode", "let only root read it", "chmod", "000", key).
		check("stat", "-c", "mode %a", key).expect("mode 0").replaces()
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
	for _, d := range r.Drives() {
		lines = append(lines, "UUID="+d.fatSerial()+" "+d.esp()+" vfat umask=0077,nofail 0 0")
	}
	options := "defaults"
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
func (r *recipe) initramfsItems() (modules, items string) {
	modules = "zfs"
	if r.swapGiB > 0 {
		modules = "zfs crypt resume"
	}
	switch {
	case r.keyless() && r.swapGiB > 0:
		return modules, "/etc/crypttab"
	case r.keyless():
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

// entry adds an entry to the firmware. Without EFI variables, it starts
// EFI/BOOT/BOOTX64.EFI.
func (r *recipe) entry(id, label, file string, d Drive) {
	if r.target.EFIVars {
		r.run(id, "add the entry to the firmware", "efibootmgr", "-c", "-d", d.ByID, "-p", partESP, "-L", label, "-l",
			file).check("efibootmgr", "-v").expect(d.ESP, file).replaces()
	}
}

//go:embed esp-sync.sh
var espSync string

// keepESPs installs what keeps the ESPs of a mirror in step, where updates start it.
func (r *recipe) keepESPs() {
	if r.Second == nil {
		return
	}
	const script = "/usr/local/sbin/esp-sync"
	r.write("esp-sync", "copy what changes on one ESP to the other", "0755", target+script,
		strings.TrimSuffix(espSync, "\n"))
	if r.spec.Recipe == "debian-zfs" {
		r.write("esp-sync-hook", "start it after each update", "0644", target+"/etc/apt/apt.conf.d/99esp-sync",
			`DPkg::Post-Invoke {"`+script+`";};`)
		return
	}
	for _, when := range []string{"install", "remove"} {
		r.link("esp-sync-hook-"+when, "start it after each update of the kernel", script,
			"/etc/kernel.d/post-"+when+"/99-esp-sync")
	}
}

// syncESPs makes the second ESP like the first.
func (r *recipe) syncESPs() {
	if all := r.Drives(); len(all) > 1 {
		r.in("esp-in-step", "make the second ESP like the first", "/usr/local/sbin/esp-sync").
			check("diff", "-rq", target+all[0].esp(), target+all[1].esp()).replaces().nothing()
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
	for _, d := range r.Drives() {
		r.assert("exported"+d.suffix, "see that the label says so", "zdb", "-l", d.part(partPool)).expect("state: 1")
		if r.grub {
			r.assert("exported-boot"+d.suffix, "see that this label says so too", "zdb", "-l", d.part(partBoot)).
				expect("state: 1")
		}
	}
}
