//go:build freebsd || openbsd || netbsd || dragonfly

package probe

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"bakeoff/base/facts"
)

// hardware reads sysctl, or the loader's environment if SMBIOS data are there
// (kenv(1) of FreeBSD and DragonFly).
func hardware() facts.Hardware {
	h := facts.Hardware{
		UUID:   firstText(sysctl, "machdep.dmi.system-uuid", "hw.uuid"),
		Serial: firstText(sysctl, "machdep.dmi.system-serial", "hw.serialno"),
		CPU:    processorModel(sysctl),
		MACs:   cards(physical),
	}
	if h.UUID == "" {
		h.UUID, _ = askProgram("kenv", "-q", "smbios.system.uuid")
	}
	if h.Serial == "" {
		h.Serial, _ = askProgram("kenv", "-q", "smbios.system.serial")
	}
	return h
}

// physical reports whether an interface is a network card, by its name: virtual
// interfaces have these prefixes.
func physical(name string) bool {
	for _, made := range []string{"lo", "bridge", "tap", "tun", "epair", "vlan", "wg", "lagg", "enc", "pflog", "veb",
		"vether", "vport"} {
		if strings.HasPrefix(name, made) {
			return false
		}
	}
	return true
}

// Boot returns a text that changes with each boot; "" if unknown.
func Boot() string {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return fmt.Sprint(tv.Unix())
}
