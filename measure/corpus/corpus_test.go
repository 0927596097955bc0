package corpus

import (
	"bytes"
	"context"
	"math"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/measure/codec"
)

// The whole corpus has the published count, mean, median and mode; a tenth and
// a thousandth have the same mean within some percent.
func TestSizesAreThePublishedOnes(t *testing.T) {
	for _, c := range []struct {
		files int
		off   float64 // of the mean
	}{{Files, 0.001}, {Files / 10, 0.002}, {Files / 1000, 0.03}} {
		for _, seed := range []uint64{0, 7, 1 << 40} {
			m := Mail{Files: c.files, Seed: seed}
			sizes := make([]int, m.Files)
			bins := map[int]int{}
			for i := range sizes {
				sizes[i] = m.Size(i)
				bins[sizes[i]/200]++
			}
			slices.Sort(sizes)
			mean, want := float64(total(m))/float64(m.Files), float64(Bytes)/Files
			if math.Abs(mean/want-1) > c.off {
				t.Errorf("%d files have the mean %.0f, want %.0f within %g", m.Files, mean, want, c.off)
			}
			if median := sizes[len(sizes)/2]; math.Abs(float64(median)/Median-1) > 0.05 {
				t.Errorf("%d files have the median %d, want %d", m.Files, median, Median)
			}
			fullest := 0
			for b, n := range bins {
				if n > bins[fullest] {
					fullest = b
				}
			}
			if at := fullest*200 + 100; at < Mode-200 || at > Mode+200 {
				t.Errorf("%d files: most are around %d, want %d", m.Files, at, Mode)
			}
		}
	}
}

func TestMessagesFollowFromTheSeed(t *testing.T) {
	m := Mail{Files: 300, Seed: 3}
	a, b, other := NewWriter(m), NewWriter(m), NewWriter(Mail{Files: 300, Seed: 4})
	for i := m.Files - 1; i >= 0; i-- { // in another order
		b.Message(i)
	}
	for i := range m.Files {
		x, y := slices.Clone(a.Message(i)), slices.Clone(b.Message(i))
		if !bytes.Equal(x, y) || len(x) != m.Size(i) {
			t.Fatalf("message %d: %d and %d bytes, want %d the same", i, len(x), len(y), m.Size(i))
		}
		if bytes.Equal(x, other.Message(i)) {
			t.Fatalf("message %d is the same with another seed", i)
		}
		if _, err := mail.ReadMessage(bytes.NewReader(x)); err != nil {
			t.Fatalf("message %d is none: %v\n%.600s", i, err, x)
		}
	}
}

// It compresses as mail does: what was published is 2.74 for gzip-6 and 1.67
// for lzjb, of which metadata and padding are part.
func TestItCompressesLikeMail(t *testing.T) {
	m := Mail{Files: 600, Seed: 1}
	w := NewWriter(m)
	for _, c := range []struct {
		name   string
		enc    codec.Encoder
		lo, hi float64
	}{{"gzip-6", codec.NewDeflate(6), 2.4, 3.1}, {"lzjb", &codec.LZJB{}, 1.4, 1.9}} {
		var in, out int
		for i := range m.Files {
			b := w.Message(i)
			for part := range slices.Chunk(b, 128<<10) {
				z, ok := c.enc.Encode(nil, part, len(part))
				if !ok {
					z = part
				}
				in, out = in+len(part), out+len(z)
			}
		}
		if r := float64(in) / float64(out); r < c.lo || r > c.hi {
			t.Errorf("%s: ratio %.2f, want %g to %g", c.name, r, c.lo, c.hi)
		}
	}
}

func TestWriteIsIdempotent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mail")
	m := Mail{Files: 40, Seed: 9}
	for range 2 {
		if err := m.Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.Files {
		got, err := os.ReadFile(filepath.Join(dir, m.Name(i)))
		if err != nil || !bytes.Equal(got, NewWriter(m).Message(i)) {
			t.Fatalf("%s: %v", m.Name(i), err)
		}
	}
	if err := (Mail{}).Write(t.Context(), dir); !fault.Is(err, fault.Invalid) {
		t.Errorf("no files: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Write(ctx, dir); err == nil {
		t.Error("a cancelled one went on")
	}
}

// total is the size of all messages in bytes.
func total(m Mail) (n int64) {
	for i := range m.Files {
		n += int64(m.Size(i))
	}
	return n
}
