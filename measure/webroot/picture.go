package webroot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"hash/crc32"
)

const favicon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">` +
	`<rect width="16" height="16" rx="3" fill="#1b5e8c"/>` +
	`<path d="M4 5h8M4 8h8M4 11h5" stroke="#fff" stroke-width="1.6"/></svg>
`

// drawRacks is a drawing of server racks.
func (g *author) drawRacks() []byte {
	var b bytes.Buffer
	b.WriteString("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 320\" role=\"img\"><title>A map of " +
		"the machine room</title>\n")
	for x := range 8 {
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"20\" width=\"60\" height=\"280\" rx=\"4\" fill=\"#40474d\"/>\n", 12+78*x)
		for y := range 6 {
			fmt.Fprintf(&b, "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" fill=\"#8cc4ee\"/>\n", 24+78*x+g.rng.IntN(36), 44+45*y,
				3+g.rng.IntN(4))
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// The size of a picture in pixels.
const wide, high = 160, 181

// picture is a pattern as a PNG of 8-bit gray. Its data are stored, not
// compressed, because the output of a compressor changes with its version.
func picture(pattern int) []byte {
	raw := make([]byte, 0, high*(wide+1))
	for y := range high {
		raw = append(raw, 0) // no filter
		for x := range wide {
			raw = append(raw, brightness(pattern, x, y))
		}
	}
	var head [13]byte
	binary.BigEndian.PutUint32(head[0:], wide)
	binary.BigEndian.PutUint32(head[4:], high)
	head[8] = 8 // bits; grey, deflate, usual filters, not interlaced are 0
	b := []byte("\x89PNG\r\n\x1a\n")
	b = appendChunk(b, "IHDR", head[:])
	b = appendChunk(b, "IDAT", storedStream(raw))
	return appendChunk(b, "IEND", nil)
}

// brightness is the brightness of a pixel.
func brightness(pattern, x, y int) byte {
	switch pattern {
	case 0: // hills
		return byte((x*x/40 + y*y/25) ^ (x + y))
	case 1: // waves
		return byte((x*y/20 + 3*(x%32)*(y%16)/4) & 0xff)
	}
	if y%20 == 0 || (x+20*(y/20%2))%40 == 0 { // bricks
		return 220
	}
	return byte(90 + (x*7+y*13)%40)
}

// appendChunk appends a PNG chunk (RFC 2083, 3.2).
func appendChunk(b []byte, kind string, data []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	from := len(b)
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
}

// storedStream wraps data as a zlib stream of one stored block (RFC 1950, 1951), of
// at most 65535 bytes.
func storedStream(data []byte) []byte {
	b := []byte{0x78, 0x01, 1}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(data)))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(len(data)))
	b = append(b, data...)
	return binary.BigEndian.AppendUint32(b, adler32.Checksum(data))
}
