package local

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// StartIn makes a program that is started with attr begin in the cgroup
// (version 2) in dir. Call done after the start. If the kernel does not support
// it, or dir is "", StartIn does nothing.
func StartIn(attr *syscall.SysProcAttr, dir string) (done func()) {
	if dir == "" || !startsInGroups() {
		return func() {}
	}
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return func() {}
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
	return func() { f.Close() }
}

// startsInGroups reports whether this kernel supports it (Linux 5.7) and
// permits it.
//
// It calls clone3 with an invalid cgroup descriptor. A kernel that supports the
// flag returns EBADF; another one returns a different error before it looks at
// the descriptor (clone3(2), CLONE_INTO_CGROUP).
var startsInGroups = sync.OnceValue(func() bool {
	const (
		cloneIntoCgroup = 0x200000000
		noDescriptor    = 1<<31 - 1
	)
	args := [11]uint64{0: cloneIntoCgroup, 10: noDescriptor} // struct clone_args: flags, …, cgroup
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EBADF
})
