package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
	"bakeoff/prepare/install/installed"
)

// featureSince is the first version of OpenZFS that knows a feature of pools, of those
// that came after 0.8. Source: the sets in cmd/zpool/compatibility.d of OpenZFS.
var featureSince = map[string]string{
	"bookmark_written": "2.0", "device_rebuild": "2.0", "livelist": "2.0", "log_spacemap": "2.0",
	"redacted_datasets": "2.0", "redaction_bookmarks": "2.0", "zstd_compress": "2.0",
	"draid":  "2.1",
	"blake3": "2.2", "block_cloning": "2.2", "head_errlog": "2.2", "redaction_list_spill": "2.2",
	"vdev_zaps_v2": "2.2", "zilsaxattr": "2.2",
	"fast_dedup": "2.3", "large_microzap": "2.3", "longname": "2.3", "raidz_expansion": "2.3",
	"block_cloning_endian": "2.4", "dynamic_gang_header": "2.4", "physical_rewrite": "2.4",
}

// The features that GRUB reads, by version. Source: grub2-2.06 and grub2-2.12 there.
var (
	grub206 = strings.Fields(`async_destroy bookmarks embedded_data empty_bpobj enabled_txg extensible_dataset
		filesystem_limits hole_birth large_blocks lz4_compress spacemap_histogram`)
	grub212 = append(
		strings.Fields(`allocation_classes block_cloning device_rebuild livelist log_spacemap project_quota
		resilver_defer spacemap_v2 userobj_accounting zilsaxattr zpool_checkpoint`),
		grub206...)
)

// beyond returns the features of a pool that a version of OpenZFS does not know, those
// that are in use first.
func beyond(p installed.Pool, version string) (active, enabled []string) {
	for _, f := range slices.Sorted(maps.Keys(p.Features)) {
		since, ok := featureSince[strings.TrimPrefix(f, "feature@")]
		if !ok || !older(version, since) {
			continue
		}
		switch p.Features[f] {
		case "active":
			active = append(active, f)
		case "enabled":
			enabled = append(enabled, f)
		}
	}
	return active, enabled
}

// checkPools checks the pools, that of the root in more depth.
func (l *linter) checkPools() {
	root := installed.PoolOf(l.rootSet)
	for _, name := range slices.Sorted(maps.Keys(l.Pools)) {
		p := l.Pools[name]
		if name == root {
			l.checkFeatures(name, p)
			if h := p.Props["health"]; h != "" && h != "ONLINE" {
				why := "The pool has lost redundancy, or even data."
				if l.menu {
					why += " ZFSBootMenu starts it, and does not write to it."
				}
				l.report("pool-health", Warning, name+" health", "Pool "+name+" is "+h+". "+why,
					shell.Quote("zpool", "status", "-v", name))
			}
		}
		l.checkVDevs(name, p)
	}
}

// checkFeatures checks that what starts the system can read its pool.
func (l *linter) checkFeatures(name string, p installed.Pool) {
	reader, version, later := "", "", "a loader with a later OpenZFS"
	if l.menu {
		reader, version = "ZFSBootMenu with OpenZFS "+l.ZBM.OpenZFS, l.ZBM.OpenZFS
	}
	if t := l.Tools["zfs"]; t != "" && (version == "" || compareVersions(t, version) < 0) {
		if a, e := beyond(p, t); len(a)+len(e) > 0 {
			reader, version, later = "OpenZFS "+t+" of the system", t, "a later OpenZFS in the system"
		}
	}
	if version == "" {
		return
	}
	active, enabled := beyond(p, version)
	switch {
	case len(active) > 0:
		l.report("pool-features-beyond-loader", Error, featureOf(name, active[0]), fmt.Sprintf(
			"%s does not know %s, which the pool uses.", reader, strings.Join(active, ", ")),
			"Install "+later+" before the next start; a feature in use cannot be removed.")
	case len(enabled) > 0:
		l.report("pool-features-beyond-loader", Warning, featureOf(name, enabled[0]), fmt.Sprintf(
			"%s does not know %s, which the pool may begin to use at any time.", reader, strings.Join(enabled, ", ")),
			"Install "+later+"; run no zpool upgrade, and set compatibility on pools.")
	default:
		set, ok := strings.CutPrefix(p.Props["compatibility"], "openzfs-")
		if p.Props["compatibility"] == "off" {
			set, ok = majorMinor(l.Tools["zfs"]), true // all that the system has
		}
		set, _, _ = strings.Cut(set, "-")
		if ok && older(version, set) && !l.knowsAll(version, set) {
			l.report("pool-compatibility-beyond-loader", Warning, name+" compatibility", fmt.Sprintf(
				"The next zpool upgrade enables features up to %s, which %s does not know.", set, reader),
				"zpool set compatibility="+shell.Quote("openzfs-"+majorMinor(version)+"-linux", name))
		} else if system := l.Tools["zfs"]; ok && older(system, set) {
			l.report("pool-compatibility-beyond-loader", Warning, name+" compatibility", fmt.Sprintf(
				"OpenZFS %s of the system does not have the feature set %s: zpool upgrade cannot obey it.", system,
				p.Props["compatibility"]),
				"zpool set compatibility="+shell.Quote("openzfs-"+majorMinor(system)+"-linux", name))
		}
	}
}

