package probe

import (
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Interfaces lists the network interfaces with their names and hardware addresses.
// net.Interfaces asks the kernel for the list of NetBSD 7, which a kernel without
// COMPAT_70 does not have.
//
// Source: NET_RT_OIFLIST in sys/sys/socket.h, SIOCGIFCONF in sys/net/if.c of NetBSD.
func Interfaces() ([]net.Interface, error) {
	// The size of struct ifreq is part of the number of a request that takes one.
	const size = unix.SIOCGIFFLAGS >> 16 & 0x1fff
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	list := make([]byte, 256*size)
	request := struct {
		size int32
		list *byte
	}{int32(len(list)), &list[0]}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFCONF, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return nil, fmt.Errorf("SIOCGIFCONF: %w", errno)
	}
	return interfacesOf(list[:min(len(list), int(max(request.size, 0)))], size), nil
}
