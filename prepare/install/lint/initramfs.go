package lint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
	"bakeoff/prepare/install/installed"
)

// images returns the initial RAM disks of the kernels, by path.
func (l *linter) images() []string { return slices.Sorted(maps.Keys(l.Initramfs)) }

// hostonly reports whether dracut builds images for this machine only.
func (l *linter) hostonly() bool {
	switch l.dracut().vars["hostonly"] {
	case "yes":
		return true
	case "no":
		return false
	}
	if len(l.UKI) > 0 && l.kernelInstall()["initrd_generator"] == "dracut" {
		return true // as kernel-install calls it
	}
	return atLeast(l.Tools["dracut"], "108") // the default of dracut from there on
}

// needs are the modules of dracut without which the system does not start or resume.
func (l *linter) needs() (out []string) {
	if l.rootSet != "" {
		out = append(out, "zfs")
	}
	if l.resume != nil {
		out = append(out, "crypt")
	}
	if l.Hibernation && len(l.Swaps) > 0 {
		out = append(out, "resume")
	}
	return out
}

var moduleUse = map[string]string{
	"zfs":    "imports the pool of the root",
	"crypt":  "opens the encrypted swap",
	"resume": "reads the hibernation image",
}

// checkDracut checks the configuration of dracut, and whether the images follow it.
func (l *linter) checkDracut() {
	if l.tool != "dracut" || !l.linux() {
		return
	}
	c := l.dracut()
	for _, word := range slices.Sorted(maps.Keys(c.joined)) {
		l.report("dracut-words-joined", Error, c.joined[word],
			"Two values are joined without a space: dracut reads the word "+strconv.Quote(word)+".",
			`Begin and end the value with a space: add_dracutmodules+=" NAME ".`)
	}
	if len(c.joined) > 0 {
		return
	}
	var added, unset []string // unset are those that the configuration must add, and does not
	omitted := strings.Fields(c.vars["omit_dracutmodules"])
	for _, m := range l.needs() {
		switch {
		case slices.Contains(omitted, m):
			l.report("dracut-omits-module", Error, c.where("omit_dracutmodules"),
				fmt.Sprintf("dracut leaves out %s, which %s.", m, moduleUse[m]), "Remove "+m+" from omit_dracutmodules.")
		case l.hostonly() && m != "zfs" && !slices.Contains(c.modules(), m):
			unset = append(unset, m)
		default:
			added = append(added, m)
		}
	}
	l.checkImageModules(added)
	if len(unset) > 0 {
		l.report("dracut-hostonly-leaves-out", Error, l.cryptConfig("add_dracutmodules"), fmt.Sprintf(
			"dracut builds for this host only (hostonly), and leaves out what the running system did not need to start. It "+
				"does not add %s, so the system does not resume.", strings.Join(unset, " and ")),
			fmt.Sprintf(`add_dracutmodules+=" %s ", then %s`, strings.Join(unset, " "), l.rebuild()))
		return
	}
	l.checkItems()
}

// cryptConfig is the file of dracut for the encrypted swap, in which a variable is to be changed. No later
// file may forget what it adds.
func (l *linter) cryptConfig(variable string) string {
	c := l.dracut()
	for _, f := range c.order[max(0, slices.Index(c.order, c.reset[variable])):] {
		if t := l.text(f); strings.HasPrefix(f, "etc/dracut.conf.d/") && (strings.Contains(t, "crypt") ||
			l.resume != nil && l.resume.key != "" && strings.Contains(t, l.resume.key)) {
			return f
		}
	}
	return c.where(variable)
}

// checkImageModules checks that the images have modules that they should have.
func (l *linter) checkImageModules(modules []string) {
	for _, name := range l.images() {
		i := l.Initramfs[name]
		if len(i.Modules) == 0 {
			continue // unknown
		}
		var lacks []string
		for _, m := range modules {
			switch {
			case slices.Contains(i.Modules, m), m == "zfs" && isUnset(i.ZFSModule):
			case m == "crypt" && (slices.Contains(i.Modules, "systemd-cryptsetup") || l.lacksSystemdCryptsetup()):
				// The second one is a finding of checkDebian.
			case m == "crypt" && len(l.Packages) > 0 && l.Tools["cryptsetup"] == "" && l.Packages["systemd-cryptsetup"] == "":
				l.report("cryptsetup-missing", Error, "packages",
					"dracut adds the module crypt only if cryptsetup is installed. Without it, the encrypted swap is not opened.",
					"Install cryptsetup, then "+l.rebuild())
			default:
				lacks = append(lacks, m+", which "+moduleUse[m])
			}
		}
		if len(lacks) > 0 {
			l.report("initramfs-lacks-module", Error, name, "The initramfs lacks the module "+
				strings.Join(lacks, ", and ")+".", l.rebuild())
		}
	}
}

