package bootmodel

import (
	"math"
	"slices"
)

// ends are the marks at which a boot may end.
var ends = []string{MarkUserland, MarkFinished, MarkReady, MarkService}

// ClockInstructions is the name of a reference clock whose nanoseconds are executed
// instructions.
const ClockInstructions = "instructions"

// CountsInstructions reports whether times on the reference clock are executed
// instructions.
func (r Recording) CountsInstructions() bool {
	return len(r.Clocks) > 0 && r.Clocks[0].Name == ClockInstructions
}

// Extent is the time from the first span or mark of a recording to the last, on the
// reference clock: what a chart shows. Spans and marks whose clock cannot be placed do not
// count. Both are 0 without any.
func (r Recording) Extent() (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i, s := range r.Spans {
		if r.hasPlace(s.Clock) {
			start, end := r.Times(i)
			from, to = min(from, start), max(to, end)
		}
	}
	for _, m := range r.Marks {
		if r.hasPlace(m.Clock) {
			at := r.NS(m.Clock, m.At)
			from, to = min(from, at), max(to, at)
		}
	}
	if from > to {
		return 0, 0
	}
	return from, to
}

// Length is how long the boot took, on the reference clock: what shares of the boot are
// shares of. end names the mark that ends it; "" if none does. See Window.
func (r Recording) Length() (length float64, end string) {
	from, to, end := r.Window()
	return to - from, end
}

// Window is when the boot began and ended, on the reference clock: the start and the end of
// the root if there is one. Otherwise it is the time from the first span or mark to the last
// of the marks that end a boot, or, without such a mark, to the last span or mark. What a
// recording has after its end does not make the boot longer: a kernel writes to its log for as
// long as it runs. end names the mark; "" if it is none.
func (r Recording) Window() (from, to float64, end string) {
	if r.Root != nil {
		from, to = r.Times(*r.Root)
		return from, to, ""
	}
	from, to = r.Extent()
	last := from
	for _, m := range r.Marks {
		for _, name := range ends {
			if at := r.NS(m.Clock, m.At); m.Name == name && r.hasPlace(m.Clock) && at > last {
				last, end = at, name
			}
		}
	}
	if end != "" {
		to = last
	}
	return from, to, end
}

// Moment is when the first mark of this name was reached, on the reference clock. ok is false if
// there is none, or if its clock cannot be placed.
func (r Recording) Moment(name string) (at float64, ok bool) {
	for _, m := range r.Marks {
		if m.Name == name && r.hasPlace(m.Clock) {
			return r.NS(m.Clock, m.At), true
		}
	}
	return 0, false
}

// Clip returns r with the spans that wait or did not end cut at the last mark. Their ends are
// those of the recording, which goes on for as long as somebody takes to read it. Spans that
// begin after the last mark stay as they are. Clip does not change r.
func Clip(r Recording) Recording {
	last := math.Inf(-1)
	for _, m := range r.Marks {
		if r.hasPlace(m.Clock) {
			last = max(last, r.NS(m.Clock, m.At))
		}
	}
	spans := slices.Clone(r.Spans)
	least := make([]int64, len(spans)) // the latest end of what a span encloses
	for i := len(spans) - 1; i >= 0; i-- {
		s := &spans[i]
		if start := r.NS(s.Clock, s.Start); (s.Open || s.Wait) && r.hasPlace(s.Clock) && start < last &&
			r.NS(s.Clock, s.End) > last {
			at := s.Start + int64(last-start)
			if hz := r.Clocks[s.Clock].Hz; hz > 0 {
				at = s.Start + int64((last-start)*hz/1e9)
			}
			s.End = min(s.End, max(at, least[i], s.Start))
		}
		if p := s.Parent; p >= 0 && spans[p].Clock == s.Clock {
			least[p] = max(least[p], s.End)
		} else if p >= 0 {
			least[p] = spans[p].End
		}
	}
	r.Spans = spans
	return r
}

// hasPlace reports whether the readings of a clock have a place on the reference clock.
func (r Recording) hasPlace(clock int) bool {
	return clock == 0 || r.Clocks[clock].Known() && r.Clocks[0].Known()
}
