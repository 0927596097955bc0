//go:build linux || netbsd || freebsd

package guestinit

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
)

// Sizes of network interface requests of the BSDs.
const (
	ifNameSize   = 16
	sockaddrSize = 16
)

// aliasRequest encodes the argument of SIOCAIFADDR, which adds an IPv4 address
// to an interface: its name, then address, broadcast address and mask, each as
// a sockaddr_in. FreeBSD appends a number of its own, zero here.
//
// Source: struct ifaliasreq in sys/net/if.h of NetBSD and FreeBSD; struct
// sockaddr_in in sys/netinet/in.h.
func aliasRequest(system, name string, addr netip.Prefix) ([]byte, error) {
	if len(name) == 0 || len(name) >= ifNameSize {
		return nil, fmt.Errorf("the name of an interface must have 1 to %d bytes (got %q)", ifNameSize-1, name)
	}
	if !addr.IsValid() || !addr.Addr().Is4() {
		return nil, fmt.Errorf("%v is not an IPv4 address with a prefix length", addr)
	}
	ip := addr.Addr().As4()
	mask := [4]byte(net.CIDRMask(addr.Bits(), 32))
	var broadcast [4]byte
	for i := range ip {
		broadcast[i] = ip[i] | ^mask[i]
	}
	b := make([]byte, ifNameSize, ifNameSize+3*sockaddrSize+4)
	copy(b, name)
	for _, a := range [][4]byte{ip, broadcast, mask} {
		const inet = 2 // AF_INET
		b = append(b, sockaddrSize, inet, 0, 0)
		b = append(b, a[:]...)
		b = append(b, make([]byte, sockaddrSize-8)...)
	}
	if system == "freebsd" {
		b = binary.LittleEndian.AppendUint32(b, 0) // ifra_vhid
	}
	return b, nil
}

// tmpfsArgs encodes the argument of mount(2) of NetBSD for a tmpfs: version,
// inodes, bytes, owner, group and mode. 0 inodes or bytes are the kernel's
// default.
//
// Source: struct tmpfs_args in sys/fs/tmpfs/tmpfs_args.h of NetBSD.
func tmpfsArgs(bytes int64, mode uint32) []byte {
	b := make([]byte, 40)
	binary.LittleEndian.PutUint32(b[0:], 1) // TMPFS_ARGS_VERSION
	binary.LittleEndian.PutUint64(b[16:], uint64(bytes))
	binary.LittleEndian.PutUint32(b[32:], mode)
	return b
}

// A deviceNode is a device of NetBSD.
type deviceNode struct {
	name         string
	mode         uint32
	major, minor uint32
}

// netBSDNodes are the devices of NetBSD on amd64 that programs expect. Other
// architectures have other numbers.
//
// Source: etc/MAKEDEV.tmpl and sys/arch/amd64/conf/majors.amd64 of NetBSD.
var netBSDNodes = []deviceNode{
	{"console", 0o600, 0, 0}, {"tty", 0o666, 1, 0}, {"mem", 0o640, 2, 0}, {"kmem", 0o640, 2, 1},
	{"null", 0o666, 2, 2}, {"zero", 0o666, 2, 12}, {"stdin", 0o666, 22, 0}, {"stdout", 0o666, 22, 1},
	{"stderr", 0o666, 22, 2}, {"random", 0o444, 46, 0}, {"urandom", 0o644, 46, 1}, {"ptmx", 0o666, 165, 0},
	{"ptm", 0o666, 165, 1},
}

// number is the device number of NetBSD.
//
// Source: makedev in sys/sys/types.h of NetBSD.
func (n deviceNode) number() uint64 {
	return uint64(n.major<<8&0xfff00 | n.minor<<12&0xfff00000 | n.minor&0xff)
}
