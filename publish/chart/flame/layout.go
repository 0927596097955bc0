package flame

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/bootmodel"
)

// The bounds of a layout. What is beyond them is merged into boxes, never left out.
const (
	maxRows  = 160 // of one band
	maxLanes = 48  // of siblings that overlap in time
	// fewTracks is the number of tracks up to which each has a band of its own. Above,
	// tracks without nested spans share a band.
	fewTracks = 12
)

// layout places spans: each in a row of a band, below its parent. Siblings that overlap
// in time are in lanes below each other. Indices are those of the spans.
type layout struct {
	rec        *bootmodel.Recording
	start, end []float64 // on the reference clock
	// first and next link the children of each span; -1 ends a list.
	first, next []int32
	offset      []int32 // rows below the parent, or below the top of the band
	height      []int32 // rows of the span with all below it
	below       []int32 // spans below it
	crowd       map[int32]bool
	bands       []band
	lo, hi      float64 // of everything
	from, to    float64 // of the boot, which ends at mark; see bootmodel.Recording.Window
	length      float64
	mark        string
	left        int // spans whose clock cannot be placed
}

// band is a part of the chart with a label: a track, or tracks that share it.
type band struct {
	label string
	roots []int32 // in the order of their starts
	rows  int
	spans int
	total float64 // time of the roots
}

func newLayout(rec *bootmodel.Recording) *layout {
	n := len(rec.Spans)
	l := &layout{rec: rec, start: make([]float64, n), end: make([]float64, n), first: make([]int32, n),
		next: make([]int32, n), offset: make([]int32, n), height: make([]int32, n), below: make([]int32, n)}
	l.computeTimes()
	l.from, l.to, l.mark = rec.Window()
	l.length = l.to - l.from
	roots := l.linkChildren()
	for i := n - 1; i >= 0; i-- { // children come after their parents
		if l.height[i] >= 0 {
			l.height[i] = 1 + l.packLanes(l.first[i], 1)
		}
	}
	l.groupBands(roots)
	return l
}

// computeTimes computes the start and end of every span and of the chart. A span that has no
// place on the reference clock gets the height -1.
func (l *layout) computeTimes() {
	l.lo, l.hi = math.Inf(1), math.Inf(-1)
	placed := make([]bool, len(l.rec.Clocks))
	for i, c := range l.rec.Clocks {
		placed[i] = i == 0 || c.Known() && l.rec.Clocks[0].Known()
	}
	for i, s := range l.rec.Spans {
		if !placed[s.Clock] {
			l.height[i] = -1
			l.left++
			continue
		}
		l.start[i], l.end[i] = l.rec.Times(i)
		l.lo, l.hi = min(l.lo, l.start[i]), max(l.hi, l.end[i])
	}
	for _, m := range l.rec.Marks {
		if placed[m.Clock] {
			at := l.rec.NS(m.Clock, m.At)
			l.lo, l.hi = min(l.lo, at), max(l.hi, at)
		}
	}
	if !(l.hi > l.lo) {
		if math.IsInf(l.lo, 0) {
			l.lo = 0
		}
		l.hi = l.lo + 1
	}
}

// linkChildren makes the lists of children and returns the roots.
func (l *layout) linkChildren() (roots []int32) {
	for i := range l.first {
		l.first[i] = -1
	}
	for i := len(l.rec.Spans) - 1; i >= 0; i-- {
		l.next[i] = -1
		if l.height[i] < 0 {
			continue
		}
		p := l.rec.Spans[i].Parent
		if p < 0 || l.height[p] < 0 {
			roots = append(roots, int32(i))
			continue
		}
		l.next[i], l.first[p] = l.first[p], int32(i)
		l.below[p] += l.below[i] + 1
	}
	slices.Reverse(roots)
	return roots
}

