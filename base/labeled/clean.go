package labeled

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// Clean removes what programs and editors add to a text file: a byte order mark, and the
// zero bytes and the control-Z at its end. Text in UTF-16, as PowerShell writes it, becomes
// UTF-8.
func Clean(data []byte) []byte {
	if order := utf16Order(data); order != nil {
		units := make([]uint16, len(data)/2-1)
		for i := range units {
			units[i] = order.Uint16(data[2+2*i:])
		}
		data = []byte(string(utf16.Decode(units)))
	}
	return bytes.TrimRight(bytes.TrimPrefix(data, []byte("\ufeff")), "\x00\x1a")
}

// IsUTF16 reports whether a file with this head is text in UTF-16.
func IsUTF16(head []byte) bool { return utf16Order(head) != nil }

// utf16Order is the order of the bytes that a mark of UTF-16 gives; nil if there is none.
func utf16Order(head []byte) binary.ByteOrder {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}):
		return binary.LittleEndian
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		return binary.BigEndian
	}
	return nil
}
