package agent

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/probe"
)

const (
	// clockMonotonic is CLOCK_MONOTONIC.
	//
	// Source: sys/sys/time.h of NetBSD.
	clockMonotonic = 3
	// clockStart is what that clock shows when it starts, in nanoseconds.
	//
	// Source: th0 in sys/kern/kern_tc.c of NetBSD.
	clockStart = 1e9

	addAddress = unix.SIOCAIFADDR
	// ifreqSize is the size of struct ifreq, which is part of the number of
	// the request.
	ifreqSize = unix.SIOCGIFFLAGS >> 16 & 0x1fff
)

func (kernel) Interfaces() ([]net.Interface, error) { return probe.Interfaces() }

// Writable remounts the root. Without the name of a device the kernel keeps the
// one it has.
func (kernel) Writable() error {
	root, err := probe.MountOf("/")
	if err != nil {
		return err
	}
	if root.Flags&unix.MNT_RDONLY == 0 {
		return nil
	}
	flags := int(root.Flags)&^unix.MNT_RDONLY&mountOptions | unix.MNT_UPDATE
	return mountAs(root.Type, "/", flags, make([]byte, unsafe.Sizeof(uintptr(0)))) // struct ufs_args with a null pointer
}

// mountOptions are the flags of a mount that mount(2) accepts.
const mountOptions = unix.MNT_NOATIME | unix.MNT_NODEV | unix.MNT_NOSUID | unix.MNT_NOEXEC | unix.MNT_LOG |
	unix.MNT_SYNCHRONOUS | unix.MNT_ASYNC

func mountAs(kind, at string, flags int, data []byte) error {
	k, err := unix.BytePtrFromString(kind)
	if err != nil {
		return err
	}
	p, err := unix.BytePtrFromString(at)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOUNT, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(p)), uintptr(flags),
		uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), 0)
	if errno != 0 {
		return fmt.Errorf("mount %s on %s: %w", kind, at, errno)
	}
	return nil
}

// Tmpfs mounts an empty file system in memory.
func (kernel) Tmpfs(at string, size unit.Bytes, mode uint32) error {
	return mountAs("tmpfs", at, unix.MNT_NOSUID, tmpfsArgs(int64(size), mode))
}

// Devices creates devices in memory if the root has none, as init(8) does.
func (k kernel) Devices() error {
	if _, err := os.Stat("/dev/console"); err == nil {
		return nil
	}
	if runtime.GOARCH != "amd64" {
		return fault.New(fault.Unsupported, "the root has no /dev/console; run MAKEDEV when you prepare it")
	}
	if err := k.Tmpfs("/dev", 1<<20, 0o755); err != nil {
		return err
	}
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, n := range netBSDNodes {
		if err := unix.Mknod("/dev/"+n.name, unix.S_IFCHR|n.mode, int(n.number())); err != nil {
			return fmt.Errorf("create /dev/%s: %w", n.name, err)
		}
	}
	return nil
}

func (k kernel) Hostname(name string) error { return k.Set("kern.hostname", append([]byte(name), 0)) }

// Setting reads a sysctl. unix.SysctlRaw panics if a node above has no settings, as debug in a
// kernel without options for debugging.
func (kernel) Setting(name string) ([]byte, error) {
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

// Set changes a sysctl.
func (kernel) Set(name string, value []byte) error {
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
