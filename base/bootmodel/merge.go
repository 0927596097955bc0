package bootmodel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/fault"
)

// Pair ties the reference clocks of two recordings together: the second clock showed
// At while the first was between After and Before. All are nanoseconds.
type Pair struct {
	After  float64 `json:"after_ns"`
	Before float64 `json:"before_ns"`
	At     float64 `json:"at_ns"`
}

// Merge places the clocks of second on the reference clock of first, and returns one
// recording of both. pairs are readings of both reference clocks. Marks that both
// recordings have are pairs too: the moments are the same, each known to its
// uncertainty. Such marks of second are then left out.
//
// Every pair gives an interval for the offset between the clocks. The offset is the
// middle of what all of them allow, and its uncertainty half of that. If they exclude
// each other, one of the clocks drifts or a mark is not what it seems. The interval
// then spans the middles of all, and a note says so. If only marks of unknown uncertainty
// tie the clocks, that of the offset is unknown too.
//
// It is an error of kind fault.Invalid if nothing ties the clocks together, or if the
// frequency of one of them is unknown.
func Merge(first, second Recording, pairs ...Pair) (Recording, error) {
	if len(first.Clocks) == 0 || len(second.Clocks) == 0 {
		return Recording{}, fault.New(fault.Invalid, "cannot merge the two recordings: one of them names no clock")
	}
	for _, c := range []Clock{first.Clocks[0], second.Clocks[0]} {
		if !c.Known() {
			return Recording{}, fault.New(fault.Invalid, "cannot merge the two recordings: the frequency of the "+
				"clock %s of %s is unknown; name the frequency", c.Name, c.Source)
		}
	}
	shared, bounds, guesses := offsetBounds(first, second, pairs)
	var p placement
	switch {
	case len(bounds) > 0:
		p = placementOf(bounds)
	case len(guesses) > 0:
		p = placementOf(guesses)
		p.uncertainty = nil
		p.note = fmt.Sprintf("Placed by the mark %s, which both clocks have. The accuracy of this mark is unknown.",
			strings.Join(shared, ", "))
	default:
		return Recording{}, fault.New(fault.Invalid, "cannot merge the two recordings: no mark and no pair of "+
			"readings relates the clock %s of %s to the clock %s of %s; record both sources in one boot",
			second.Clocks[0].Name, second.Clocks[0].Source, first.Clocks[0].Name,
			first.Clocks[0].Source)
	}
	return join(first, second, p, shared), nil
}

// Same returns the pair that ties the clock name of r to another recording, whose
// reference clock is the same clock: CLOCK_MONOTONIC of a guest, which a kernel log and
// systemd share. ok is false if r has no such clock, or does not know how well it is placed.
func (r Recording) Same(name string) (p Pair, ok bool) {
	for _, c := range r.Clocks {
		if c.Name == name && c.UncertaintyNS != nil {
			return Pair{After: c.OffsetNS - *c.UncertaintyNS, Before: c.OffsetNS + *c.UncertaintyNS}, true
		}
	}
	return Pair{}, false
}

// interval is what an offset may be, in nanoseconds.
type interval struct{ low, high float64 }

// offsetBounds collects what pairs and shared marks say of the offset of second: bounds, and
// guesses of marks whose uncertainty is unknown.
func offsetBounds(first, second Recording, pairs []Pair) (shared []string, bounds, guesses []interval) {
	for _, p := range pairs {
		bounds = append(bounds, interval{p.After - p.At, p.Before - p.At})
	}
	for _, m := range second.Marks {
		i := slices.IndexFunc(first.Marks, func(o Mark) bool { return o.Name == m.Name })
		if i < 0 || slices.Contains(shared, m.Name) {
			continue
		}
		o := first.Marks[i]
		shared = append(shared, m.Name)
		d := first.NS(o.Clock, o.At) - second.NS(m.Clock, m.At)
		x, okX := first.error(o)
		y, okY := second.error(m)
		if okX && okY {
			bounds = append(bounds, interval{d - x - y, d + x + y})
		} else {
			guesses = append(guesses, interval{d, d})
		}
	}
	return shared, bounds, guesses
}

// error is the greatest error of a mark on the reference clock, in nanoseconds; false
// if it is unknown.
func (r Recording) error(m Mark) (float64, bool) {
	c := r.Clocks[m.Clock]
	if m.UncertaintyNS == nil || c.UncertaintyNS == nil {
		return 0, false
	}
	return *m.UncertaintyNS + *c.UncertaintyNS, true
}

// placement is where a clock is on the reference clock.
type placement struct {
	offset      float64
	uncertainty *float64
	note        string
	clash       bool // the intervals exclude each other
}

func placementOf(all []interval) placement {
	low, high := math.Inf(-1), math.Inf(1)
	for _, b := range all {
		low, high = max(low, b.low), min(high, b.high)
	}
	p := placement{clash: low > high}
	if p.clash {
		low, high = math.Inf(1), math.Inf(-1)
		for _, b := range all {
			low, high = min(low, (b.low+b.high)/2), max(high, (b.low+b.high)/2)
		}
		p.note = "The readings that tie this clock to the reference clock exclude each other: a clock drifts, or a mark " +
			"is late."
	}
	half := (high - low) / 2
	p.offset, p.uncertainty = low+half, &half
	return p
}

// join appends second to first. It changes neither.
func join(first, second Recording, p placement, shared []string) Recording {
	r := first
	r.Clocks, r.Tracks, r.Spans = slices.Clone(first.Clocks), slices.Clone(first.Tracks), slices.Clone(first.Spans)
	r.Notes, r.Marks = slices.Clone(first.Notes), slices.Clone(first.Marks)
	r.System = cmp.Or(r.System, second.System)
	r.Command = cmp.Or(r.Command, second.Command)
	clocks, tracks, spans := len(r.Clocks), len(r.Tracks), len(r.Spans)
	for _, c := range second.Clocks {
		r.Clocks = append(r.Clocks, p.moved(c))
	}
	for _, t := range second.Tracks {
		if t.Parent >= 0 {
			t.Parent += tracks
		}
		r.Tracks = append(r.Tracks, t)
	}
	for _, s := range second.Spans {
		if s.Parent >= 0 {
			s.Parent += spans
		}
		s.Track, s.Clock = s.Track+tracks, s.Clock+clocks
		r.Spans = append(r.Spans, s)
	}
	for _, m := range second.Marks {
		if m.Clock += clocks; !slices.Contains(shared, m.Name) {
			r.Marks = append(r.Marks, m)
		}
	}
	if r.Root == nil && second.Root != nil {
		r.Root = new(*second.Root + spans)
	}
	r.Notes = append(r.Notes, second.Notes...)
	if p.clash {
		r.Notes = append(r.Notes, Note{Source: second.Clocks[0].Source, Text: p.note})
	}
	SortMarks(&r)
	return r
}

// moved is a clock of second on the reference clock of first.
func (p placement) moved(c Clock) Clock {
	c.OffsetNS += p.offset
	switch {
	case p.uncertainty == nil || c.UncertaintyNS == nil:
		c.UncertaintyNS = nil
	default:
		c.UncertaintyNS = new(*p.uncertainty + *c.UncertaintyNS)
	}
	if p.note != "" {
		c.Note = strings.TrimSpace(c.Note + " " + p.note)
	}
	return c
}

// SortMarks puts the marks in the order of their times on the reference clock. Marks
// at the same time keep their order.
func SortMarks(r *Recording) {
	slices.SortStableFunc(r.Marks, func(a, b Mark) int {
		switch x, y := r.NS(a.Clock, a.At), r.NS(b.Clock, b.At); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
