package probe

import (
	"bytes"
	"encoding/binary"
)

// A Mount is the file system of a path, as statvfs(2) of NetBSD reports it.
type Mount struct {
	Type   string // ffs, tmpfs
	Device string
	Flags  uint64 // MNT_ of mount(2)
}

// A statvfsCall is a system call of NetBSD that fills a struct statvfs.
type statvfsCall struct {
	number uintptr
	names  int // offset of the names in the struct
}

const (
	netBSD10 = 1_000_000_000 // kern.osrevision: two digits each of major, minor, release and patch, then 00

	statvfsSize    = 3296 // of the newer struct, which is the larger one
	statvfsTypeLen = 32
	statvfsPathLen = 1024
)

// statvfsOf is the system call for a kernel. NetBSD 10 introduced another number
// and struct, with padding and 16 bytes more in f_spare. It has the old call only
// if it was built with COMPAT_90, which the configuration MICROVM lacks. A kernel
// ends a process that calls what it does not have, with SIGSYS.
//
// Source: sys/kern/syscalls.master and sys/sys/statvfs.h of NetBSD, on machines of
// 64 bits.
func statvfsOf(osrevision uint32) statvfsCall {
	if osrevision >= netBSD10 {
		return statvfsCall{number: 484, names: 192} // __statvfs190
	}
	return statvfsCall{number: 357, names: 172} // statvfs1
}

// decode reads a struct of statvfsSize bytes.
func (c statvfsCall) decode(b []byte) Mount {
	text := func(at, size int) string {
		name, _, _ := bytes.Cut(b[at:at+size], []byte{0})
		return string(name)
	}
	return Mount{
		Type:   text(c.names, statvfsTypeLen),
		Device: text(c.names+statvfsTypeLen+statvfsPathLen, statvfsPathLen),
		Flags:  binary.LittleEndian.Uint64(b),
	}
}
