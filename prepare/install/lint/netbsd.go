package lint

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/prepare/install/installed"
)

// bootEntry is a line of the menu in boot.cfg, with what the loader does for each line.
type bootEntry struct {
	title   string
	first   bool     // the loader starts it if nobody chooses another one
	modules []string // paths, in order
	ramdisk string
	root    string // another root than the RAM disk
	boots   bool
	kernel  string // "" is the default
}

// command adds a command of the loader.
func (e *bootEntry) command(name, value string) {
	words := strings.Fields(value)
	switch first := ""; name {
	case "load":
		e.modules = append(e.modules, words...)
	case "fs":
		e.ramdisk = value
	case "root":
		e.root = value
	case "boot", "pkboot":
		e.boots = true
		if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
			first = words[0]
		}
		if i := strings.LastIndexByte(first, ':'); i >= 0 { // hd0a:netbsd, NAME=boot:netbsd
			first = first[i+1:]
		}
		e.kernel = path.Base("/" + first)
	}
}

// readBootConfig reads boot.cfg(5). Commands outside the menu hold for each line of the menu; without a menu,
// the loader starts its default kernel.
func readBootConfig(text string) []bootEntry {
	all := bootEntry{boots: true}
	var menu []bootEntry
	chosen := 1
	for _, line := range lines(text) {
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "default":
			if n, err := strconv.Atoi(value); err == nil {
				chosen = n
			}
		case key == "menu":
			title, commands, ok := strings.Cut(value, ":")
			if !ok {
				title, commands = value, value
			}
			e := bootEntry{title: strings.TrimSpace(title)}
			for c := range strings.SplitSeq(commands, ";") {
				c = strings.Replace(strings.TrimSpace(c), "=", " ", 1)
				name, rest, _ := strings.Cut(c, " ")
				if !e.boots { // what comes after has no effect
					e.command(name, strings.TrimSpace(rest))
				}
			}
			menu = append(menu, e)
		default:
			all.command(key, value)
		}
	}
	if len(menu) == 0 {
		all.first = true
		return []bootEntry{all}
	}
	for i := range menu {
		e := &menu[i]
		e.first = i+1 == chosen
		e.modules = slices.Concat(all.modules, e.modules)
		e.ramdisk, e.root = cmp.Or(e.ramdisk, all.ramdisk), cmp.Or(e.root, all.root)
	}
	return menu
}

// module returns the place of a module in the order of an entry, or -1.
func (e bootEntry) module(name string) int {
	return slices.IndexFunc(e.modules, func(m string) bool { return strings.TrimSuffix(path.Base(m), ".kmod") == name })
}

// otherDisks are RAM disks of a release that import no pool.
var otherDisks = lazy.Compile(`(?i)cgdroot|miniroot|install|(^|/)ramdisk\.fs`)

// zfsRoot reports whether an entry starts a system with its root on ZFS, or should.
func (e bootEntry) zfsRoot() bool {
	switch {
	case !e.boots, e.root != "" && !strings.HasPrefix(e.root, "md"):
		return false
	case e.first:
		return true
	case otherDisks.MatchString(e.ramdisk), e.module("miniroot") >= 0:
		return false
	}
	return e.module("zfs") >= 0 || strings.Contains(e.ramdisk, "zfs")
}

// standModule is a module of a release of NetBSD.
var standModule = lazy.Compile(`/stand/[^/]+/([0-9][0-9.]*)/`)

// sameRelease reports whether two releases are the same, as far as both say: 11.0 and 11.0_RC1.
func sameRelease(a, b string) bool {
	m, n := numbers(a), numbers(b)
	short := min(len(m), len(n))
	return short > 0 && slices.Equal(m[:short], n[:short])
}