// checkItems checks that the keys and crypttab are in the images.
func (l *linter) checkItems() {
	want := []string{}
	for _, k := range l.keys {
		if !l.lacksKey(k.path) { // key-file-missing
			want = append(want, k.path)
		}
	}
	if l.resume != nil {
		want = append(want, "/etc/crypttab")
	}
	images := l.started()
	for _, name := range slices.Sorted(maps.Keys(images)) {
		i := images[name]
		if len(i.Files) == 0 {
			continue
		}
		var lacks, unset []string
		for _, file := range want {
			if slices.Contains(i.Files, file) {
				continue
			}
			if k := slices.IndexFunc(l.keys, func(k key) bool { return k.path == file }); k >= 0 && !l.encryptedImage(name) {
				l.keyOutside(name, l.keys[k])
				return
			}
			lacks = append(lacks, file)
			if !slices.ContainsFunc(l.dracut().items(), func(item string) bool {
				ok, err := path.Match(item, file) // a shell expands items
				return item == file || err == nil && ok
			}) {
				unset = append(unset, file)
			}
		}
		switch {
		case len(unset) > 0:
			where := l.dracut().where("install_items")
			if slices.ContainsFunc(
				unset,
				func(f string) bool { return l.resume != nil && (f == l.resume.key || f == "/etc/crypttab") },
			) {
				where = l.cryptConfig("install_items")
			}
			l.report("dracut-items-missing", Error, where, fmt.Sprintf(
				"The initramfs has no %s: %s.", strings.Join(unset, ", "), l.consequence(unset)),
				fmt.Sprintf(`install_items+=%s, then %s`, shell.Quote(" "+strings.Join(unset, " ")+" "), l.rebuild()))
			return // all images follow the same configuration
		case len(lacks) > 0:
			l.report("initramfs-stale", Error, name, fmt.Sprintf(
				"The initramfs has no %s, which the configuration adds: %s.",
				strings.Join(lacks, ", "),
				l.consequence(lacks),
			), l.rebuild())
		}
	}
}

// keyOutside reports a key that an image lacks, and must not have because anybody can read the image.
func (l *linter) keyOutside(name string, k key) {
	why := name + " has no " + k.path + ", and must not have it, because the initramfs is on a filesystem that is not " +
		"encrypted: "
	if k.pool {
		l.report("key-not-in-initramfs", Error, k.of+" keylocation", why+"nothing opens the pool while the system starts.",
			l.askFor(k.of))
		return
	}
	l.report("key-not-in-initramfs", Error, "etc/crypttab", why+"the swap stays closed, and the system does not resume.",
		"Write none instead of "+settingOf(k.path)+", then "+l.rebuild())
}

// askFor is the command after which the passphrase of a pool is typed. A key of another format is
// replaced, because nobody can type it.
func (l *linter) askFor(dataset string) string {
	if l.Datasets[dataset]["keyformat"].Value == "passphrase" {
		return "zfs set keylocation=prompt " + shell.Quote(dataset)
	}
	return "zfs change-key -o keyformat=passphrase -o keylocation=prompt " + shell.Quote(dataset)
}

// started are the initial RAM disks that start the system: if there are unified images, those in them.
func (l *linter) started() map[string]installed.Initramfs {
	images := map[string]installed.Initramfs{}
	for _, u := range l.UKI {
		images[u.Path] = installed.Initramfs{Files: u.Files}
	}
	if len(images) == 0 {
		return l.Initramfs
	}
	return images
}

// consequence says what happens if files are not in the image.
func (l *linter) consequence(files []string) string {
	for _, k := range l.keys {
		if k.pool && slices.Contains(files, k.path) {
			return "the pool is not opened, and without systemd nothing asks for the passphrase"
		}
	}
	return "the swap stays closed, and the system does not resume"
}

