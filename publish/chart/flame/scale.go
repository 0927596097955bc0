package flame

import (
	"fmt"
	"strconv"

	"bakeoff/base/unit"
)

// Scale writes the times of a recording, which are nanoseconds, instructions of the
// instruction clock, or ticks of a clock whose frequency is unknown.
type Scale struct {
	Ticks, Instructions bool
	// Zero is the time from which moments count.
	Zero float64
}

func (l *layout) scaleOf() Scale {
	return Scale{Ticks: len(l.rec.Clocks) == 0 || !l.rec.Clocks[0].Known(), Instructions: l.rec.CountsInstructions(),
		Zero: l.lo}
}

// Unit is what durations are drawn in: s, instruction or tick.
func (s Scale) Unit() string {
	switch {
	case s.Ticks:
		return "tick"
	case s.Instructions:
		return unit.Instruction
	}
	return "s"
}

// Value returns a duration in the unit.
func (s Scale) Value(v float64) float64 {
	if s.Ticks || s.Instructions {
		return v
	}
	return v / 1e9
}

// Took writes a duration with three or four digits, and instructions with all of them.
func (s Scale) Took(v float64) string {
	switch {
	case s.Ticks:
		return grouped(v) + " ticks"
	case s.Instructions:
		return unit.Format(v, unit.Instruction)
	}
	return unit.Format(v/1e9, "s")
}

// At writes a moment, to the microsecond.
func (s Scale) At(v float64) string {
	v -= s.Zero
	switch {
	case s.Ticks:
		return "tick " + grouped(v)
	case s.Instructions:
		return "instruction " + grouped(v)
	}
	return strconv.FormatFloat(v/1e9, 'f', 6, 64) + " s"
}

// Share writes how much v is of a whole.
func Share(v, whole float64) string {
	p := 100 * v / whole
	switch {
	case !(whole > 0):
		return "–"
	case p > 0 && p < 0.05:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", p)
}

// grouped writes a whole number with commas.
func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	from := 0
	if v < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
