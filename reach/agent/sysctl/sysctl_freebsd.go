package sysctl

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads a setting.
func Read(name string) ([]byte, error) {
	b, err := unix.SysctlRaw(name)
	if err != nil {
		err = fmt.Errorf("sysctl %s: %w", name, err)
	}
	return b, err
}

// Set changes a setting to a value as the kernel stores it. FreeBSD finds the number of a setting
// when the name is written to the sysctl 0.3.
//
// Source: sysctl(3) and sys/kern/kern_sysctl.c of FreeBSD, sysctl_sysctl_name2oid.
func Set(name string, value []byte) error {
	var mib [24]int32 // CTL_MAXNAME
	length := unsafe.Sizeof(mib)
	text := []byte(name)
	err := callSysctl([]int32{0, 3}, unsafe.Pointer(&mib), &length, text)
	if err == nil {
		err = callSysctl(mib[:length/unsafe.Sizeof(mib[0])], nil, nil, value)
	}
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	return nil
}

func callSysctl(mib []int32, old unsafe.Pointer, length *uintptr, value []byte) error {
	if len(mib) == 0 || len(value) == 0 {
		return unix.EINVAL
	}
	_, _, errno := unix.Syscall6(unix.SYS___SYSCTL, uintptr(unsafe.Pointer(&mib[0])), uintptr(len(mib)), uintptr(old),
		uintptr(unsafe.Pointer(length)), uintptr(unsafe.Pointer(&value[0])), uintptr(len(value)))
	if errno != 0 {
		return errno
	}
	return nil
}
