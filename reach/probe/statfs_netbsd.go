package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// MountOf returns the file system of path.
func MountOf(path string) (Mount, error) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return Mount{}, unix.ENOTSUP // struct statvfs differs
	}
	revision, err := unix.SysctlUint32("kern.osrevision")
	if err != nil {
		return Mount{}, err
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return Mount{}, err
	}
	call := statvfsOf(revision)
	b := make([]byte, statvfsSize)
	const wait = 1 // ST_WAIT
	_, _, errno := unix.Syscall(call.number, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&b[0])), wait)
	if errno != 0 {
		return Mount{}, errno
	}
	return call.decode(b), nil
}

// fileSystem returns the type and the device of the file system of path.
func fileSystem(path string) string {
	m, err := MountOf(path)
	if err != nil {
		return ""
	}
	return m.Type + " on " + m.Device
}
