package profile

import (
	"cmp"
	"math"
	"slices"

	"bakeoff/base/bootmodel"
)

// The kinds of times of a span.
const (
	total = iota
	self
	wait
	open
	kinds
)

// event is the start or the end of a span.
type event struct {
	at   float64
	span int32
	ends bool
}

// running counts the spans of a group that are in a kind of time, and adds it up while there
// is one.
type running struct {
	spans int32
	since float64
	sum   float64
	in    float64 // the part of sum within the boot
}

// sweeper goes through a boot in the order of time.
type sweeper struct {
	rec      *bootmodel.Recording
	group    []int32
	kind     []byte  // of each span: self, wait or open
	within   []int32 // how many spans are running that each span encloses
	groups   [][kinds]running
	from, to float64 // of the boot
}

// sweepSpans adds up the times of the spans of each of n groups. group has the group of each span;
// spans with group -1 are left out. At any moment, a group counts once, however many of its
// spans run. So no sum is longer than the time from the first span to the last. The boot lasts
// from from to to.
func sweepSpans(rec *bootmodel.Recording, group []int32, n int, from, to float64) []Cost {
	w := sweeper{rec: rec, group: group, kind: kindsOf(rec), within: make([]int32, len(group)),
		groups: make([][kinds]running, n), from: from, to: to}
	costs := make([]Cost, n)
	for _, g := range group {
		if g >= 0 {
			costs[g].Count++
		}
	}
	for _, e := range w.sortedEvents() {
		w.takeEvent(e)
	}
	for g := range costs {
		of := w.groups[g]
		costs[g].Total, costs[g].Self, costs[g].Within = roundTime(of[total].sum), roundTime(of[self].sum),
			roundTime(of[self].in)
		costs[g].Wait, costs[g].Open = roundTime(of[wait].sum), roundTime(of[open].sum)
		costs[g].WaitWithin, costs[g].TotalWithin = roundTime(of[wait].in), roundTime(of[total].in)
	}
	return costs
}

// roundTime cuts off what differences of times have from their last digits: the same duration at
// another time is the same number.
func roundTime(v float64) float64 { return math.Round(v*1000) / 1000 }

// kindsOf says what the time of each span is that no other one below it has. A function that
// goes on until the boot ends because it is the boot did not miss its end.
func kindsOf(rec *bootmodel.Recording) []byte {
	kind := make([]byte, len(rec.Spans))
	for i, s := range rec.Spans {
		switch {
		case s.Wait:
			kind[i] = wait
		case s.Open:
			kind[i] = open
		default:
			kind[i] = self
		}
	}
	if rec.Root != nil {
		for i := *rec.Root; i >= 0; i = rec.Spans[i].Parent {
			kind[i] = self
		}
	}
	return kind
}

// sortedEvents are the starts and ends of the spans that took time, in order. A span on another
// clock than its parent is cut to it.
func (w *sweeper) sortedEvents() []event {
	start, end := make([]float64, len(w.group)), make([]float64, len(w.group))
	events := make([]event, 0, 2*len(w.group))
	for i, s := range w.rec.Spans {
		if w.group[i] < 0 {
			continue
		}
		start[i], end[i] = w.rec.Times(i)
		if p := s.Parent; p >= 0 && w.group[p] >= 0 {
			start[i], end[i] = max(start[i], start[p]), min(end[i], end[p])
		}
		if start[i] < end[i] {
			events = append(events, event{start[i], int32(i), false}, event{end[i], int32(i), true})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.ends != b.ends:
			if a.ends {
				return -1
			}
			return 1
		case a.ends: // the innermost ends first
			return cmp.Compare(b.span, a.span)
		}
		return cmp.Compare(a.span, b.span)
	})
	return events
}

func (w *sweeper) takeEvent(e event) {
	i, parent := e.span, int32(w.rec.Spans[e.span].Parent)
	if parent >= 0 && w.group[parent] < 0 {
		parent = -1
	}
	if !e.ends {
		w.enterSpan(i, total, e.at)
		w.enterSpan(i, w.kind[i], e.at)
		if parent >= 0 {
			if w.within[parent]++; w.within[parent] == 1 {
				w.leaveSpan(parent, w.kind[parent], e.at)
			}
		}
		return
	}
	w.leaveSpan(i, total, e.at)
	w.leaveSpan(i, w.kind[i], e.at)
	if parent >= 0 {
		if w.within[parent]--; w.within[parent] == 0 {
			w.enterSpan(parent, w.kind[parent], e.at)
		}
	}
}

func (w *sweeper) enterSpan(span int32, kind byte, at float64) {
	r := &w.groups[w.group[span]][kind]
	if r.spans++; r.spans == 1 {
		r.since = at
	}
}

func (w *sweeper) leaveSpan(span int32, kind byte, at float64) {
	r := &w.groups[w.group[span]][kind]
	if r.spans--; r.spans == 0 {
		r.sum += at - r.since
		r.in += max(0, min(at, w.to)-max(r.since, w.from))
	}
}
