package probe

import (
	"net"
	"slices"
	"strings"

	"bakeoff/base/facts"
)

// ReadHardware describes the hardware of this machine.
func ReadHardware() facts.Hardware {
	h := hardware()
	h.UUID, h.Serial = meaningful(h.UUID), meaningful(h.Serial)
	h.CPU = strings.Join(strings.Fields(printable(h.CPU)), " ")
	slices.Sort(h.MACs)
	h.MACs = slices.Compact(h.MACs)
	return h
}

// unfilled are values of firmware fields that the maker never set.
var unfilled = []string{"", "none", "not specified", "not applicable", "system serial number", "default string",
	"to be filled by o.e.m.", "0", "0123456789", "123456789", "unknown",
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
	"03000200-0400-0500-0006-000700080009"}

// meaningful returns a firmware field in lower case; "" if the maker never set
// it.
func meaningful(s string) string {
	s = strings.ToLower(printable(s))
	if slices.Contains(unfilled, s) {
		return ""
	}
	return s
}

// cards lists the addresses of network interfaces that keep accepts.
func cards(keep func(name string) bool) []string {
	all, err := Interfaces()
	if err != nil {
		return nil
	}
	return cardsOf(all, keep)
}

// cardsOf leaves out locally administered addresses (IEEE 802), which belong to
// bridges and virtual links, unless there are no others, as in virtual machines.
func cardsOf(interfaces []net.Interface, keep func(name string) bool) []string {
	var burnt, made []string
	for _, i := range interfaces {
		if len(i.HardwareAddr) != 6 || i.Flags&net.FlagLoopback != 0 || !keep(i.Name) {
			continue
		}
		if i.HardwareAddr[0]&2 == 0 {
			burnt = append(burnt, i.HardwareAddr.String())
		} else {
			made = append(made, i.HardwareAddr.String())
		}
	}
	if len(burnt) > 0 {
		return burnt
	}
	return made
}
