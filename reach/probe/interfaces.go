package probe

import (
	"net"
	"slices"
	"strings"
)

// interfacesOf reads what SIOCGIFCONF of NetBSD reports: for each address of an
// interface, of the link too, a struct ifreq of size bytes with the interface's
// name and a sockaddr.
//
// Source: struct ifreq in sys/net/if.h, struct sockaddr_dl in sys/net/if_dl.h of
// NetBSD.
func interfacesOf(list []byte, size int) []net.Interface {
	const (
		nameSize = 16 // IFNAMSIZ
		family   = nameSize + 1
		nameLen  = nameSize + 5
		addrLen  = nameSize + 6
		data     = nameSize + 8
		link     = 18 // AF_LINK
	)
	var found []net.Interface
	for ; size >= data && len(list) >= size; list = list[size:] {
		name, _, _ := strings.Cut(string(list[:nameSize]), "\x00")
		at := slices.IndexFunc(found, func(i net.Interface) bool { return i.Name == name })
		if at < 0 {
			at, found = len(found), append(found, net.Interface{Name: name})
		}
		from := data + int(list[nameLen])
		to := from + int(list[addrLen])
		if list[family] == link && to > from && to <= size {
			found[at].HardwareAddr = net.HardwareAddr(slices.Clone(list[from:to]))
		}
	}
	return found
}
