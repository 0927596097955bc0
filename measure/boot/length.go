package boot

import "math"

// The names of marks that end a boot, besides those that all sources share.
const (
	MarkReady    = "environment ready" // its driver says so
	MarkFinished = "startup finished"  // systemd has no job of the startup left
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
		if r.placed(s.Clock) {
			start, end := r.Times(i)
			from, to = min(from, start), max(to, end)
		}
	}
	for _, m := range r.Marks {
		if r.placed(m.Clock) {
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
// shares of. It is the length of the root if there is one. Otherwise it is the time from
// the first span or mark to the last of the marks that end a boot, or, without such a mark,
// to the last span or mark. What a recording has after its end does not make the boot
// longer: a kernel writes to its log for as long as it runs. end names the mark; "" if it
// is none.
func (r Recording) Length() (length float64, end string) {
	if r.Root != nil {
		from, to := r.Times(*r.Root)
		return to - from, ""
	}
	from, to := r.Extent()
	last := from
	for _, m := range r.Marks {
		for _, name := range ends {
			if at := r.NS(m.Clock, m.At); m.Name == name && r.placed(m.Clock) && at > last {
				last, end = at, name
			}
		}
	}
	if end == "" {
		last = to
	}
	return last - from, end
}

// placed reports whether the readings of a clock have a place on the reference clock.
func (r Recording) placed(clock int) bool {
	return clock == 0 || r.Clocks[clock].Known() && r.Clocks[0].Known()
}
