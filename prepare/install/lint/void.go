package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"bakeoff/base/lazy"
)

var voidKernel = lazy.Compile(`^linux([0-9]+\.[0-9]+|-lts|-mainline)$`)

// checkVoid checks what only Void Linux has.
func (l *linter) checkVoid() {
	if l.OS.ID != "void" {
		return
	}
	l.checkVoidKernel()
	l.checkVoidDesktop()
	v := assignments(l.text("etc/rc.conf"), map[string]string{})
	configured, known := l.xbpsConfig()
	_, nonfree := l.Packages["void-repo-nonfree"]
	nonfree = nonfree || !known
	for _, line := range configured {
		nonfree = nonfree || strings.Contains(line.text, "/nonfree")
	}
	if l.Packages["intel-ucode"] != "" && !nonfree && l.root != nil {
		l.report("nonfree-missing", Warning, "packages",
			"intel-ucode comes from the repository nonfree, which is not configured: the microcode is not updated.",
			"xbps-install void-repo-nonfree")
	}
	zone := v["TIMEZONE"]
	target := l.link("etc/localtime")
	if zone != "" && target != "" && !strings.HasSuffix(target, "/"+zone) {
		l.report("timezone-twice", Warning, "etc/rc.conf", fmt.Sprintf(
			"TIMEZONE=%s replaces the link etc/localtime, which names %s, at each start.", zone, target), "Remove TIMEZONE.")
	}
	musl := l.OS.Libc == "musl" || l.Packages["musl"] != "" && l.Packages["glibc"] == ""
	if musl && len(lines(l.text("etc/default/libc-locales"))) > 0 {
		l.report(
			"musl-locales",
			Info,
			"etc/default/libc-locales",
			"musl has no locales, so this file has no effect.",
			"Remove it.",
		)
	}
}

// configLine is a line of a configuration.
type configLine struct{ file, text string }

// xbpsConfig returns the lines of the configuration of xbps, and whether all of its files are known.
func (l *linter) xbpsConfig() (out []configLine, known bool) {
	known = true
	for _, f := range l.dropIns(".conf", "usr/share/xbps.d", "etc/xbps.d") {
		for _, line := range lines(l.text(f)) {
			out = append(out, configLine{f, line})
			included, ok := strings.CutPrefix(line, "include=")
			if !ok {
				continue
			}
			if !path.IsAbs(included) {
				included = path.Join("/", path.Dir(f), included)
			}
			included = strings.TrimPrefix(path.Clean(included), "/")
			known = known && l.exists(included)
			for _, line := range lines(l.text(included)) {
				out = append(out, configLine{included, line})
			}
		}
	}
	return out, known
}

// checkVoidKernel checks that the kernel does not overtake ZFS.
func (l *linter) checkVoidKernel() {
	ignored := map[string]string{}
	where := "etc/xbps.d"
	configured, known := l.xbpsConfig()
	for _, line := range configured {
		if name, value, ok := strings.Cut(line.text, "="); ok && strings.TrimSpace(name) == "ignorepkg" {
			ignored[strings.TrimSpace(value)] = line.file
			where = line.file
		}
	}
	if l.Packages["zfs"] == "" && l.Packages["zfs-lts"] == "" {
		return
	}
	series := l.voidSeries()
	switch {
	case l.root == nil || !known:
	case l.followsLinux() && ignored["linux"] == "" && l.withoutModule() != "": // kernel-without-zfs
	case l.followsLinux() && ignored["linux"] == "":
		l.report("kernel-overtakes-zfs", Warning, "packages",
			"The package linux installs each new series of the kernel, even one that ZFS does not support yet.", followZFS)
	case len(series) > 0 && (ignored["linux"] == "" || ignored["linux-headers"] == ""):
		l.report(
			"kernel-overtakes-zfs",
			Warning,
			where,
			"base-system installs the package linux, whose kernel may be too new for ZFS. The configuration of xbps does not "+
				"ignore linux and its headers.",
			"ignorepkg=linux and ignorepkg=linux-headers in a file of etc/xbps.d",
		)
	}
	for _, headers := range l.voidHeaders() {
		l.reportHeaders(headers, "xbps-install ")
	}
}

