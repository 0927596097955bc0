package linux

import (
	"slices"

	"bakeoff/base/bootmodel"
)

// rounding is by how many nanoseconds the times of the log and of the trace are too
// early: both are cut to microseconds.
const rounding = 1000

// clockOffset is what the first clock of a reading is ahead of the second, in nanoseconds.
func (r reading) clockOffset() (low, high float64) {
	return float64(r.after-r.at) - rounding, float64(r.before - r.at)
}

func middleOf(low, high float64) (offset float64, uncertainty *float64) {
	half := (high - low) / 2
	return low + half, &half
}

// placeTrace adds the clock of the trace.
func (b *builder) placeTrace(in input) {
	c := bootmodel.Clock{Name: "trace", Source: name, Hz: 1e6, UncertaintyNS: bootmodel.Exact()}
	b.trace = len(b.r.Clocks)
	if b.trace > 0 {
		c.OffsetNS, c.UncertaintyNS, c.Note = offsetOfTrace(in, b.r.Marks)
	}
	b.r.Clocks = append(b.r.Clocks, c)
}

// offsetOfTrace is how far the clock of the log is ahead of that of the trace. Both were
// read against CLOCK_MONOTONIC. Otherwise the execution of process 1 is taken to be at the message
// that the kernel logs just before it.
func offsetOfTrace(in input, marks []bootmodel.Mark) (offset float64, uncertainty *float64, note string) {
	if in.clock != nil && in.trace != nil {
		low, high := in.trace.clockOffset()
		logLow, logHigh := in.clock.clockOffset()
		offset, uncertainty = middleOf(low-logHigh, high-logLow)
		return offset, uncertainty, "Compared with the clock of the log at the end of the recording."
	}
	run := slices.IndexFunc(marks, func(m bootmodel.Mark) bool { return m.Name == bootmodel.MarkUserland })
	first := slices.IndexFunc(in.events, func(e event) bool { return e.kind == "exec" && e.pid == "1" })
	if run < 0 || first < 0 {
		return 0, nil, "Assumed to be the clock of the log, because the file has no readings of both clocks."
	}
	return float64(marks[run].At-in.events[first].at) * 1000, nil,
		"Placed so that process 1 executes its program when the kernel logs that it will, because the file has no readings " +
			"of both clocks."
}

// placeMonotonic adds CLOCK_MONOTONIC, the clock of programs, so that others can place
// what they read on it.
func (b *builder) placeMonotonic(in input) {
	r := in.clock
	if len(b.r.Clocks) == 1 && b.r.Clocks[0].Name == "trace" {
		r = in.trace
	}
	if r == nil {
		return
	}
	low, high := r.clockOffset()
	offset, uncertainty := middleOf(-high, -low)
	b.r.Clocks = append(b.r.Clocks, bootmodel.Clock{Name: "monotonic", Source: name, Hz: 1e9, OffsetNS: offset,
		UncertaintyNS: uncertainty, Note: "CLOCK_MONOTONIC of the guest."})
}
