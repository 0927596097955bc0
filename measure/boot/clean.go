package boot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
)

// Clean removes what programs and editors add to a text file: a byte order mark, and the
// zero bytes and the control-Z at its end. Text in UTF-16, as PowerShell writes it, becomes
// UTF-8.
func Clean(data []byte) []byte {
	switch {
	case bytes.HasPrefix(data, []byte{0xef, 0xbb, 0xbf}):
		data = data[3:]
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		units := make([]uint16, len(data)/2-1)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(data[2+2*i:])
		}
		data = []byte(string(utf16.Decode(units)))
	}
	return bytes.TrimRight(data, "\x00\x1a")
}

// A file with a wrong line is read without it. Skipped counts such lines and remembers the
// first.
type Skipped struct {
	Count, Line int
	Why         string // of the first
}

// Add counts a line.
func (s *Skipped) Add(line int, why string) {
	if s.Count++; s.Count == 1 {
		s.Line, s.Why = line, why
	}
}

// Notes returns a note about the lines, or nothing if there are none.
func (s Skipped) Notes(source string) []Note {
	if s.Count == 0 {
		return nil
	}
	text := fmt.Sprintf("1 line was left out: line %d: %s.", s.Line, s.Why)
	if s.Count > 1 {
		text = fmt.Sprintf("%d lines were left out. The first is line %d: %s.", s.Count, s.Line, s.Why)
	}
	return []Note{{Source: source, Lost: true, Text: text}}
}