// releases returns the releases of which the modules of ZFS are.
func (e bootEntry) releases() (out []string) {
	for _, name := range []string{"solaris", "zfs"} {
		if i := e.module(name); i >= 0 {
			if f := standModule.FindStringSubmatch(e.modules[i]); f != nil && !slices.Contains(out, f[1]) {
				out = append(out, f[1])
			}
		}
	}
	return out
}

// problem says what is wrong with an entry: the name of the finding, why, and what to do.
func (e bootEntry) problem(release string) (name, why, fix string) {
	const line = "menu=Boot NetBSD:load solaris;load zfs;fs /ramdisk-zfsroot.fs;boot"
	of := e.releases()
	switch solaris, zfs := e.module("solaris"), e.module("zfs"); {
	case solaris < 0 || zfs < 0:
		return "netbsd-modules", "The RAM disk has no modules: boot.cfg must load solaris and zfs.", line
	case solaris > zfs:
		return "netbsd-modules", "zfs needs solaris, which is loaded after it.", "Load solaris first."
	case e.ramdisk == "":
		return "netbsd-ramdisk", "boot.cfg does not load the RAM disk that imports the pool.", line
	case otherDisks.MatchString(e.ramdisk):
		return "netbsd-ramdisk", "The RAM disk " + e.ramdisk + " does not import the pool.", line
	case len(of) > 1:
		return "netbsd-modules-of-another-release", fmt.Sprintf("boot.cfg loads modules of NetBSD %s: a kernel refuses "+
				"modules of another release.", strings.Join(of, " and ")),
			"Load both modules of the kernel's release."
	// Another kernel may be of another release.
	case len(of) == 1 && release != "" && slices.Contains([]string{"/", "netbsd", "netbsd.gz"}, e.kernel) &&
		!sameRelease(of[0], release):
		return "netbsd-modules-of-another-release", fmt.Sprintf("boot.cfg loads the modules of NetBSD %s, but this is %s: "+
				"a kernel refuses modules of another release.", of[0], release),
			"Put kernel, RAM disk and modules of one release on the partition of the loader."
	}
	return "", "", ""
}

// bootConfig returns the path of boot.cfg, "" if it is on a partition that is not mounted.
func (l *linter) bootConfig() string {
	all := []string{"boot-ffs/boot.cfg"}
	for _, m := range l.Mounts {
		if m.Type == "ffs" {
			all = append(all, strings.TrimPrefix(path.Join(m.Target, "boot.cfg"), "/"))
		}
	}
	for _, f := range append(all, "boot.cfg", "boot/boot.cfg") {
		if l.exists(f) {
			return f
		}
	}
	return ""
}

// checkBootConfig checks each line of the menu by itself, and reports equal problems once.
func (l *linter) checkBootConfig() {
	cfg := l.bootConfig()
	if cfg == "" {
		return
	}
	type problem struct {
		titles []string
		fix    string
		first  bool
	}
	found := map[[2]string]*problem{}
	var order [][2]string
	for _, e := range readBootConfig(l.text(cfg)) {
		if !e.zfsRoot() {
			continue
		}
		name, why, fix := e.problem(l.OS.Version)
		if name == "" {
			continue
		}
		id := [2]string{name, why}
		if found[id] == nil {
			found[id] = &problem{fix: fix}
			order = append(order, id)
		}
		p := found[id]
		p.first = p.first || e.first
		if e.title != "" {
			p.titles = append(p.titles, strconv.Quote(e.title))
		}
	}
	for _, id := range order {
		p, severity, why := found[id], Error, id[1]
		if !p.first {
			severity = Warning
		}
		if len(p.titles) > 0 {
			why = "Menu " + strings.Join(p.titles, ", ") + ": " + why
		}
		l.report(id[0], severity, cfg, why, p.fix)
	}
}

// The features of NetBSD. Source: zfeature_common.c there.
var netbsd = append([]string{"multi_vdev_crash_dump"}, grub206...)

