// Package corpus makes messages like those of a mail archive, as many and as
// large as the one whose copying was once published: 273,273 files of 2.14 GB,
// half of them below 1.7 KB, most of them around 2.5 KB.
//
// A message follows from the seed and its number alone. The sizes are spread
// evenly over their distribution, so that a tenth of the corpus has the same
// median and nearly the same mean as all of it.
package corpus

import (
	"context"
	"fmt"
	"math"
	"os"
	"path"

	"bakeoff/base/fault"
)

// The archive as it was published.
const (
	Files  = 273_273
	Bytes  = 2_140_000_000
	Median = 1_700
	Mode   = 2_500
)

// Mail is a corpus of messages.
type Mail struct {
	Files int // how many
	Seed  uint64
}

// folder is how many messages a folder has.
const folder = 1000

// Name is the path of message i below the corpus.
func (m Mail) Name(i int) string { return fmt.Sprintf("%03d/%06d.eml", i/folder, i) }

// Size is the size of message i in bytes.
func (m Mail) Size(i int) int {
	// A step through all numbers that comes back only at the end, and
	// scatters neighbours.
	n := uint64(m.Files)
	step := max(1, uint64(float64(n)*0.6180339887498949))
	for gcd(step, n) != 1 {
		step++
	}
	k := (uint64(i)*step + m.Seed%n) % n
	return size((float64(k) + 0.5) / float64(n))
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// The parts of the distribution: notes below the median, a peak of replies
// with a quoted message, letters, and a few with something attached. They are
// chosen for the published figures; the mean follows from the last bound.
const (
	notes, replies, letters = 0.50, 0.30, 0.17

	noteMin, noteMax     = 450, Median
	replyWidth           = 120 // standard deviation around the mode
	letterMin, letterMax = 2_700, 12_000
	attachedMax          = 786_000
)

// size is the quantile function of the sizes, u from 0 to 1.
func size(u float64) int {
	between := func(lo, hi, u float64) int { return int(lo * math.Pow(hi/lo, u)) }
	switch {
	case u < notes:
		return between(noteMin, noteMax, u/notes)
	case u < notes+replies:
		v := (u - notes) / replies
		return max(Median, int(Mode+replyWidth*math.Sqrt2*math.Erfinv(2*v-1)))
	case u < notes+replies+letters:
		return between(letterMin, letterMax, (u-notes-replies)/letters)
	}
	return between(letterMax, attachedMax, (u-notes-replies-letters)/(1-notes-replies-letters))
}

// Total is the size of all messages in bytes.
func (m Mail) Total() int64 {
	var n int64
	for i := range m.Files {
		n += int64(m.Size(i))
	}
	return n
}

// Write writes the corpus below dir, which it makes. Messages that are there
// in their size are left as they are.
func (m Mail) Write(ctx context.Context, dir string) error {
	if m.Files < 1 || m.Files > 10*Files {
		return fault.New(fault.Invalid, "a corpus has 1 to %d files, not %d", 10*Files, m.Files)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.Op("corpus", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fault.Op("corpus", err)
	}
	defer root.Close()
	w := NewWriter(m)
	for i := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := m.Name(i)
		if i%folder == 0 {
			if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
				return fault.Op("corpus", err)
			}
		}
		if st, err := root.Stat(name); err == nil && st.Size() == int64(m.Size(i)) {
			continue
		}
		if err := root.WriteFile(name, w.Message(i), 0o644); err != nil {
			return fault.Op("corpus", err)
		}
	}
	return nil
}
