package network

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Text is a text as the kernel reads it: with a zero byte at its end.
func Text(s string) []byte { return append([]byte(s), 0) }

// Attribute is a struct rtattr with its value, padded to four bytes.
func Attribute(kind uint16, value []byte) []byte {
	out := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = append(out, value...)
	return append(out, make([]byte, -len(out)&3)...)
}

// Request sends one request to the kernel and returns the error in its answer.
//
// Source: netlink(7).
func Request(kind uint16, flags uint16, message []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer unix.Close(fd)
	// The kernel normally answers during the call that sends.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	request := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(message)))
	request = binary.NativeEndian.AppendUint16(request, kind)
	request = binary.NativeEndian.AppendUint16(request, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	request = binary.NativeEndian.AppendUint32(request, 1)                     // sequence
	request = append(binary.NativeEndian.AppendUint32(request, 0), message...) // to the kernel
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	answer := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	return acknowledged(answer[:n])
}

// acknowledged parses a struct nlmsgerr: 0, or a negated error number.
func acknowledged(answer []byte) error {
	if len(answer) < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return fmt.Errorf("netlink: unexpected answer of %d bytes from the kernel", len(answer))
	}
	if number := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); number != 0 {
		return unix.Errno(-number)
	}
	return nil
}
