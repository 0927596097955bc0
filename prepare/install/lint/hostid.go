package lint

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/shell"
)

// defaultHostID is what the examples of ZFSBootMenu write into etc/hostid.
const defaultHostID = 0x00bab10c

// hostID returns the hostid of the system.
func (l *linter) hostID() (uint32, bool) {
	data := l.text("etc/hostid")
	if len(data) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32([]byte(data)), true
}

// poolHostID returns the hostid of the system that wrote the pool of the root. That of
// ZFSBootMenu, and 0, are of no system.
func (l *linter) poolHostID() (uint32, bool) {
	_, p := l.rootPool()
	id, ok := parseID(p.Label.HostID)
	return id, ok && id != 0 && id != defaultHostID
}

// parseID reads a hexadecimal hostid, with or without 0x.
func parseID(text string) (uint32, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 32)
	return uint32(n), err == nil
}

// sameID compares a hexadecimal hostid, with or without 0x, with a number.
func sameID(text string, id uint32) bool {
	n, ok := parseID(text)
	return ok && n == id
}

// writeHostID is the command that writes etc/hostid. It takes over the hostid of the pool, which
// otherwise refuses the system.
func (l *linter) writeHostID() string {
	id, ok := l.poolHostID()
	switch {
	case ok && l.OS.ID == "nixos":
		return fmt.Sprintf(`networking.hostId = "%08x", then %s`, id, l.rebuild())
	case ok:
		return fmt.Sprintf("zgenhostid -f 0x%08x, then %s", id, l.rebuild())
	}
	return "zgenhostid -f, then " + l.rebuild() + ", and in a rescue system with this etc/hostid " + l.adoptPool()
}

// adoptPool is the command that writes the hostid of the running system into the pool of the root.
func (l *linter) adoptPool() string {
	pool, _ := l.rootPool()
	return fmt.Sprintf("zpool import -f -N %[1]s and zpool export %[1]s", shell.Quote(pool))
}

var decimal = lazy.Compile(`^[0-9]+$`)

// checkHostIDArgument checks spl_hostid= and spl.spl_hostid=.
func (l *linter) checkHostIDArgument(args kernelArguments) {
	want, known := l.hostID()
	for _, name := range []string{"spl_hostid", "spl.spl_hostid"} {
		v, ok := argument(args.line, name)
		if !ok {
			continue
		}
		where := args.at(name)
		right := name + "=0x" + v
		if known {
			right = fmt.Sprintf("%s=0x%08x", name, want)
		}
		id, isID := parseID(v)
		if name == "spl.spl_hostid" {
			id, isID = moduleNumber(v)
		}
		switch _, isHex := parseID(v); {
		case !isID && isHex, isID && known && id != want && decimal.MatchString(v) && sameID(v, want):
			l.report("hostid-argument-form", Warning, where,
				"The module reads "+name+"="+v+" as a decimal number, or ignores it, because it has no 0x.",
				args.then("Write "+right))
		case name == "spl_hostid" && l.menu && decimal.MatchString(v):
			l.report("hostid-argument-form", Warning, where,
				"ZFSBootMenu reads spl_hostid="+v+" as a decimal number, because it has no 0x.",
				args.then("Write "+right))
		case isID && id == 0 && name == "spl.spl_hostid": // the module then reads etc/hostid
		case known && (!isID || id != want):
			l.report("hostid-argument-differs", Error, where,
				fmt.Sprintf("The kernel starts with the hostid %s, but etc/hostid has 0x%08x.", v, want),
				args.then("Remove the argument (the initramfs has the hostid)"))
		}
	}
}

// moduleNumber reads a number as the kernel reads a parameter of a module: decimal, octal after 0,
// or hexadecimal after 0x.
func moduleNumber(text string) (uint32, bool) {
	base, number := 10, text
	if lower := strings.ToLower(text); strings.HasPrefix(lower, "0x") {
		base, number = 16, lower[2:]
	} else if strings.HasPrefix(text, "0") {
		base = 8
	}
	n, err := strconv.ParseUint(number, base, 64)
	return uint32(n), err == nil
}

