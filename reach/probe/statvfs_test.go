package probe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"
)

// netBSD10Statvfs is struct statvfs in sys/sys/statvfs.h of NetBSD 10.
type netBSD10Statvfs struct {
	flag, bsize, frsize, iosize                  uint64
	blocks, bfree, bavail, bresvd                uint64
	files, ffree, favail, fresvd                 uint64
	syncreads, syncwrites, asyncreads, asyncwrit uint64
	fsidx                                        [2]int32
	fsid, namemax                                uint64
	owner                                        uint32
	spare                                        [4]uint64
	typename                                     [32]byte
	on, from, label                              [1024]byte
}

// netBSD9Statvfs is struct statvfs90 in sys/compat/sys/statvfs.h of NetBSD 10.
type netBSD9Statvfs struct {
	counts   [16]uint64
	fsidx    [2]int32
	fsid     uint64
	namemax  uint64
	owner    uint32
	spare    [4]uint32
	typename [32]byte
	on, from [1024]byte
}

func TestStatvfsHasTheLayoutOfEachRelease(t *testing.T) {
	fill := func(typename, on, from []byte) {
		copy(typename, "ffs")
		copy(on, "/")
		copy(from, "/dev/ld0a")
	}
	var now netBSD10Statvfs
	now.flag = 0x1000
	fill(now.typename[:], now.on[:], now.from[:])
	var old netBSD9Statvfs
	old.counts[0] = 0x1000
	fill(old.typename[:], old.on[:], old.from[:])
	if size := unsafe.Sizeof(now); size != statvfsSize {
		t.Errorf("the struct has %d bytes, statvfsSize is %d", size, statvfsSize)
	}
	for revision, memory := range map[uint32][]byte{
		1_099_001_200: unsafe.Slice((*byte)(unsafe.Pointer(&now)), unsafe.Sizeof(now)),
		1_000_000_300: unsafe.Slice((*byte)(unsafe.Pointer(&now)), unsafe.Sizeof(now)),
		903_000_000:   unsafe.Slice((*byte)(unsafe.Pointer(&old)), unsafe.Sizeof(old)),
	} {
		if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
			t.Skip("needs a little-endian machine")
		}
		b := append(bytes.Clone(memory), make([]byte, statvfsSize)...)[:statvfsSize]
		if got, want := statvfsOf(revision).decode(b), (Mount{Type: "ffs", Device: "/dev/ld0a", Flags: 0x1000}); got != want {
			t.Errorf("revision %d: %+v, want %+v", revision, got, want)
		}
	}
}
