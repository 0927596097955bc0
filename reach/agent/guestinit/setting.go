//go:build linux || netbsd || freebsd

package guestinit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// encodeSetting encodes a value as the kernel of a BSD stores the present value
// of a sysctl: an integer of 1, 4 or 8 bytes, or a text that ends with a zero
// byte. A number of 4 or 8 bytes may look like a text, so a number is taken for
// one where the size fits.
func encodeSetting(now []byte, value string) ([]byte, error) {
	n, notNumber := strconv.ParseInt(value, 0, 64)
	var out []byte
	fits := true
	switch size := len(now); {
	case isText(now) && (notNumber != nil || size != 4 && size != 8):
		return append([]byte(value), 0), nil
	case size == 1:
		out, fits = []byte{byte(n)}, n == 0 || n == 1 // a switch
	case size == 4:
		out, fits = binary.LittleEndian.AppendUint32(nil, uint32(n)), n >= -1<<31 && n < 1<<32
	case size == 8:
		out = binary.LittleEndian.AppendUint64(nil, uint64(n))
	default:
		return nil, fmt.Errorf("bakeoff cannot change this setting: its value has %d bytes, and is neither a "+
			"number nor a text", size)
	}
	if notNumber != nil {
		return nil, fmt.Errorf("%q is not a number", value)
	}
	if !fits {
		return nil, fmt.Errorf("the number %d does not fit in the %d bytes of the setting", n, len(now))
	}
	return out, nil
}

// isText reports whether the value of a sysctl is a text: printable characters
// and one zero byte at the end.
func isText(b []byte) bool {
	if len(b) < 2 || b[len(b)-1] != 0 {
		return false
	}
	return !slices.ContainsFunc(b[:len(b)-1], func(c byte) bool { return c < ' ' || c > '~' })
}