// checkInitramfs checks what holds for all images.
func (l *linter) checkInitramfs() {
	args := l.kernelArguments()
	if l.exists("etc/zfs/zpool.cache") {
		if data := l.text("etc/zfs/zpool.cache"); data != "" {
			l.checkPoolCache("etc/zfs/zpool.cache", installed.CacheStrings(data))
		}
	}
	hostID := l.root == nil || l.exists("etc/hostid") // else hostid-missing
	for _, name := range l.images() {
		i := l.Initramfs[name]
		if slices.ContainsFunc(l.Kernels, func(k installed.Kernel) bool {
			return k.Initramfs == name && isUnset(k.ZFSModule)
		}) {
			continue // kernel-without-zfs
		}
		if isUnset(i.ZFSModule) && l.lacksZFSPackage() != "" {
			continue // zfs-package-missing
		}
		if isUnset(i.ZFSModule) && l.rootSet != "" {
			l.report(
				"initramfs-lacks-zfs",
				Error,
				name,
				"The initramfs has no ZFS module: the root cannot be mounted.",
				l.rebuild(),
			)
			continue
		}
		if hostID && i.HostID == nil && len(i.Files) > 0 && !slices.Contains(i.Files, "/etc/hostid") && l.rootSet != "" &&
			args.known && !hasHostID(args.line) {
			l.report("hostid-not-in-initramfs", Error, name,
				"The initramfs has no etc/hostid: it imports the pool as another host, or refuses to import it.", l.rebuild())
		}
		if i.Crypttab != nil && l.resume != nil {
			inside := readCrypttab(*i.Crypttab)
			k := slices.IndexFunc(inside, func(e cryptEntry) bool { return e.name == l.resume.name })
			switch {
			case l.absent(l.resume.source), l.notLUKS(*l.resume) != "": // crypttab-uuid-wrong
			case len(inside) == 0 && l.tool == "dracut" && l.hostonly() && !slices.Contains(l.dracut().modules(), "crypt"):
				// dracut-hostonly-leaves-out
			case k < 0:
				l.report(
					"initramfs-crypttab",
					Error,
					name,
					"crypttab in the initramfs has no entry "+l.resume.name+": the swap stays closed.",
					l.rebuild(),
				)
			case l.differ(inside[k].source, l.resume.source):
				l.report("initramfs-crypttab", Error, name, "crypttab in the initramfs is not that of the system: it opens "+
					inside[k].source+", and the system "+l.resume.source+".", l.rebuild())
			case l.skipped(inside[k]) != "" && l.skipped(*l.resume) == "": // else crypttab-skipped
				l.report("initramfs-crypttab", Error, name, "crypttab in the initramfs is not that of the system: its entry has "+
					"the option "+l.skipped(inside[k])+", with which the swap stays closed.", l.rebuild())
			case inside[k].key != l.resume.key && inside[k].key != l.resume.keyInImage() &&
				!(l.resume.hasKey() && l.lacksKey(l.resume.key)): // key-file-missing
				l.report("initramfs-crypttab", Error, name, "crypttab in the initramfs is not that of the system: it reads the "+
					"key "+inside[k].key+", and the system "+l.resume.key+".", l.rebuild())
			}
		}
		l.checkPoolCache(name, i.PoolCache)
	}
	for _, u := range l.UKI {
		if hostID && len(u.Files) > 0 && !slices.Contains(u.Files, "/etc/hostid") && l.rootSet != "" &&
			u.Cmdline != "" && !hasHostID(u.Cmdline) {
			l.report("hostid-not-in-initramfs", Error, u.Path,
				"The initramfs inside has no etc/hostid: it imports the pool as another host, or refuses to import "+
					"it.", l.rebuild())
		}
	}
}

var live = lazy.Compile(`(?i)(^|[^a-z])live([^a-z]|$)|^archiso$`)

// checkPoolCache checks that a cache of pools was written by this system. facts has its
// strings, in whatever form.
func (l *linter) checkPoolCache(where string, facts json.RawMessage) {
	var v any
	if len(facts) == 0 || json.Unmarshal(facts, &v) != nil || v == nil {
		return
	}
	id, known := l.hostID()
	name := strings.TrimSpace(l.text("etc/hostname"))
	foreign := ""
	var look func(label string, v any)
	look = func(label string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				look(strings.ToLower(k), v[k])
			}
		case []any:
			for _, e := range v {
				look(label, e)
			}
		case string:
			switch {
			case label == "hostid" && known && !sameID(v, id),
				label == "hostname" && name != "" && v != name,
				strings.HasPrefix(v, "/dev/") && !strings.ContainsAny(v, " \n\x00") && !l.knowsDevice(v),
				v != name && live.MatchString(v):
				foreign = cmp.Or(foreign, v)
			}
		}
	}
	look("", v)
	if foreign != "" && !slices.ContainsFunc(l.findings, func(f Finding) bool { // the images have the same one
		return f.Name == "pool-cache-foreign"
	}) {
		l.report("pool-cache-foreign", Error, where, fmt.Sprintf(
			"The cache of pools was written by another system (%.60s): the import looks for the pool in the wrong place.",
			foreign,
		),
			"Remove it, set cachefile in the system itself, and "+l.rebuild())
	}
}