// checkNetBSD checks a NetBSD system whose RAM disk mounts the root.
func (l *linter) checkNetBSD() {
	if l.OS.ID != "netbsd" {
		return
	}
	l.checkBootConfig()
	rc := assignments(l.text("etc/rc.conf.d/zfs"), assignments(l.text("etc/rc.conf"), map[string]string{}))
	// The words of checkyesno in rc.subr.
	if l.exists("etc/rc.conf") && !slices.Contains([]string{"yes", "true", "on", "1"}, strings.ToLower(rc["zfs"])) {
		l.report("netbsd-rc", Error, "etc/rc.conf", "The other datasets are not mounted, because rc.conf does not set "+
			"zfs=YES.", "zfs=YES")
	}
	l.checkBSDPool()
	l.checkModules()
	if len(l.Datasets) == 0 {
		return
	}
	root, ok := l.Datasets["rpool/ROOT"]
	switch {
	case !ok:
		l.report("netbsd-root-name", Error, "zfs", "The RAM disk mounts rpool/ROOT, but this dataset does not exist.",
			"Name the pool rpool and the root ROOT.")
	case root["mountpoint"].Value == "": // unknown
	case root["mountpoint"].Value != "legacy":
		l.report(
			"netbsd-root-mountpoint",
			Error,
			"rpool/ROOT mountpoint",
			"The RAM disk mounts the root with mount -t zfs, which needs a legacy mountpoint.",
			"zfs set mountpoint=legacy rpool/ROOT",
		)
	}
}

// checkBSDPool checks that NetBSD can read the pool, and that the RAM disk finds no other one.
func (l *linter) checkBSDPool() {
	const name = "rpool"
	p := l.Pools[name]
	var unknown []string
	for _, f := range slices.Sorted(maps.Keys(p.Features)) {
		if p.Features[f] != "disabled" && !slices.Contains(netbsd, strings.TrimPrefix(f, "feature@")) {
			unknown = append(unknown, f)
		}
	}
	if len(unknown) > 0 {
		l.report("pool-features-beyond-loader", Error, featureOf(name, unknown[0]),
			"The ZFS of NetBSD does not know "+strings.Join(unknown, ", ")+" of the pool.",
			"Make rpool again on NetBSD; a feature cannot be removed.")
	}
	ours := func(dev string) bool {
		i := slices.IndexFunc(l.Disks, func(d installed.Disk) bool { return d.Has(dev) })
		return slices.ContainsFunc(p.VDevs, func(v string) bool {
			return path.Base(v) == path.Base(dev) || i >= 0 && l.Disks[i].Has(v)
		})
	}
	var others []string
	known := false // a device of the pool is known by the name that blkid has
	for _, dev := range slices.Sorted(maps.Keys(l.Blkid)) {
		switch b := l.Blkid[dev]; {
		case b["TYPE"] != "zfs_member" || b["LABEL"] != name:
		case b["UUID"] != "" && b["UUID"] == p.Props["guid"], ours(dev):
			known = true
		default:
			others = append(others, dev)
		}
	}
	if known && len(others) > 0 {
		l.report("netbsd-second-rpool", Error, others[0], "This device has another pool called rpool: the RAM disk imports "+
			"any pool of this name by force, and may start or damage that one.", "Import that pool under another name, and "+
			"export it again: zpool import -N GUID other; zpool export other")
	}
}

// checkModules checks that the root has the modules of its kernel.
func (l *linter) checkModules() {
	const folder = "stand/amd64"
	if l.OS.Version == "" || l.root == nil {
		return
	}
	all := l.root.folder(folder)
	if len(all) == 0 || slices.ContainsFunc(all, func(e fs.DirEntry) bool {
		return sameRelease(e.Name(), l.OS.Version)
	}) {
		return
	}
	l.report("netbsd-root-modules", Error, folder, "The root has no modules of NetBSD "+l.OS.Version+
		": the kernel loads none after the start.", "tar -xpf modules.tar.xz -C / with the set of this release")
}
