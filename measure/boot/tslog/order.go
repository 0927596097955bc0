package tslog

import (
	"cmp"
	"slices"

	"bakeoff/base/bootmodel"
)

// orderSpans puts the spans into r: a parent before its children, and these in the order of
// their starts.
//
// The span of the main function is the root if the boot ends in it. If the main
// function exits before, the boot goes on in the thread of start_init. Then a track of
// its own repeats the boot: what the main function did, then what that thread did.
func (l *log) orderSpans(r *bootmodel.Recording, main int) {
	whole := l.spans[main].End == l.end
	if whole && !slices.ContainsFunc(l.spans, func(s bootmodel.Span) bool { return s.Charged }) {
		r.Spans, r.Root = l.spans, &main
		return
	}
	room := len(l.spans)
	if !whole {
		room = 2*room + 1 // with the repetition
	}
	o := orderer{log: l, to: make([]bootmodel.Span, 0, room), mark: main}
	o.linkChildren()
	for i, s := range l.spans {
		if s.Parent < 0 {
			o.emitSpan(i, -1)
		}
	}
	root := o.at
	if !whole {
		root = o.repeatBoot(main)
	}
	r.Spans, r.Root = o.to, &root
}

// orderer writes a tree of spans in order.
type orderer struct {
	*log
	to   []bootmodel.Span
	mark int // the span whose new place at is
	at   int
	// The children of span i are children[first[i]:first[i+1]].
	first    []int32
	children []int32
}

// linkChildren finds the children of every span.
func (o *orderer) linkChildren() {
	o.first = make([]int32, len(o.spans)+1)
	for _, s := range o.spans {
		if s.Parent >= 0 {
			o.first[s.Parent+1]++
		}
	}
	for i := range o.spans {
		o.first[i+1] += o.first[i]
	}
	next := slices.Clone(o.first)
	o.children = make([]int32, o.first[len(o.spans)])
	for i, s := range o.spans {
		if s.Parent >= 0 {
			o.children[next[s.Parent]] = int32(i)
			next[s.Parent]++
		}
	}
	for _, w := range o.waits {
		slices.SortStableFunc(o.childrenOf(w.span), func(a, b int32) int {
			return cmp.Or(cmp.Compare(o.spans[a].Start, o.spans[b].Start), cmp.Compare(o.spans[a].End, o.spans[b].End))
		})
	}
}

func (o *orderer) childrenOf(i int) []int32 { return o.children[o.first[i]:o.first[i+1]] }

// emitSpan writes span i and all below it.
func (o *orderer) emitSpan(i, parent int) {
	if i == o.mark {
		o.at = len(o.to)
	}
	s := o.spans[i]
	s.Parent = parent
	at := len(o.to)
	o.to = append(o.to, s)
	for _, child := range o.childrenOf(i) {
		o.emitSpan(int(child), at)
	}
}

// repeatBoot writes the boot on a track of its own, and returns its root.
func (o *orderer) repeatBoot(main int) (root int) {
	s := o.spans[main]
	until := s.End
	o.tracks = append(o.tracks, bootmodel.Track{Name: "boot", Parent: -1, Kind: bootmodel.KindKernel})
	s.Track, s.Parent, s.End, s.Charged = len(o.tracks)-1, -1, o.end, true
	root = len(o.to)
	o.to = append(o.to, s)
	for _, child := range o.childrenOf(main) {
		o.emitPart(int(child), root, s.Start, until)
	}
	if o.ended < 0 {
		return root
	}
	for i, s := range o.spans[:len(o.fns)] {
		if s.Track == o.spans[o.ended].Track && s.Parent < 0 && i != main {
			o.emitPart(i, root, until, o.end)
		}
	}
	return root
}

// emitPart writes what lies between two times of span i and of all below it.
func (o *orderer) emitPart(i, parent int, from, to int64) {
	s := o.spans[i]
	if s.End < from || s.Start > to || s.End == from && s.Start < from || s.Start == to && s.End > to {
		return
	}
	s.Parent, s.Start, s.End, s.Charged = parent, max(s.Start, from), min(s.End, to), true
	at := len(o.to)
	o.to = append(o.to, s)
	for _, child := range o.childrenOf(i) {
		o.emitPart(int(child), at, from, to)
	}
}
