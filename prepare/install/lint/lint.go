// Package lint finds what will go wrong on an installed system whose root is on ZFS: a
// system that will not boot, will not resume, or shows a key to whoever finds the disk.
// It reads facts (package installed) and files of the system, and changes nothing.
package lint

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/prepare/install/installed"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the system does not boot or resume, loses data or shows a key
	Warning Severity = "warning" // it works now, and breaks by an ordinary event
	Info    Severity = "info"    // it works, other than its configuration says
)

// Finding is something to mend. Where is a path below the root without the leading slash,
// "DATASET PROPERTY", "POOL PROPERTY", a key of the facts, or a device. Fix is the command
// or the line that mends it.
type Finding struct {
	Name     string   `json:"finding"`
	Where    string   `json:"where"`
	Severity Severity `json:"severity"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix"`
}

// Check returns the findings of a system, the worst first. root has its files. If root is nil, the
// files are unknown. Each file that cannot be read is a finding, and what depends on it is not.
func Check(s installed.System, root fs.FS) []Finding {
	l := newLinter(s, root)
	for _, check := range []func(*linter){
		(*linter).checkCommandLines, (*linter).checkForcedImport, (*linter).checkBootEnvironments, (*linter).checkMenu,
		(*linter).checkHostID,
		(*linter).checkSwap, (*linter).checkCrypttab, (*linter).checkMemoryLimit, (*linter).checkImages,
		(*linter).checkInitramfs, (*linter).checkDracut, (*linter).checkInitramfsTools,
		(*linter).checkResumeOrder, (*linter).checkKeys,
		(*linter).checkPools, (*linter).checkAlignment, (*linter).checkStaleLabels, (*linter).checkGRUB,
		(*linter).checkFirmware, (*linter).checkEntries, (*linter).checkESPs, (*linter).checkFstab,
		(*linter).checkKernels, (*linter).checkUnifiedImages,
		(*linter).checkVoid, (*linter).checkDebian, (*linter).checkServices, (*linter).checkNetBSD,
	} {
		if l.root != nil {
			l.root.missed = false
		}
		check(l)
	}
	l.reportUnreadable()
	if root == nil { // the configuration is unknown: what it seems to lack may be there
		l.findings = slices.DeleteFunc(l.findings, func(f Finding) bool {
			return strings.HasPrefix(f.Where, "etc/") &&
				!isKey(l.allKeys(), "/"+f.Where)
		})
	}
	l.mergeEqual()
	rank := []Severity{Error, Warning, Info}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(rank, a.Severity), slices.Index(rank, b.Severity))
	})
	return l.findings
}

// linter is a system, and what follows from its facts.
type linter struct {
	installed.System
	root     *tree // nil if the files are unknown
	findings []Finding

	dracutFiles *dracutConfig // what dracut returns

	tool      string // that makes the initial RAM disks: dracut, initramfs-tools, or "" if unknown
	menu      bool   // ZFSBootMenu starts the system
	rootSet   string // the dataset that is /, "" if / is not on ZFS
	resume    *cryptEntry
	keys      []key // of what is opened while the system starts
	otherKeys []key // of other datasets

	bootElsewhere bool // /boot is not in the boot environment, which is reported
}

func newLinter(s installed.System, root fs.FS) *linter {
	l := &linter{System: s}
	if root != nil {
		l.root = &tree{FS: root}
	}
	l.findVersions()
	if arch, ok := strings.CutSuffix(s.OS.Arch, "-musl"); ok { // as Void writes it
		l.OS.Arch, l.OS.Libc = arch, "musl"
	}
	switch {
	case s.Tools["dracut"] != "" || s.Packages["dracut"] != "":
		l.tool = "dracut"
	case s.Packages["zfs-initramfs"] != "" || s.Packages["initramfs-tools"] != "" || s.Tools["initramfs_tools"] != "":
		l.tool = "initramfs-tools"
	}
	for _, tool := range []string{"mkinitcpio", "mkinitfs"} {
		if l.tool == "" && (s.Tools[tool] != "" || s.Packages[tool] != "") {
			l.tool = tool
		}
	}
	if s.Packages["zfs-initramfs"] != "" && s.Packages["zfs-dracut"] == "" {
		l.tool = "initramfs-tools"
	}
	if s.ZBM == nil {
		l.Bootloader = cmp.Or(s.Bootloader, s.EFI.Bootloader())
		if strings.EqualFold(l.Bootloader, "zfsbootmenu") {
			l.ZBM = &installed.ZBM{}
		}
	}
	// The last ones start ZFSBootMenu, as they read no pools.
	l.menu = l.ZBM != nil && (slices.Contains([]string{"", "zfsbootmenu", "refind", "syslinux", "extlinux"},
		strings.ToLower(l.Bootloader)) || l.chainsMenu())
	for _, m := range s.Mounts {
		if m.Target == "/" && m.Type == "zfs" {
			l.rootSet = m.Source
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Pools)) {
		if b := s.Pools[name].Props["bootfs"]; l.rootSet == "" && b != "" && b != "-" && installed.PoolOf(b) == name {
			l.rootSet = b
		}
	}
	// lsinitrd lists files without the leading slash.
	l.Initramfs = maps.Clone(l.Initramfs)
	for name, i := range l.Initramfs {
		i.Files = slices.Clone(i.Files)
		for n, f := range i.Files {
			i.Files[n] = "/" + strings.TrimPrefix(f, "/")
		}
		l.Initramfs[name] = i
	}
	l.nameSwaps()
	l.findResume()
	l.findKeys()
	return l
}

