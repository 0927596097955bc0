package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/prepare/install/spec"
)

// disk wipes a disk and writes its partition table.
func (r *recipe) disk(drive Drive) {
	d, n := drive.ByID, drive.suffix
	labels := slices.Contains(drive.Signatures, "zfs_member")
	for _, p := range drive.Parts {
		name := strings.TrimPrefix(p, "/dev/")
		r.run("wipe-"+name, "remove signatures of a partition that goes", "wipefs", "-a", p).
			destroys(p).check("wipefs", p).replaces().nothing().Once = true
		if labels && drive.partBytes[p] >= minVdev {
			r.clearLabels("wipe-labels-"+name, p, drive.partBytes[p])
		}
	}
	r.run("wipe-signatures"+n, "remove signatures of file systems", "wipefs", "-a", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	r.run("wipe-table"+n, "remove the partition table", "sgdisk", "--zap-all", d).destroys(d).
		check("wipefs", d).replaces().nothing().Once = true
	if labels { // after sgdisk, which complains about a table that lost one of its copies
		r.clearLabels("wipe-labels"+n, d, drive.Size)
	}
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

// espMiB is the size of the ESP.
func espMiB(s *spec.Spec) int64 {
	def := 512
	if usesUKI(s) {
		def = 1024 // two or three images must fit during an update
	}
	return int64(cmp.Or(s.ESPMiB, def))
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

// clearPool removes labels of an older pool that begin where the new one begins.
func (r *recipe) clearPool(d Drive, id, number string, size int64) {
	dev := d.part(number)
	r.zeroLabels(id+"-clear-head"+d.suffix, "remove labels of an older pool", dev, 0)
	r.zeroLabels(id+"-clear-tail"+d.suffix, "and at the end", dev, tailLabels(size))
}

// Each end of a device of a pool has two labels. zpool accepts no smaller device than minVdev.
const (
	labelBytes = 256 << 10
	minVdev    = 64 << 20
)

// tailLabels is where the labels at the end of a device begin, in labels.
func tailLabels(size int64) int64 { return size/labelBytes - 2 }

// clearLabels removes the labels of an older pool on a device of the old disk. zpool import would show that pool, and
// wipefs before 2.41 leaves some labels.
func (r *recipe) clearLabels(id, dev string, size int64) {
	const both = "524288" // bytes
	at := tailLabels(size)
	r.zeroLabels(id+"-head", "remove labels of an older pool", dev, 0).
		check("cmp", "-s", "-n", both, dev, "/dev/zero").Once = true
	r.zeroLabels(id+"-tail", "and at the end", dev, at).
		check("cmp", "-s", "-i", strconv.FormatInt(at*labelBytes, 10)+":0", "-n", both, dev, "/dev/zero").Once = true
}

// zeroLabels adds a step that overwrites two labels, which begin after as many others.
func (r *recipe) zeroLabels(id, purpose, dev string, after int64) *Step {
	argv := []string{"dd", "if=/dev/zero", "of=" + dev, "bs=256k", "count=2"}
	if after > 0 {
		argv = append(argv, "seek="+strconv.FormatInt(after, 10))
	}
	return r.run(id, purpose, append(argv, "conv=fsync")...).destroys(dev)
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
func (r *recipe) makePool(bootEnv string) {
	if !r.spec.Plain() {
		s := r.run("pool-key", "keep the passphrase where only root reads it", "install", "-D", "-m", "000",
			"/dev/stdin", poolKey).secret("pool").check("cmp", "-s", "-", poolKey).given("pool").replaces()
		s.Redo, s.Local, s.Reopen = true, true, true
	}
	r.mountPoint()
	devices := r.poolDevices(partPool)
	o := r.spec.Pool
	argv := []string{"zpool", "create", "-f", "-o", "ashift=" + strconv.Itoa(o.Ashift), "-O",
		"compression=" + o.Compression}
	set := []string{"acltype", "xattr", "relatime"}
	properties := map[string]string{"acltype": "posixacl", "xattr": "sa", "relatime": "on"}
	for _, p := range slices.Sorted(maps.Keys(o.Properties)) { // zpool refuses a property that is there twice
		set, properties[p] = lists.AddNew(set, p), o.Properties[p]
	}
	for _, p := range set {
		argv = append(argv, "-O", p+"="+properties[p])
	}
	what := "create the pool"
	if !r.spec.Plain() {
		what = "create the encrypted pool"
		argv = append(argv, "-O", "encryption="+r.spec.Encryption, "-O", "keylocation=file://"+poolKey, "-O",
			"keyformat=passphrase")
	}
	argv = append(argv, "-o", "autotrim="+o.Autotrim, "-o",
		"compatibility="+r.spec.FeatureSet(), "-m", "none", "-R", target, pool)
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

// keepsApart reports whether a dataset of the specification is mounted at a folder, or below it.
func (r *recipe) keepsApart(folder string) bool {
	return slices.ContainsFunc(r.spec.Datasets, func(d spec.Dataset) bool {
		return mounted(d) && (d.Mountpoint == folder || strings.HasPrefix(d.Mountpoint, folder+"/"))
	})
}

// ownID is the part of the ids of steps that stands for a dataset of the specification. A dataset whose
// name equals that of another one but for a slash keeps its slashes.
func (r *recipe) ownID(d spec.Dataset) string {
	dashed := func(d spec.Dataset) string { return strings.ReplaceAll(d.Name, "/", "-") }
	for _, o := range r.spec.Datasets {
		if o.Name != d.Name && dashed(o) == dashed(d) {
			return d.Name
		}
	}
	return dashed(d)
}

// ownDataset makes and mounts a dataset of the specification.
func (r *recipe) ownDataset(d spec.Dataset) {
	name, id := pool+"/"+d.Name, r.ownID(d)
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
	s.Flush = []string{"zpool", "sync", name}
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
