package stream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"bakeoff/base/fault"
)

type part struct {
	name    string
	content []byte
}

func write(t testing.TB, parts []part) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out)
	for _, p := range parts {
		if err == nil {
			err = w.Part(p.name, bytes.NewReader(p.content))
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(b []byte) (parts []part, err error) {
	r, err := NewReader(bytes.NewReader(b))
	for err == nil {
		var p part
		if p.name, err = r.Next(); err != nil {
			break
		}
		if p.content, err = io.ReadAll(r); err == nil {
			parts = append(parts, p)
		}
	}
	if errors.Is(err, io.EOF) {
		return parts, nil
	}
	return parts, err
}

func example() []part {
	r := rand.New(rand.NewPCG(1, 2))
	long := make([]byte, 2*maxChunk+7)
	for i := range long {
		long[i] = byte(r.Uint32())
	}
	return []part{{"guest", []byte("{}")}, {"empty", nil}, {"long", long}, {"full", long[:maxChunk]}}
}

// What was written is read. A stream that was cut anywhere, continued, or changed in any byte
// is refused.
func TestStream(t *testing.T) {
	b := write(t, example())
	parts, err := read(b)
	if err != nil || len(parts) != len(example()) {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	for i, p := range example() {
		if parts[i].name != p.name || !bytes.Equal(parts[i].content, p.content) {
			t.Errorf("part %s is read as %s with %d bytes", p.name, parts[i].name, len(parts[i].content))
		}
	}
	small := write(t, []part{{"a", []byte("one")}, {"b", []byte("two")}})
	for i := range small {
		if _, err := read(small[:i]); !fault.Is(err, fault.Invalid) {
			t.Errorf("cut at %d: %v", i, err)
		}
		for bit := range 8 {
			changed := bytes.Clone(small)
			changed[i] ^= 1 << bit
			if _, err := read(changed); !fault.Is(err, fault.Invalid) {
				t.Errorf("bit %d of byte %d changed: %v", bit, i, err)
			}
		}
	}
	if _, err := read(append(bytes.Clone(small), 0)); !fault.Is(err, fault.Invalid) {
		t.Errorf("continued: %v", err)
	}
	var w *Writer
	if w, err = NewWriter(io.Discard); err != nil || w.Part("", nil) == nil {
		t.Errorf("a part without a name: %v", err)
	}
}

// A reader that skips parts verifies them all the same.
func TestSkipped(t *testing.T) {
	b := write(t, example())
	b[len(Magic)+8] ^= 1
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = r.Next()
	}
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}

// A stream has one form: what is read whole is written again as it was.
func FuzzStream(f *testing.F) {
	f.Add([]byte(Magic))
	f.Add(write(f, nil))
	f.Add(write(f, []part{{"a", []byte("one")}, {"b", nil}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := read(b)
		if err == nil && !bytes.Equal(write(t, parts), b) {
			t.Errorf("%q is written as %q", b, write(t, parts))
		}
	})
}
