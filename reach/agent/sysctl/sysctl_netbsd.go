package sysctl

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads a setting. unix.SysctlRaw panics if a node above has no settings, as debug in a
// kernel without options for debugging.
func Read(name string) ([]byte, error) {
	mib, err := settingNumbers(name)
	if err != nil {
		return nil, err
	}
	b, err := wholeSetting(func(room []byte) (int, error) {
		length := uintptr(len(room))
		err := callSysctl(mib, unsafe.Pointer(unsafe.SliceData(room)), &length, nil, 0)
		return int(length), err
	})
	if err != nil {
		err = fmt.Errorf("sysctl %s: %w", name, err)
	}
	return b, err
}

// Set changes a setting to a value as the kernel stores it.
func Set(name string, value []byte) error {
	mib, err := settingNumbers(name)
	if err != nil {
		return err
	}
	if err := callSysctl(mib, nil, nil, unsafe.Pointer(&value[0]), uintptr(len(value))); err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	return nil
}

// settingNumbers are the numbers of a sysctl.
func settingNumbers(name string) (mib []int32, err error) {
	for part := range strings.SplitSeq(name, ".") {
		nodes, err := settingsBelow(mib)
		if err != nil {
			return nil, fmt.Errorf("sysctl %s: %w", name, err)
		}
		found := false
		for _, n := range nodes {
			text := make([]byte, 0, len(n.Name))
			for _, c := range n.Name {
				text = append(text, byte(c))
			}
			if found = unix.ByteSliceToString(text) == part; found {
				mib = append(mib, n.Num)
				break
			}
		}
		if !found {
			return nil, fmt.Errorf("sysctl %s: %w", name, unix.ENOENT)
		}
	}
	return mib, nil
}

// settingsBelow lists the sysctls below a node.
//
// Source: sysctl(7) of NetBSD, CTL_QUERY.
func settingsBelow(mib []int32) ([]unix.Sysctlnode, error) {
	query := unix.Sysctlnode{Flags: unix.SYSCTL_VERS_1}
	size := unsafe.Sizeof(query)
	at := append(append([]int32{}, mib...), unix.CTL_QUERY)
	var length uintptr
	if err := callSysctl(at, nil, &length, unsafe.Pointer(&query), size); err != nil {
		return nil, err
	}
	nodes := make([]unix.Sysctlnode, length/size)
	if len(nodes) == 0 {
		return nil, nil
	}
	err := callSysctl(at, unsafe.Pointer(&nodes[0]), &length, unsafe.Pointer(&query), size)
	return nodes[:min(len(nodes), int(length/size))], err
}

func callSysctl(mib []int32, old unsafe.Pointer, length *uintptr, value unsafe.Pointer, size uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS___SYSCTL, uintptr(unsafe.Pointer(&mib[0])), uintptr(len(mib)), uintptr(old),
		uintptr(unsafe.Pointer(length)), uintptr(value), size)
	if errno != 0 {
		return errno
	}
	return nil
}
