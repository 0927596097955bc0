package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"bakeoff/reach/agent/command"

	"golang.org/x/sys/unix"
)

// ListenVsock listens on a port of the socket to the hypervisor (vsock(7)).
func ListenVsock(port string) (net.Listener, error) {
	n, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		return nil, command.UsageError("the vsock port must be a number (got %q)", port)
	}
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("vsock: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: uint32(n)})
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("vsock port %d: %w", n, err)
	}
	addr := vsockAddr(n)
	return &vsockListener{f: os.NewFile(uintptr(fd), addr.String()), addr: addr}, nil
}

// vsockListener is a listener that package net does not support. Its
// nonblocking file can be closed while Accept waits.
type vsockListener struct {
	f    *os.File
	addr vsockAddr
}

func (l *vsockListener) Accept() (net.Conn, error) {
	raw, err := l.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var aerr error
	err = raw.Read(func(listener uintptr) bool {
		for {
			fd, _, aerr = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if aerr != unix.EINTR {
				return aerr != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, aerr); err != nil {
		return nil, fmt.Errorf("accept on %s: %w", l.addr, err)
	}
	return vsockConn{os.NewFile(uintptr(fd), l.addr.String()), l.addr}, nil
}

func (l *vsockListener) Close() error { return l.f.Close() }

func (l *vsockListener) Addr() net.Addr { return l.addr }

// vsockConn is one connection; its nonblocking file supports deadlines.
type vsockConn struct {
	*os.File
	addr vsockAddr
}

func (c vsockConn) LocalAddr() net.Addr  { return c.addr }
func (c vsockConn) RemoteAddr() net.Addr { return vsockAddr(0) }

type vsockAddr uint32

func (vsockAddr) Network() string  { return "vsock" }
func (a vsockAddr) String() string { return fmt.Sprintf("vsock:%d", uint32(a)) }