// knowsDevice reports whether a device is part of a pool, or a partition.
func (l *linter) knowsDevice(dev string) bool {
	for _, p := range l.Pools {
		if slices.Contains(p.VDevs, dev) {
			return true
		}
	}
	for _, d := range l.Disks {
		if dev == "/dev/"+d.Name || slices.ContainsFunc(d.Names(), func(name string) bool {
			return strings.HasPrefix(dev, installed.LinkFolder+name)
		}) {
			return true
		}
		for _, p := range d.Partitions {
			if dev == p.Device || strings.EqualFold(dev, "/dev/disk/by-partuuid/"+p.PartUUID) {
				return true
			}
		}
	}
	return false
}

// initramfsName matches the names that mkinitramfs reads, and leftConfig those among them that dpkg leaves.
var (
	initramfsName = lazy.Compile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	leftConfig    = lazy.Compile(`\.dpkg-`)
)

// initramfsConfig returns the files that mkinitramfs reads, in order. A file in /etc replaces that of a package.
func (l *linter) initramfsConfig() []string {
	const folder = "etc/initramfs-tools/"
	out := []string{folder + "initramfs.conf"}
	ofPackages := files(l.root, "usr/share/initramfs-tools/conf.d", "")
	for _, f := range append(ofPackages, files(l.root, folder+"conf.d", "")...) {
		name := path.Base(f)
		if replaced := folder + "conf.d/" + name; l.exists(replaced) {
			f = replaced
		}
		if initramfsName.MatchString(name) && !leftConfig.MatchString(name) {
			out = append(out, f)
		}
	}
	return out
}

// checkInitramfsTools checks the configuration of initramfs-tools.
func (l *linter) checkInitramfsTools() {
	if l.tool != "initramfs-tools" {
		return
	}
	if l.resume != nil && l.resume.hasKey() && !l.lacksKey(l.resume.key) {
		const where = "etc/cryptsetup-initramfs/conf-hook"
		pattern := assignments(l.text(where), map[string]string{})["KEYFILE_PATTERN"]
		match := false
		for p := range strings.FieldsSeq(strings.ReplaceAll(pattern, ":", " ")) {
			if ok, err := path.Match(p, l.resume.key); err == nil && ok {
				match = true
			}
		}
		switch {
		case match:
			l.checkKeysInside()
		default:
			l.report("keyfile-pattern", Error, where,
				"KEYFILE_PATTERN does not name "+l.resume.key+": the key is not in the initramfs, and the swap stays closed.",
				fmt.Sprintf("KEYFILE_PATTERN=%s, then %s", shell.Quote(l.resume.key), l.rebuild()))
		}
	}
	if l.resume == nil {
		l.checkKeysInside()
	}
	umask := ""
	for _, f := range l.initramfsConfig() {
		if v := assignments(l.text(f), map[string]string{})["UMASK"]; v != "" {
			umask = v
		}
	}
	for _, name := range l.images() {
		i := l.Initramfs[name]
		if n, err := strconv.ParseInt(umask, 8, 32); (err != nil || n&0o077 != 0o077) && l.keyInside(i.Files) != "" &&
			readers(i.Mode) == "" && l.encryptedImage(name) {
			l.report("initramfs-umask", Warning, "etc/initramfs-tools/initramfs.conf",
				"The initramfs has a key, and UMASK=0077 is not set: the next initramfs is readable for everybody.",
				"UMASK=0077, then "+l.rebuild())
			return
		}
	}
}

