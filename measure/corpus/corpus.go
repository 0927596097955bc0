// Package corpus generates messages like those of a mail archive. Number and
// sizes follow a published archive: 273,273 files of 2.14 GB, half of them
// below 1.7 KB, most of them around 2.5 KB.
//
// A message depends only on the seed and its number. The sizes are spread
// evenly over their distribution, so a tenth of the corpus has the same median
// and nearly the same mean as all of it.
package corpus

import (
	"context"
	"fmt"
	"math"
	"os"
	"path"

	"bakeoff/base/fault"
)

// The published archive: its size, and the median and mode of file sizes.
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

// folder is the number of messages in a folder.
const folder = 1000

// Name is the path of message i in the corpus.
func (m Mail) Name(i int) string { return fmt.Sprintf("%03d/%06d.eml", i/folder, i) }

// Size is the size of message i in bytes.
func (m Mail) Size(i int) int {
	// Step through all numbers with a step that is coprime to their count:
	// it scatters neighbors and repeats none.
	n := uint64(m.Files)
	step := max(1, uint64(float64(n)*0.6180339887498949))
	for greatestDivisor(step, n) != 1 {
		step++
	}
	k := (uint64(i)*step + m.Seed%n) % n
	return messageSize((float64(k) + 0.5) / float64(n))
}

func greatestDivisor(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// The parts of the distribution: short notes below the median, a peak of
// replies with a quoted message, long letters, and a few messages with
// attachments. The values are chosen to give the published figures; the mean
// depends on attachedMax.
const (
	notes, replies, letters = 0.50, 0.30, 0.17

	noteMin, noteMax     = 450, Median
	replyWidth           = 120 // standard deviation around the mode
	letterMin, letterMax = 2_700, 12_000
	attachedMax          = 786_000
)

// messageSize is the quantile function of the sizes; u is from 0 to 1.
func messageSize(u float64) int {
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

// Write writes the corpus to the directory dir, which it creates. It keeps
// existing messages of the right size.
func (m Mail) Write(ctx context.Context, dir string) error {
	if m.Files < 1 || m.Files > 10*Files {
		return fault.New(fault.Invalid, "corpus: files must be from 1 to %d (got %d)", 10*Files, m.Files)
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
