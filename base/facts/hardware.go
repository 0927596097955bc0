package facts

import (
	"fmt"
	"slices"
	"strings"
)

// Hardware distinguishes one machine from another, whatever system it runs. An
// unknown field is empty.
type Hardware struct {
	// UUID and Serial are the firmware's (SMBIOS type 1), in lower case.
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
	// MACs are the addresses of network cards, sorted.
	MACs []string `json:"macs,omitempty"`
	CPU  string   `json:"cpu,omitempty"` // its model
}

// swapped returns a UUID with its first three fields in the other byte order.
// SMBIOS 2.6 (DSP0134, 7.2.1) specifies little-endian; older firmware and some
// systems use the other order.
func swapped(uuid string) string {
	if len(uuid) != 36 {
		return ""
	}
	pairs := func(s string) string {
		var out string
		for i := len(s); i >= 2; i -= 2 {
			out += s[i-2 : i]
		}
		return out
	}
	return pairs(uuid[:8]) + "-" + pairs(uuid[9:13]) + "-" + pairs(uuid[14:18]) + uuid[18:]
}

// Same compares two machines. by says what shows that they are the same; it is
// "" if they are not, and why gives the reason. UUID, serial number and network
// cards are compared in this order; the first one that both machines have
// decides. If there is none, the machines count as different.
func (h Hardware) Same(o Hardware) (by, why string) {
	switch {
	case h.UUID != "" && o.UUID != "":
		if h.UUID == o.UUID || h.UUID == swapped(o.UUID) {
			return "uuid " + h.UUID, ""
		}
		return "", fmt.Sprintf("its UUID is %s and was %s", o.UUID, h.UUID)
	case h.Serial != "" && o.Serial != "":
		if h.Serial == o.Serial {
			return "serial number " + h.Serial, ""
		}
		return "", fmt.Sprintf("its serial number is %s and was %s", o.Serial, h.Serial)
	case len(h.MACs) > 0 && len(o.MACs) > 0:
		for _, m := range h.MACs {
			if slices.Contains(o.MACs, m) {
				return "network card " + m, ""
			}
		}
		return "", fmt.Sprintf("it has the network cards %s and had %s", strings.Join(o.MACs, ", "),
			strings.Join(h.MACs, ", "))
	}
	return "", "neither UUID, serial number nor network cards are known for both"
}
