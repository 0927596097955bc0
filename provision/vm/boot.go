package vm

import (
	"net/netip"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/guest/qemu"
)

// Boot is what a guest starts from: the files that its image stands for. It is found once,
// when the guest is created.
type Boot struct {
	// Container is what a container starts from; nil is a machine.
	Container *Container `json:"container,omitempty"`

	Machine string      `json:"machine,omitempty"` // qemu.MicroVM or qemu.Q35
	Kernel  string      `json:"kernel,omitempty"`
	Initrd  string      `json:"initrd,omitempty"`
	Append  string      `json:"append,omitempty"`
	Bare    bool        `json:"bare,omitempty"` // Append is the whole command line
	NoACPI  bool        `json:"no_acpi,omitempty"`
	Wants   string      `json:"firmware,omitempty"`
	Disks   []qemu.Disk `json:"disks,omitempty"`
	Reboots bool        `json:"reboots,omitempty"`
	// Slots is the number of slots for disks that a machine has.
	Slots int `json:"slots,omitempty"`
	// Agent tells that the agent answers in the machine, on a port of a virtio console.
	Agent bool `json:"agent,omitempty"`
	// Address is that of the guest in the network of QEMU if it does not ask for one.
	Accel string `json:"accel,omitempty"` // kvm or tcg; "" is the better one

	Ports  []Port  `json:"ports,omitempty"`
	Shares []Share `json:"shares,omitempty"`
	// Remove tells that the guest is deleted when it ends.
	Remove bool `json:"remove,omitempty"`
}

// Container is the root and the program of a container.
type Container struct {
	Root  string       `json:"root"` // never written to
	Start driver.Start `json:"start"`
}

// Share is a folder of the host that the guest sees.
type Share struct {
	From     string `json:"from"`
	To       string `json:"to"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Port is a port of the host that leads to a TCP port of the guest. Host port 0 is any.
type Port struct {
	Host  netip.AddrPort `json:"host"`
	Guest uint16         `json:"guest"`
}

// String is the form that ParsePort reads.
func (p Port) String() string { return p.Host.String() + ":" + strconv.Itoa(int(p.Guest)) }

// loopback is where ports of guests are reached unless the user names another address.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// ParsePort reads GUEST, HOST:GUEST or ADDRESS:HOST:GUEST, with an optional /tcp.
func ParsePort(text string) (Port, error) {
	wrong := func(why string) (Port, error) {
		return Port{}, fault.WithFix(fault.New(fault.Invalid, "%q is not a port to publish: %s", text, why),
			"write GUEST, HOST:GUEST or ADDRESS:HOST:GUEST, such as 8080:80 or 0.0.0.0:8080:80")
	}
	rest, protocol, named := strings.Cut(text, "/")
	if named && protocol != "tcp" {
		return wrong("only tcp is forwarded")
	}
	parts := []string{}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		parts, rest = append(parts, rest[i+1:]), rest[:i]
		if i = strings.LastIndexByte(rest, ':'); i >= 0 {
			parts = append(parts, rest[i+1:], strings.Trim(rest[:i], "[]"))
		} else {
			parts = append(parts, rest)
		}
	} else {
		parts = append(parts, rest)
	}
	inside, err := strconv.ParseUint(parts[0], 10, 16)
	if err != nil || inside == 0 {
		return wrong("the port of the guest must be between 1 and 65535")
	}
	outside, at := uint64(0), loopback
	if len(parts) > 1 && parts[1] != "" {
		if outside, err = strconv.ParseUint(parts[1], 10, 16); err != nil {
			return wrong("the port of the host must be between 0 and 65535")
		}
	}
	if len(parts) > 2 {
		if at, err = netip.ParseAddr(parts[2]); err != nil || at.Zone() != "" {
			return wrong("the address must be an IP address of this machine")
		}
	}
	return Port{Host: netip.AddrPortFrom(at, uint16(outside)), Guest: uint16(inside)}, nil
}

// ParseShare reads DIR:PATH or DIR:PATH:ro.
func ParseShare(text string) (Share, error) {
	wrong := func(why string) (Share, error) {
		return Share{}, fault.WithFix(fault.New(fault.Invalid, "%q is not a folder to share: %s", text, why),
			"write DIR:PATH or DIR:PATH:ro, such as /srv/data:/data")
	}
	body, ro := strings.CutSuffix(text, ":ro")
	i := strings.LastIndexByte(body, ':')
	if i <= 0 {
		return wrong("it has no path in the guest")
	}
	s := Share{From: body[:i], To: body[i+1:], ReadOnly: ro}
	if !strings.HasPrefix(s.To, "/") || s.To == "/" || strings.ContainsAny(s.To, "\x00\n") ||
		strings.Contains(s.To+"/", "/../") {
		return wrong("the path in the guest must be absolute, below / and without ..")
	}
	return s, nil
}
