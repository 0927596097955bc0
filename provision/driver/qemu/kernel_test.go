package qemu

import (
	"encoding/binary"
	"slices"
)

// elfKernel is a small ELF file for amd64 with the note for PVH and a text.
func elfKernel(text string) []byte {
	le := binary.LittleEndian
	b := make([]byte, 256)
	copy(b, "\x7fELF\x02\x01\x01")
	b[16], b[18], b[20] = 2, 62, 1 // an executable for amd64
	le.PutUint64(b[32:], 64)       // one program header
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 1)
	le.PutUint32(b[64:], 4) // PT_NOTE
	le.PutUint64(b[64+8:], 128)
	note := append(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), 4), 18), "Xen\x00\x00\x00\x10\x00"...)
	le.PutUint64(b[64+32:], uint64(copy(b[128:], note)))
	return append(b, "\x00"+text+"\x00"...)
}

// netbsdText is the line that a NetBSD kernel begins with; the version is that of the
// kernel that was measured.
const netbsdText = "NetBSD 10.99.12 (MICROVM) #0: made for this test\x00virtio_mmio.device="

// has reports whether argv holds want as consecutive arguments.
func has(argv []string, want ...string) bool {
	for i := range argv {
		if i+len(want) <= len(argv) && slices.Equal(argv[i:i+len(want)], want) {
			return true
		}
	}
	return false
}
