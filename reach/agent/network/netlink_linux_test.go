package network

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAttribute(t *testing.T) {
	got := Attribute(unix.IFLA_IFNAME, Text("eth0"))
	if len(got) != 12 || binary.NativeEndian.Uint16(got) != 9 || binary.NativeEndian.Uint16(got[2:]) != unix.IFLA_IFNAME ||
		!slices.Equal(got[4:], []byte("eth0\x00\x00\x00\x00")) {
		t.Errorf("%q", got)
	}
}

// FuzzAcknowledged: whatever comes as an answer, it is an error or it is not.
func FuzzAcknowledged(f *testing.F) {
	answer := func(number int32) []byte {
		b := make([]byte, unix.SizeofNlMsghdr+4)
		binary.NativeEndian.PutUint16(b[4:], unix.NLMSG_ERROR)
		binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr:], uint32(number))
		return b
	}
	f.Add(answer(0))
	f.Add(answer(-int32(unix.EEXIST)))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := acknowledged(b)
		if len(b) < unix.SizeofNlMsghdr+4 && err == nil {
			t.Error("too short an answer acknowledges")
		}
	})
	if err := acknowledged(answer(0)); err != nil {
		f.Error(err)
	}
	if err := acknowledged(answer(-int32(unix.EEXIST))); !errors.Is(err, unix.EEXIST) {
		f.Error(err)
	}
}
