package codec

import (
	"encoding/binary"
	"errors"
)

// ZstdFrame parses the Zstandard frame at the start of b, without decompressing
// it. It returns the length of the frame, and of the part before its first
// block.
//
// Source: RFC 8878, 3.1.1.
func ZstdFrame(b []byte) (size, header int, err error) {
	const magic = 0xfd2fb528
	if len(b) < 5 || binary.LittleEndian.Uint32(b) != magic {
		return 0, 0, errors.New("no Zstandard frame begins at this position")
	}
	flags := b[4]
	single := flags >> 5 & 1 // no window is named: it is the content
	header = 5 + int(1-single) + [4]int{0, 1, 2, 4}[flags&3] + [4]int{int(single), 2, 4, 8}[flags>>6]
	size = header
	for {
		if size+3 > len(b) {
			return 0, 0, errors.New("the Zstandard frame ends within the header of a block")
		}
		block := int(b[size]) | int(b[size+1])<<8 | int(b[size+2])<<16
		size += 3
		switch block >> 1 & 3 {
		case 0, 2: // as it is, compressed
			size += block >> 3
		case 1: // a byte, repeated
			size++
		case 3:
			return 0, 0, errors.New("the Zstandard frame has a block of no known kind")
		}
		if block&1 != 0 {
			break
		}
	}
	if flags&4 != 0 {
		size += 4 // checksum
	}
	if size > len(b) {
		return 0, 0, errors.New("the Zstandard frame ends within a block")
	}
	return size, header, nil
}
