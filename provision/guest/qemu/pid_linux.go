package qemu

import (
	"net"
	"path"
	"syscall"

	"bakeoff/base/fault"
)

// PID is the process of QEMU on this machine: the one that listens at the socket of the monitor.
func (g *Guest) PID() (pid int, err error) {
	c, err := net.Dial("unix", path.Join(g.Dir, socketMonitor))
	if err != nil {
		return 0, fault.Op("QEMU's monitor", err)
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var u *syscall.Ucred
		if u, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			pid = int(u.Pid)
		}
	})
	if err == nil {
		err = cerr
	}
	return pid, fault.Op("the process of QEMU", err)
}