// featureOf returns the property of a pool for a feature, whose name may begin with feature@.
func featureOf(pool, feature string) string {
	return pool + " feature@" + strings.TrimPrefix(feature, "feature@")
}

// knowsAll reports whether a version has all features of a set.
func (l *linter) knowsAll(version, set string) bool {
	for _, since := range featureSince {
		if older(version, since) && compareVersions(since, set) <= 0 {
			return false
		}
	}
	return true
}

// majorMinor returns 2.3 of 2.3.9.
func majorMinor(version string) string {
	n := numbers(version)
	if len(n) < 2 {
		return version
	}
	return fmt.Sprintf("%d.%d", n[0], n[1])
}

// The limits of ashift in OpenZFS.
const (
	minAshift = 9
	maxAshift = 16
)

// checkVDevs checks the devices of a pool.
func (l *linter) checkVDevs(name string, p installed.Pool) {
	byOrder, physical, trim := "", int64(0), false
	folder := "/dev/disk/by-id" // not made for a virtual disk without a serial number
	for _, v := range p.VDevs {
		if unstableName(v) || unstableName("/dev/"+v) { // zpool status shows sda3
			byOrder = v
		}
		for _, d := range l.Disks {
			if !d.Has(v) {
				continue
			}
			if d.ByID == "" {
				folder = "/dev/disk/by-partuuid"
			}
			physical = max(physical, d.Physical)
			trim = trim || d.Discard && isUnset(d.Rotational)
		}
	}
	if byOrder != "" && l.linux() {
		fix := shell.Quote("zpool", "export", name) + ", then " + shell.Quote("zpool", "import", "-d", folder, name)
		if name == installed.PoolOf(l.rootSet) { // which is in use
			fix = "In a rescue system, " + shell.Quote("zpool", "import", "-f", "-N", "-d", folder, name) + ", then " +
				shell.Quote("zpool", "export", name)
		}
		l.report("pool-device-name", Warning, name+" vdevs",
			byOrder+" names another disk if the order of the disks changes.",
			fix)
	}
	switch ashift, err := strconv.Atoi(p.Props["ashift"]); {
	case err != nil || ashift < minAshift || ashift > maxAshift: // not known
	case ashift < 12 || int64(1)<<ashift < physical:
		why := fmt.Sprintf("Blocks of %d bytes on sectors of %d: each small write must read and rewrite a whole sector.",
			1<<ashift, max(physical, 4096))
		if physical == 512 {
			why = fmt.Sprintf("Blocks of %d bytes: many disks have sectors of 4096 bytes but "+
				"report 512, and a replacement for this disk may be one of them. Each small write then must read "+
				"and rewrite a whole sector.", 1<<ashift)
		}
		l.report("ashift-small", Warning, name+" ashift", why,
			"Make the pool again with ashift=12; the ashift of a pool cannot be changed.")
	case ashift > 14:
		l.report("ashift-large", Warning, name+" ashift", fmt.Sprintf(
			"The smallest block is %d KiB: small files take that much, and compression gains little.", 1<<ashift>>10),
			"Make the pool again with ashift=12, and restore its data; the ashift of a pool cannot be changed.")
	}
	if at := p.Props["autotrim"]; at == "off" && trim && l.Services != nil && l.root != nil && !l.trims(name, p) {
		l.report("autotrim-off", Warning, name+" autotrim",
			"Without autotrim, the disk does not learn which blocks are free: it wears out faster, and becomes slow.",
			"zpool set autotrim=on "+shell.Quote(name))
	}
}

