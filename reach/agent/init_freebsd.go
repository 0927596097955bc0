package agent

import (
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/unit"
)

const (
	// addAddress is SIOCAIFADDR with the argument that FreeBSD 10 introduced;
	// x/sys/unix has the number of the older one.
	//
	// Source: sys/netinet/in_var.h and sys/sys/sockio.h of FreeBSD.
	addAddress = 0x8044692b
	ifreqSize  = unix.SIOCGIFFLAGS >> 16 & 0x1fff
)

func (kernel) Interfaces() ([]net.Interface, error) { return net.Interfaces() }

// Setting reads a sysctl.
func (kernel) Setting(name string) ([]byte, error) {
	b, err := unix.SysctlRaw(name)
	if err != nil {
		err = fmt.Errorf("sysctl %s: %w", name, err)
	}
	return b, err
}

// Writable remounts the root. Its options say "ro" until they say "rw".
func (kernel) Writable() error {
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		return err
	}
	if st.Flags&unix.MNT_RDONLY == 0 {
		return nil
	}
	return nmount(unix.MNT_UPDATE, "fstype", unix.ByteSliceToString(st.Fstypename[:]), "fspath", "/",
		"from", unix.ByteSliceToString(st.Mntfromname[:]), "rw", "")
}

// nmount calls nmount(2) with names and values; an empty value is none.
func nmount(flags int, options ...string) error {
	var vectors []unix.Iovec
	var texts []*byte
	for _, text := range options {
		p, err := unix.BytePtrFromString(text)
		if err != nil {
			return err
		}
		texts = append(texts, p) // the vectors alone would not keep it
		v := unix.Iovec{Base: p}
		v.SetLen(len(text) + 1)
		if text == "" {
			v = unix.Iovec{}
		}
		vectors = append(vectors, v)
	}
	_, _, errno := unix.Syscall(unix.SYS_NMOUNT, uintptr(unsafe.Pointer(&vectors[0])), uintptr(len(vectors)),
		uintptr(flags))
	if errno != 0 {
		return fmt.Errorf("mount %q: %w", options[:min(4, len(texts))], errno)
	}
	return nil
}

// Tmpfs mounts an empty file system in memory.
func (kernel) Tmpfs(at string, size unit.Bytes, mode uint32) error {
	options := []string{"fstype", "tmpfs", "fspath", at, "from", "tmpfs", "mode", fmt.Sprintf("%o", mode)}
	if size > 0 {
		options = append(options, "size", fmt.Sprint(int64(size)))
	}
	return nmount(unix.MNT_NOSUID, options...)
}

// Devices mounts /dev if the kernel has not.
func (kernel) Devices() error {
	if _, err := os.Stat("/dev/null"); err == nil {
		return nil
	}
	return nmount(0, "fstype", "devfs", "fspath", "/dev", "from", "devfs")
}

func (k kernel) Hostname(name string) error { return k.Set("kern.hostname", []byte(name)) }

// Set changes a sysctl. FreeBSD finds its number by writing the name to the
// sysctl 0.3.
//
// Source: sysctl(3) and sys/kern/kern_sysctl.c of FreeBSD, sysctl_sysctl_name2oid.
func (kernel) Set(name string, value []byte) error {
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