// checkKeysInside checks that the images of initramfs-tools have the keys. Its hooks copy
// what is in /etc/zfs, and the keys that KEYFILE_PATTERN names under another name.
func (l *linter) checkKeysInside() {
	for _, name := range l.images() {
		have := l.Initramfs[name].Files
		cryptroot := slices.ContainsFunc(have, func(f string) bool { return within(f, "/cryptroot") })
		for _, k := range l.keys {
			inside := slices.Contains(have, k.path)
			if !k.pool {
				inside = inside || !cryptroot || slices.Contains(have, l.resume.keyInImage())
			}
			switch {
			case inside || len(have) == 0 || l.lacksKey(k.path):
			case k.pool && !l.encryptedImage(name) && within(k.path, "/etc/zfs"): // it should not be there
			case k.pool && !l.encryptedImage(name):
				l.keyOutside(name, k)
			case k.pool && !within(k.path, "/etc/zfs"):
				l.report("key-not-in-initramfs", Error, k.of+" keylocation",
					"zfs-initramfs copies the keys in /etc/zfs only: nothing opens the pool while the system starts.",
					"Move the key to /etc/zfs, zfs set keylocation=file:///etc/zfs/NAME "+shell.Quote(k.of)+", and "+l.rebuild())
			default:
				l.report("initramfs-stale", Error, name, "The initramfs has no "+k.path+", which the configuration adds: "+
					k.of+" stays closed.", l.rebuild())
			}
		}
	}
}

// checkResumeOrder checks that the pool is imported after the attempt to resume.
func (l *linter) checkResumeOrder() {
	if !l.Hibernation || l.rootSet == "" || l.tool != "dracut" || !l.systemd() ||
		slices.Contains(strings.Fields(l.dracut().vars["omit_dracutmodules"]), "systemd") {
		return
	}
	started := l.started()
	var lacks, notInside []string
	for _, unit := range []string{"zfs-import-scan.service", "zfs-import-cache.service"} {
		folder := "etc/systemd/system/" + unit + ".d"
		found := ""
		for _, f := range l.unitFiles(unit) {
			if found == "" && ordersResume(l.text(f)) {
				found = f
			}
		}
		if found == "" {
			lacks = append(lacks, folder)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(started)) {
			if f := started[name].Files; len(f) > 0 && !slices.Contains(f, "/"+found) && !slices.Contains(notInside, name) {
				notInside = append(notInside, name)
			}
		}
	}
	if len(lacks) > 0 {
		l.report("import-before-resume", Error, lacks[0],
			"Nothing makes the import of the pool wait for the attempt to resume. An import before the resume damages the "+
				"pool of a hibernated system.", fmt.Sprintf(
				"[Unit] After=local-fs-pre.target in a file in %s, then %s", strings.Join(lacks, " and "), l.rebuild()))
		return
	}
	for _, name := range notInside {
		l.report("initramfs-stale", Error, name,
			"The initramfs lacks the drop-ins (systemd files) that make the import wait for the resume.", l.rebuild())
	}
}

// unitFiles returns the files in which an administrator configures a unit of systemd.
func (l *linter) unitFiles(unit string) (out []string) {
	out = []string{"etc/systemd/system/" + unit}
	// Drop-ins of a prefix hold for all units whose names begin so.
	for _, name := range []string{unit, "zfs-import-.service", "zfs-.service", "service"} {
		out = append(out,
			l.dropIns(".conf", "usr/lib/systemd/system/"+name+".d", "etc/systemd/system/"+name+".d")...)
	}
	return out
}

// ordersResume reports whether a file of systemd orders its unit after the attempt to resume.
func ordersResume(text string) bool {
	section := ""
	for _, line := range lines(joinLines(text)) {
		key, value, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "["):
			section = line
		case section == "[Unit]" && strings.TrimSpace(key) == "After" &&
			slices.ContainsFunc(strings.Fields(value), func(u string) bool {
				return u == "local-fs-pre.target" || u == "systemd-hibernate-resume.service"
			}):
			return true
		}
	}
	return false
}

// encryptedImage reports whether an image that starts the system is on an encrypted filesystem. The
// firmware reads a unified image, which therefore is not, even if its partition is not mounted now.
func (l *linter) encryptedImage(name string) bool {
	return l.encrypted("/"+name) && !slices.ContainsFunc(l.UKI, func(u installed.UKI) bool { return u.Path == name })
}

// encrypted reports whether a file of the system is on an encrypted filesystem; where
// that is not known, it is.
func (l *linter) encrypted(file string) bool {
	switch at := l.mountOf(file); {
	case at.Type == "zfs":
		d, ok := l.Datasets[at.Source]
		e := d["encryption"].Value
		return !ok || e != "off"
	case at.Type == "":
		return true
	default:
		return strings.HasPrefix(at.Source, "/dev/mapper/")
	}
}

// mountOf returns the mount that has a file.
func (l *linter) mountOf(file string) (at installed.Mount) {
	for _, m := range l.Mounts {
		if (m.Target == "/" || within(file, m.Target)) && len(m.Target) > len(at.Target) {
			at = m
		}
	}
	return at
}