// followZFS is how Void Linux gets no kernel that ZFS does not support.
const followZFS = "Install linux-lts or a linux6.x that ZFS supports, with its headers; " +
	"ignorepkg=linux and linux-headers in etc/xbps.d"

// followsLinux reports whether the package linux of Void installs each new series of the kernel.
func (l *linter) followsLinux() bool { return l.OS.ID == "void" && l.Packages["linux"] != "" }

// stayBehind says how a system gets no kernel that is too new, "" if it gets none.
func (l *linter) stayBehind() string {
	if l.followsLinux() {
		return " " + followZFS
	}
	return ""
}

// voidSeries returns the packages of Void with a series of kernels.
func (l *linter) voidSeries() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.Packages)), func(name string) bool {
		return !voidKernel.MatchString(name)
	})
}

// voidHeaders returns the packages of headers that the next kernels of Void need and that are missing.
func (l *linter) voidHeaders() (out []string) {
	if l.OS.ID != "void" || l.Packages["zfs"] == "" && l.Packages["zfs-lts"] == "" {
		return nil
	}
	for _, name := range l.voidSeries() {
		if _, ok := l.Packages[name+"-headers"]; !ok {
			out = append(out, name+"-headers")
		}
	}
	return out
}

// withoutModule returns the version of the newest kernel that is known to have no ZFS module, "" if there is none.
func (l *linter) withoutModule() string {
	version := ""
	for _, k := range l.Kernels {
		if isUnset(k.ZFSModule) && (version == "" || compareVersions(k.Version, version) > 0) {
			version = k.Version
		}
	}
	return version
}

// reportHeaders reports a package of headers that is missing.
func (l *linter) reportHeaders(headers, install string) {
	why := "Without " + headers + " the next kernel gets no ZFS module."
	if v := l.withoutModule(); v != "" && l.rootSet != "" {
		why += " Linux " + v + " has none, and cannot mount the root."
	}
	l.report("kernel-headers-missing", Error, "packages", why, install+headers)
}

// checkVoidDesktop checks services that disturb each other.
func (l *linter) checkVoidDesktop() {
	on := func(name string) bool {
		return slices.Contains(l.Services, name) || l.exists("etc/runit/runsvdir/default/"+name)
	}
	for _, name := range []string{"dhcpcd", "dhcpcd-eth0"} {
		if on(name) && on("NetworkManager") {
			l.report("services-conflict", Warning, "services", name+" and NetworkManager both configure the network.",
				"rm /etc/runit/runsvdir/default/"+name)
		}
	}
	if on("acpid") && (on("elogind") || l.Packages["elogind"] != "") {
		l.report("services-conflict", Warning, "services", "acpid and elogind both react to the power and sleep keys.",
			"rm /etc/runit/runsvdir/default/acpid")
	}
	for _, needs := range []string{"sddm", "NetworkManager", "polkitd"} {
		if on(needs) && !on("dbus") {
			l.report("service-needs-dbus", Error, "services", needs+" needs dbus, which is not enabled.",
				"ln -s /etc/sv/dbus /etc/runit/runsvdir/default/")
			break
		}
	}
	const wireplumber = "etc/pipewire/pipewire.conf.d/10-wireplumber.conf"
	plasma := ""
	for _, name := range []string{"plasma-workspace", "plasma-desktop", "kde-plasma"} {
		if v := l.Packages[name]; v != "" && plasma == "" {
			plasma = v
		}
	}
	if atLeast(plasma, "6.7.5") && l.exists(wireplumber) {
		l.report("wireplumber-twice", Warning, wireplumber,
			"Plasma starts WirePlumber itself: two instances run, and wpctl hangs.", "rm /"+wireplumber)
	}
	if t := l.link("etc/resolv.conf"); on("NetworkManager") && t != "" && !strings.Contains(t, "NetworkManager") &&
		!strings.Contains(t, "resolvconf") {
		l.report("resolv-conf-foreign", Warning, "etc/resolv.conf",
			"NetworkManager does not replace a link to "+t+": names are not resolved.",
			"ln -sf /run/NetworkManager/resolv.conf /etc/resolv.conf")
	}
}