// checkHostID compares the hostids of the system, its images and its pool.
func (l *linter) checkHostID() {
	const where = "etc/hostid"
	if l.rootSet == "" || !l.linux() {
		return
	}
	id, ok := l.hostID()
	switch {
	case !l.exists(where):
		l.report("hostid-missing", Error, where,
			"Without etc/hostid, the next initramfs gets an arbitrary hostid, and then refuses the pool as that of another "+
				"machine.", l.writeHostID())
		return
	case !ok:
		l.report("hostid-form", Error, where, "etc/hostid must have 4 bytes, a number in little endian, not text.",
			l.writeHostID())
		return
	case id == 0:
		l.report("hostid-zero", Error, where, "The hostid is 0, which is no protection: ZFS cannot tell whether another "+
			"machine uses the pool.", l.writeHostID())
		return
	case id == defaultHostID:
		l.report("hostid-literal", Warning, where,
			"0x00bab10c is the hostid in the examples of ZFSBootMenu. Every machine set up by these examples has the same "+
				"hostid, and does not refuse a pool that another such machine uses.", l.writeHostID())
	}
	for _, o := range l.moduleOptions("spl") {
		v, ok := strings.CutPrefix(o.argument, "spl_hostid=")
		if n, isNumber := moduleNumber(v); ok && n != id && (n != 0 || !isNumber) {
			l.report("hostid-argument-differs", Error, o.file, fmt.Sprintf(
				"The module starts with the hostid %s, but etc/hostid has 0x%08x.", v, id),
				"Remove "+settingOf(o.argument)+", then "+l.rebuild()+".")
		}
	}
	l.compareHostIDs(where, id)
}

// compareHostIDs compares the hostid of the system with those of its images and its pool.
func (l *linter) compareHostIDs(where string, id uint32) {
	pool, p := l.rootPool()
	stale, other := []string{}, ""
	for _, k := range l.Kernels {
		image, there := l.Initramfs[k.Initramfs]
		if there && image.HostID != nil && !sameID(*image.HostID, id) {
			stale, other = append(stale, k.Initramfs), *image.HostID
		}
	}
	swapped := bits.ReverseBytes32(id)
	switch _, adopts := l.poolHostID(); {
	case sameID(p.Label.HostID, swapped) && swapped != id, sameID(other, swapped) && swapped != id:
		l.report("hostid-form", Error, where, fmt.Sprintf(
			"etc/hostid has the bytes of 0x%08x in the wrong order: it is a number in little endian.", swapped),
			fmt.Sprintf("zgenhostid -f 0x%08x, then %s", swapped, l.rebuild()))
	case len(stale) > 0:
		l.report("hostid-initramfs-differs", Error, stale[0], fmt.Sprintf(
			"The initramfs has the hostid %s, and etc/hostid 0x%08x (%s).", other, id, strings.Join(stale, ", ")),
			l.rebuild())
	case p.Label.HostID == "" || sameID(p.Label.HostID, id):
	case adopts:
		l.report("hostid-pool-differs", Error, where, fmt.Sprintf(
			"Pool %s was last used by the host %s; this system has the hostid 0x%08x. It cannot import its own root without "+
				"force.",
			pool, p.Label.HostID, id), l.writeHostID())
	default:
		l.report("hostid-pool-differs", Error, where, fmt.Sprintf(
			"Pool %s was last used with the hostid %s, which is not a valid hostid; this system has 0x%08x. It cannot import "+
				"its own root without force.", pool, p.Label.HostID, id),
			fmt.Sprintf("In a rescue system, zgenhostid -f 0x%08x, then %s", id, l.adoptPool()))
	}
}

// hasHostID reports whether the arguments of a kernel have a hostid.
func hasHostID(cmdline string) bool {
	return slices.ContainsFunc(kernelWords(cmdline), func(a string) bool {
		return strings.HasPrefix(a, "spl_hostid=") || strings.HasPrefix(a, "spl.spl_hostid=")
	})
}