// packLanes puts siblings into lanes, so that none overlaps another, and returns the rows
// that they need. from is the offset of the first lane.
func (l *layout) packLanes(first, from int32) int32 {
	if first < 0 {
		return 0
	}
	var end [maxLanes]float64
	var high [maxLanes]int32
	lanes := 0
	for c := first; c >= 0; c = l.next[c] {
		k := 0
		for k < lanes && end[k] > l.start[c] {
			k++
		}
		switch {
		case k == maxLanes:
			k--
			if l.crowd == nil {
				l.crowd = map[int32]bool{}
			}
			l.crowd[c] = true
		case k == lanes:
			lanes++
		}
		end[k], high[k] = max(end[k], l.end[c]), max(high[k], l.height[c])
		l.offset[c] = int32(k)
	}
	if lanes == 1 {
		for c := first; c >= 0; c = l.next[c] {
			l.offset[c] = from
		}
		return high[0]
	}
	var top [maxLanes]int32
	rows := int32(0)
	for k := range lanes {
		top[k] = from + rows
		rows += high[k]
	}
	for c := first; c >= 0; c = l.next[c] {
		l.offset[c] = top[l.offset[c]]
	}
	return rows
}

// rank is the order of bands.
var rank = map[string]int{bootmodel.KindFirmware: 1, bootmodel.KindKernel: 2, bootmodel.KindProcess: 3}

// groupBands groups the roots by track. Many tracks of a single row each share a band for
// each kind.
func (l *layout) groupBands(roots []int32) {
	own := map[int]*band{}
	var tracks []int
	for _, r := range roots {
		t := l.rec.Spans[r].Track
		b := own[t]
		if b == nil {
			b = &band{label: trackLabel(l.rec.Tracks[t])}
			own[t] = b
			tracks = append(tracks, t)
		}
		b.addRoot(l, r)
	}
	shared := map[string]*band{}
	count := map[string]int{}
	var all []*band
	kinds := map[*band]string{}
	for _, t := range tracks {
		b, kind := own[t], l.rec.Tracks[t].Kind
		flat := !slices.ContainsFunc(b.roots, func(r int32) bool { return l.height[r] > 1 })
		if len(tracks) <= fewTracks || !flat {
			all, kinds[b] = append(all, b), kind
			continue
		}
		s := shared[kind]
		if s == nil {
			s = &band{}
			shared[kind] = s
			all, kinds[s] = append(all, s), kind
		}
		count[kind]++
		s.label = fmt.Sprintf("%s (%d without nested spans)", plurals[kind], count[kind])
		for _, r := range b.roots {
			s.addRoot(l, r)
		}
	}
	slices.SortStableFunc(all, func(a, b *band) int { return cmp.Compare(rank[kinds[a]], rank[kinds[b]]) })
	for _, b := range all {
		l.placeBand(b)
		l.bands = append(l.bands, *b)
	}
}

var plurals = map[string]string{bootmodel.KindFirmware: "firmware", bootmodel.KindKernel: "threads of the kernel",
	bootmodel.KindProcess: "processes", "": "other tracks"}

func (b *band) addRoot(l *layout, root int32) {
	b.roots = append(b.roots, root)
	b.spans += 1 + int(l.below[root])
	b.total += l.end[root] - l.start[root]
}

// placeBand links the roots of a band as siblings and packs them.
func (l *layout) placeBand(b *band) {
	slices.SortStableFunc(b.roots, func(x, y int32) int { return cmp.Compare(l.start[x], l.start[y]) })
	for i, r := range b.roots {
		l.next[r] = -1
		if i > 0 {
			l.next[b.roots[i-1]] = r
		}
	}
	b.rows = min(int(l.packLanes(b.roots[0], 0)), maxRows)
}

func trackLabel(t bootmodel.Track) string {
	if t.ID == "" || t.ID == t.Name || strings.HasSuffix(t.Name, " "+t.ID) {
		return t.Name
	}
	return t.Name + " " + t.ID
}
