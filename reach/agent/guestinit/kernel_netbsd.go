package guestinit

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/agent/sysctl"
	"bakeoff/reach/probe"
)

const (
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

func (kernel) Hostname(name string) error {
	return sysctl.Set("kern.hostname", append([]byte(name), 0))
}
