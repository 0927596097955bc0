package wire

import (
	"encoding/binary"
	"io"

	"bakeoff/base/fault"
)

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// The kinds of messages to a terminal: the kind, the length in two bytes, and the content.
const (
	keysTyped = 'k'
	keysSize  = 's'
	maxKeys   = 1 << 15
)

// WriteKeys writes what was typed at a terminal, for ReadKeys.
func WriteKeys(w io.Writer, keys []byte) error {
	for len(keys) > 0 {
		n := min(len(keys), maxKeys)
		if err := writeKeys(w, keysTyped, keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// WriteSize writes the size that a terminal has now, for ReadKeys.
func WriteSize(w io.Writer, s Size) error {
	return writeKeys(w, keysSize, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, s.Rows), s.Columns))
}

func writeKeys(w io.Writer, kind byte, content []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(content))), content...))
	return err
}

// ReadKeys reads one message: keys, or a size if keys is nil. The error is io.EOF after the
// last one.
func ReadKeys(r io.Reader) (keys []byte, s Size, err error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, s, err
	}
	n := int(binary.BigEndian.Uint16(head[1:]))
	if n > maxKeys || head[0] != keysTyped && (head[0] != keysSize || n != 4) {
		return nil, s, fault.New(fault.Invalid, "%q is not a message to a terminal", head)
	}
	content := make([]byte, n)
	if _, err := io.ReadFull(r, content); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, s, err
	}
	if head[0] == keysSize {
		return nil, Size{binary.BigEndian.Uint16(content), binary.BigEndian.Uint16(content[2:])}, nil
	}
	return content, s, nil
}
