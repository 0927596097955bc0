package wire

import (
	"bytes"
	"io"
	"testing"
)

// What is written is read again, in its order, and a cut message is an error.
func TestKeys(t *testing.T) {
	var b bytes.Buffer
	long := bytes.Repeat([]byte("x"), 3*maxKeys+1)
	for _, err := range []error{WriteSize(&b, Size{24, 300}), WriteKeys(&b, long), WriteSize(&b, Size{1, 2})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := b.Bytes()
	var typed []byte
	var sizes []Size
	for r := bytes.NewReader(whole); ; {
		keys, s, err := ReadKeys(r)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if typed = append(typed, keys...); keys == nil {
			sizes = append(sizes, s)
		}
	}
	if !bytes.Equal(typed, long) || len(sizes) != 2 || sizes[0] != (Size{24, 300}) || sizes[1] != (Size{1, 2}) {
		t.Errorf("%d bytes and %v", len(typed), sizes)
	}
	for n := 1; n < 7; n++ {
		if _, _, err := ReadKeys(bytes.NewReader(whole[:n])); err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzReadKeys(f *testing.F) {
	f.Add([]byte("k\x00\x02ab"))
	f.Add([]byte("s\x00\x04\x00\x18\x00\x50"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		keys, s, err := ReadKeys(r)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if keys == nil {
			err = WriteSize(&again, s)
		} else {
			err = writeKeys(&again, keysTyped, keys)
		}
		if err != nil || !bytes.Equal(again.Bytes(), b[:len(b)-r.Len()]) {
			t.Errorf("%q is written as %q, %v", b, again.Bytes(), err)
		}
	})
}