// programs are the packages that have the tools whose versions count.
var programs = map[string][]string{
	"cryptsetup": {"cryptsetup", "cryptsetup-bin"}, "dracut": {"dracut", "dracut-core"},
	"grub": {"grub-efi-amd64", "grub-efi-amd64-bin", "grub-efi-arm64", "grub-pc", "grub-common", "grub2-common",
		"grub2", "grub", "grub-x86_64-efi"},
	"systemd": {"systemd"}, "util_linux": {"util-linux"}, "zfs": {"zfsutils-linux", "zfs", "zfs-lts", "zfs-utils"},
}

// findVersions takes the versions of tools that nobody asked from their packages.
func (l *linter) findVersions() {
	l.Tools = maps.Clone(l.Tools)
	for tool, packages := range programs {
		for _, name := range packages {
			_, version, epoch := strings.Cut(l.Packages[name], ":")
			if !epoch {
				version = l.Packages[name]
			}
			if l.Tools[tool] == "" && version != "" {
				if l.Tools == nil {
					l.Tools = map[string]string{}
				}
				l.Tools[tool] = release(version)
			}
		}
	}
}

// isLocal reports whether a property of a user is set on a dataset itself. Where its source is unknown, it is if the
// parent does not have it, or another value.
func (l *linter) isLocal(dataset, prop string) bool {
	p, ok := l.Datasets[dataset][prop]
	if !ok || p.Unknown || p.Source != "" {
		return ok && !p.Unknown && p.Local()
	}
	parent := installed.Parent(dataset)
	above, known := l.Datasets[parent]
	v, inherits := above[prop]
	return parent == "" || known && (!inherits || !v.Unknown && v.Value != p.Value)
}

// chainsMenu reports whether systemd-boot is known to start no kernel itself, and thus ZFSBootMenu: it reads no
// pools, and the kernels are in one.
func (l *linter) chainsMenu() bool {
	if l.Bootloader != "systemd-boot" || len(l.UKI) > 0 || len(l.Kernels) == 0 || len(l.ESPFiles) == 0 {
		return false
	}
	for _, files := range l.ESPFiles {
		for f := range files {
			if isKernel(f) || strings.EqualFold(path.Base(f), "linux") {
				return false
			}
		}
	}
	return !slices.ContainsFunc(l.Kernels, func(k installed.Kernel) bool {
		return l.mountOf("/"+k.Image).Type != "zfs"
	})
}

// nameSwaps removes swaps without a name, and replaces /dev/dm-0, as /proc/swaps has it, by the name of the
// only mapped swap.
func (l *linter) nameSwaps() {
	all := len(l.Swaps)
	l.Swaps = slices.DeleteFunc(slices.Clone(l.Swaps), func(s installed.Swap) bool { return s.Device == "" })
	if all > 0 && len(l.Swaps) == 0 {
		l.Swaps = nil // unknown
	}
	mapped := ""
	for dev, b := range l.Blkid {
		if b["TYPE"] == "swap" && strings.HasPrefix(dev, "/dev/mapper/") {
			if mapped != "" {
				return
			}
			mapped = dev
		}
	}
	for i, s := range l.Swaps {
		if mapped != "" && strings.HasPrefix(s.Device, "/dev/dm-") {
			l.Swaps[i].Device = mapped
		}
	}
}

// findResume finds the encrypted swap from which the system resumes.
func (l *linter) findResume() {
	if !l.Hibernation {
		return
	}
	for _, e := range l.crypttab() {
		used := slices.ContainsFunc(l.Swaps, func(s installed.Swap) bool { return s.Device == e.device() }) ||
			slices.ContainsFunc(l.fstab(), func(f fstabEntry) bool { return f.kind == "swap" && f.source == e.device() })
		if used && !e.random() {
			l.resume = &e
			return
		}
	}
}

