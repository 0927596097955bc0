package guestinit

import (
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"bakeoff/base/unit"
	"bakeoff/reach/agent/sysctl"
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

func (kernel) Hostname(name string) error { return sysctl.Set("kern.hostname", []byte(name)) }
