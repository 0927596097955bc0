//go:build !linux && !freebsd && !openbsd && !netbsd && !dragonfly && !windows

package probe

import "strings"

import "bakeoff/base/facts"

// hardware runs smbios(8) of illumos.
func hardware() facts.Hardware {
	var h facts.Hardware
	for line := range strings.Lines(askAll("smbios", "-t", "SMB_TYPE_SYSTEM")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "UUID":
			h.UUID = strings.TrimSpace(value)
		case "Serial Number":
			h.Serial = strings.TrimSpace(value)
		}
	}
	h.MACs = cards(func(string) bool { return true })
	return h
}

// Boot returns a text that changes with each boot; "" if unknown.
func Boot() string { line, _ := askProgram("who", "-b"); return line }
