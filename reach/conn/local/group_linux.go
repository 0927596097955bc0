package local

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// StartIn has a program that is started with attr begin its life in the control
// group of version 2 in dir, and returns what is to be called once it has been
// started. Where that cannot be done, or dir is "", it does nothing.
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

// startsInGroups tells whether this kernel can (Linux 5.7), and lets us.
//
// It is asked for a group whose descriptor nobody has: one that can says that
// the descriptor is bad, one that cannot says something else before it looks
// (clone3(2), CLONE_INTO_CGROUP).
var startsInGroups = sync.OnceValue(func() bool {
	const (
		cloneIntoCgroup = 0x200000000
		noDescriptor    = 1<<31 - 1
	)
	args := [11]uint64{0: cloneIntoCgroup, 10: noDescriptor} // struct clone_args: flags, …, cgroup
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EBADF
})