// checkAlignment checks that partitions of pools and swap begin where a sector begins.
func (l *linter) checkAlignment() {
	for _, d := range l.Disks {
		for _, p := range d.Partitions {
			kind := l.Blkid[p.Device]["TYPE"]
			if sector := max(d.Physical, 4096); d.Logical > 0 && p.Start*d.Logical%sector != 0 &&
				slices.Contains([]string{"zfs_member", "crypto_LUKS", "swap"}, kind) {
				l.report("partition-unaligned", Warning, p.Device, fmt.Sprintf(
					"The partition begins at byte %d, inside a sector of %d bytes: each write of a block writes two "+
						"sectors.", p.Start*d.Logical,
					sector), "Make the partition again, at a multiple of 1 MiB; it cannot be moved.")
			}
		}
	}
}

// checkStaleLabels finds disks with partitions on which the disk as a whole has the label of
// another pool: a wipe of the partitions leaves it.
func (l *linter) checkStaleLabels() {
	for _, d := range l.Disks {
		dev := "/dev/" + d.Name
		name := l.Blkid[dev]["LABEL"]
		if len(d.Partitions) == 0 || l.Pools == nil || name == "" || l.Blkid[dev]["TYPE"] != "zfs_member" ||
			l.mayUse(name, d) {
			continue
		}
		fix := "wipefs --all --force --types zfs_member " + shell.Quote(dev) +
			"; not zpool labelclear, which can remove the partition table"
		if !atLeast(l.Tools["util_linux"], "2.41") {
			fix = "With wipefs of util-linux 2.41 or later, as earlier versions miss labels of ZFS: " + fix
		}
		l.report("label-stale", Warning, dev, "The whole disk has the label of an older pool "+name+
			", in addition to its partitions: an import that scans disks finds a pool that does not exist.",
			fix)
	}
}

// mayUse reports whether a pool of a name may have a disk: not all of its devices are known as parts of
// other disks.
func (l *linter) mayUse(name string, d installed.Disk) bool {
	p, ok := l.Pools[name]
	return ok && (len(p.VDevs) == 0 || slices.ContainsFunc(p.VDevs, func(v string) bool {
		at := slices.IndexFunc(l.Disks, func(d installed.Disk) bool { return d.Has(v) })
		return at < 0 || l.Disks[at].Name == d.Name
	}))
}

// debianTrim is the program of Debian's zfsutils-linux that trims pools.
const debianTrim = "zfs-linux/trim"

// trim finds what trims pools: zpool trim with its arguments, or that program.
var trim = lazy.Compile(`zpool\s+trim([^;|&#]*)|` + debianTrim)

// debianTrims reports whether the program of Debian may trim a pool: unless a property of its first dataset says
// what to do, it trims only pools whose disks are all NVMe.
func (l *linter) debianTrims(name string, p installed.Pool) bool {
	d, known := l.Datasets[name]
	switch when := d["org.debian:periodic-trim"]; {
	case !known || when.Unknown || when.Value == "enable":
		return true
	case when.Value == "disable":
		return false
	}
	return !slices.ContainsFunc(p.VDevs, func(v string) bool {
		at := slices.IndexFunc(l.Disks, func(d installed.Disk) bool { return d.Has(v) })
		return at >= 0 && !strings.HasPrefix(l.Disks[at].Name, "nvme")
	})
}

// mayTrim reports whether the arguments of zpool trim may name a pool: what a shell replaces may be any pool.
func mayTrim(arguments, name string) bool {
	words := strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(arguments))
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-a" || w == "--all":
			return true
		case w == "-r" || w == "--rate": // its value comes next
			i++
		case !strings.HasPrefix(w, "-"):
			return w == name || strings.ContainsAny(w, "$`(){}<>%")
		}
	}
	return true
}

// trims reports whether something trims a pool. fstrim does not, and a unit such as zfs-trim-weekly@tank.timer trims
// only its pool.
func (l *linter) trims(name string, p installed.Pool) bool {
	if slices.ContainsFunc(l.Services, func(s string) bool {
		_, instance, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(s, ".timer"), ".service"), "@")
		return strings.Contains(s, "trim") && !strings.HasPrefix(s, "fstrim") &&
			(instance == "" || strings.ReplaceAll(instance, `\x2d`, "-") == name)
	}) {
		return true
	}
	jobs := []string{"etc/crontab", "etc/anacrontab"}
	for _, folder := range []string{"etc/cron.d", "etc/cron.daily", "etc/cron.weekly", "etc/cron.monthly",
		"etc/periodic/daily", "etc/periodic/weekly", "etc/periodic/monthly", "var/spool/cron", "var/spool/cron/crontabs"} {
		jobs = append(jobs, files(l.root, folder, "")...)
	}
	return slices.ContainsFunc(jobs, func(f string) bool {
		return slices.ContainsFunc(lines(l.text(f)), func(line string) bool {
			return slices.ContainsFunc(trim.FindAllStringSubmatch(line, -1), func(m []string) bool {
				if m[0] == debianTrim {
					return l.debianTrims(name, p)
				}
				return mayTrim(m[1], name)
			})
		})
	})
}