// dracut returns the configuration of dracut. It is read once, as a shell reads it.
func (l *linter) dracut() dracutConfig {
	if l.root == nil {
		return dracutConfig{}
	}
	if l.dracutFiles == nil {
		missed := l.root.missed
		l.root.missed = false
		c := readDracut(l.root)
		c.missed = l.root.missed
		l.dracutFiles, l.root.missed = &c, missed
	}
	l.root.missed = l.root.missed || l.dracutFiles.missed
	return *l.dracutFiles
}

// crypttab and fstab return the lines of these files.
func (l *linter) crypttab() []cryptEntry { return readCrypttab(l.text("etc/crypttab")) }
func (l *linter) fstab() []fstabEntry    { return readFstab(l.text("etc/fstab")) }

// reportUnreadable reports the files that the checks needed and could not read.
func (l *linter) reportUnreadable() {
	if l.root == nil {
		return
	}
	l.root.missed = false
	for _, p := range l.root.problems {
		l.report("file-unreadable", Warning, p.name, "lint cannot read it ("+p.why+"), and skipped the checks that need it.",
			"Correct the file, or run lint as a user who may read it; if probe wrote the facts, run probe as that user.")
	}
}

// report adds a finding, unless it may come from a file that could not be read.
func (l *linter) report(name string, s Severity, where, why, fix string) {
	if l.root != nil && l.root.missed {
		return
	}
	l.findings = append(l.findings, Finding{name, where, s, why, fix})
}

// mergeEqual makes one finding of those that differ only in their place, such as the images of two kernels.
func (l *linter) mergeEqual() {
	var merged []Finding
	var fixes [][]string // of each
	for _, f := range l.findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			why, _, _ := strings.Cut(m.Why, alsoAt)
			return m.Name == f.Name && m.Severity == f.Severity && why == f.Why
		})
		switch {
		case i < 0 || f.Name == "file-unreadable":
			merged, fixes = append(merged, f), append(fixes, []string{f.Fix})
		case merged[i].Where != f.Where:
			m := &merged[i]
			m.Why += alsoAt + f.Where + "."
			if !slices.Contains(fixes[i], f.Fix) {
				separator := "; "
				if strings.HasSuffix(m.Fix, ".") {
					separator = " "
				}
				m.Fix += separator + f.Fix
				fixes[i] = append(fixes[i], f.Fix)
			}
		}
	}
	l.findings = merged
}

// alsoAt begins another place of a finding.
const alsoAt = " The same holds for "

// encryptionRoot returns the dataset whose key opens a dataset, "" if it is not encrypted.
func (l *linter) encryptionRoot(dataset string) string {
	d := l.Datasets[dataset]
	if e := d["encryption"].Value; e == "" || e == "off" {
		return ""
	}
	if r := d["encryptionroot"].Value; r != "" && r != "-" {
		return r
	}
	return ""
}

// environments returns the boot environments: datasets that are /.
func (l *linter) environments() (out []string) {
	for _, name := range l.Names() {
		d := l.Datasets[name]
		m := d["mountpoint"].Value
		if m == "/" || m == "legacy" && (name == l.rootSet || d["org.zfsbootmenu:active"].Value == "on") {
			out = append(out, name)
		}
	}
	return out
}

// rootPool returns the name of the pool with the root, and the pool.
func (l *linter) rootPool() (string, installed.Pool) {
	name := installed.PoolOf(l.rootSet)
	return name, l.Pools[name]
}

// newest returns the newest kernel.
func (l *linter) newest() (installed.Kernel, bool) {
	if len(l.Kernels) == 0 {
		return installed.Kernel{}, false
	}
	return slices.MaxFunc(
		l.Kernels,
		func(a, b installed.Kernel) int { return compareVersions(a.Version, b.Version) },
	), true
}

// systemd reports whether systemd starts the system.
func (l *linter) systemd() bool { return l.OS.Init == "systemd" }

// linux reports whether the system may be Linux.
func (l *linter) linux() bool {
	others := []string{"netbsd", "freebsd", "ghostbsd", "illumos", "omnios", "openindiana", "smartos"}
	return !slices.Contains(others, l.OS.ID)
}

// isSet reports whether a fact is known to be true.
func isSet(b *bool) bool { return b != nil && *b }

// isUnset reports whether a fact is known to be false.
func isUnset(b *bool) bool { return b != nil && !*b }