// checkGRUB checks the pool that GRUB reads, and its configuration.
func (l *linter) checkGRUB() {
	if b := strings.ToLower(l.Bootloader); b != "grub" && b != "grub2" {
		return
	}
	if cmdline := l.text("etc/default/grub"); cmdline != "" && l.rootSet != "" {
		args := l.kernelArguments()
		v, ok := argument(args.line, "root")
		v = strings.TrimPrefix(strings.TrimPrefix(v, "ZFS="), "zfs:")
		switch {
		case !ok && (l.exists("etc/grub.d/10_linux_zfs") || strings.Contains(l.text("boot/grub/grub.cfg"), "root=ZFS=")):
		case !ok:
			l.report("grub-without-root", Error, args.where,
				"The arguments have no root=: the initramfs does not know which dataset is the root.",
				args.then("Add root=ZFS="+shell.Quote(l.rootSet)+" to the value of GRUB_CMDLINE_LINUX"))
		case strings.Contains(v, "$"): // made by a shell
		case v != l.rootSet && v != "AUTO" && l.Datasets[v] == nil && len(l.Datasets) > 0:
			l.report("grub-root-wrong", Error, args.at("root"), "There is no dataset "+v+".",
				args.then("Write root=ZFS="+shell.Quote(l.rootSet)+" instead"))
		}
	}
	name := ""
	for _, d := range l.Names() {
		if l.Datasets[d]["mountpoint"].Value == "/boot" {
			name = installed.PoolOf(d)
		}
	}
	if _, ok := l.Pools["bpool"]; name == "" && ok {
		name = "bpool"
	}
	if name == "" {
		if l.Mounts == nil || l.Datasets == nil {
			return // unknown
		}
		for _, m := range l.Mounts {
			if m.Target == "/boot" && m.Type != "zfs" {
				return // GRUB reads no pool
			}
		}
		name = installed.PoolOf(l.rootSet)
	}
	p, ok := l.Pools[name]
	if !ok {
		return
	}
	version := l.Tools["grub"]
	known, set := grub212, "grub2"
	if older(version, "2.12") {
		known = grub206
		if atLeast(l.Tools["zfs"], "2.2") {
			set = "grub2-2.06"
		}
	}
	var unknown []string
	for _, f := range slices.Sorted(maps.Keys(p.Features)) {
		if slices.Contains([]string{"enabled", "active"}, p.Features[f]) &&
			!slices.Contains(known, strings.TrimPrefix(f, "feature@")) {
			unknown = append(unknown, f)
		}
	}
	fix := fmt.Sprintf("zpool set compatibility=%s %s", set, shell.Quote(name))
	switch c := p.Props["compatibility"]; {
	case len(unknown) > 0:
		l.report("pool-features-beyond-loader", Error, featureOf(name, unknown[0]), fmt.Sprintf(
			"%s does not know %s of the pool with /boot.", strings.TrimSpace("GRUB "+version), strings.Join(unknown, ", ")),
			fmt.Sprintf("Make %s again with compatibility=%s.", name, set))
	case c == "": // unknown
	case !strings.Contains(c, "grub2") && c != "legacy" && !strings.Contains(c, "/"):
		l.report("grub-pool-compatibility", Warning, name+" compatibility",
			"The next zpool upgrade enables features that GRUB cannot read: the system then no longer starts.", fix)
	case set == "grub2-2.06" && c != "legacy" && !strings.Contains(c, "/") &&
		!slices.Contains(strings.Split(c, ","), set):
		l.report(
			"grub-pool-compatibility",
			Warning,
			name+" compatibility",
			"From OpenZFS 2.2 the feature set "+c+" is that of GRUB 2.12, and this GRUB is "+version+
				": zpool upgrade would enable features that it cannot read.",
			fix,
		)
	}
	for _, s := range l.Snapshots {
		if d, _, _ := strings.Cut(s, "@"); d == name && older(version, "2.12") {
			l.report("grub-pool-snapshot", Error, s,
				"GRUB "+version+" cannot read a pool whose top dataset has a snapshot.", shell.Quote("zfs", "destroy", s))
		}
	}
}
