package flame

import (
	"math"
	"slices"
)

// box is a rectangle of the chart: one span, or several next to each other that are too
// short to have boxes of their own.
type box struct {
	span       int32 // the span, or the longest of several
	row, depth int
	start, end float64 // on the reference clock
	spans      int     // in this row
	below      int     // spans below those that are in no box of their own
	total      float64 // time of the spans in this row
	last       int32   // the last span of several
}

func (b box) isMerged() bool { return b.spans > 1 || b.below > 0 }

// placeBoxes places at most about most boxes, in an order in which a parent comes before its
// children. Merged tells how many spans have no box of their own, and shorter that all
// of these are shorter than it, unless they are in a crowd or too deep.
func (l *layout) placeBoxes(most int) (out [][]box, merged int, shorter float64) {
	shorter = l.threshold(most)
	for {
		out, merged = nil, 0
		n := 0
		for _, b := range l.bands {
			p := placer{layout: l, shorter: shorter}
			p.visitSiblings(b.roots[0], 0, 0)
			out = append(out, p.out)
			n += len(p.out)
			for _, x := range p.out {
				if x.isMerged() {
					merged += x.spans + x.below
				}
			}
		}
		if n <= most+len(l.bands) || shorter >= l.hi-l.lo {
			return out, merged, shorter
		}
		shorter = max(2*shorter, (l.hi-l.lo)*1e-7)
	}
}

// threshold is the duration that half as many spans have as there may be boxes; 0 if
// all spans may have one. The other half is for boxes of several spans.
func (l *layout) threshold(most int) float64 {
	if len(l.start) <= most {
		return 0
	}
	took := make([]float64, 0, len(l.start))
	for i := range l.start {
		took = append(took, l.end[i]-l.start[i])
	}
	slices.Sort(took)
	return math.Nextafter(took[len(took)-1-most/2], math.Inf(1))
}

// placer makes the boxes of one band.
type placer struct {
	*layout
	shorter float64
	out     []box
}

// visitSiblings makes boxes of siblings and of all below them. top is the row from which their
// offsets count.
func (p *placer) visitSiblings(first int32, top, depth int) {
	var runs []box // those that can still grow, one for each row
	for c := first; c >= 0; c = p.next[c] {
		row := top + int(p.offset[c])
		deepest := row >= maxRows-1
		row = min(row, maxRows-1)
		i := slices.IndexFunc(runs, func(r box) bool { return r.row == row })
		took := p.end[c] - p.start[c]
		if took >= p.shorter && !deepest && !p.crowd[c] {
			if i >= 0 {
				p.out = append(p.out, runs[i])
				runs = slices.Delete(runs, i, i+1)
			}
			p.out = append(p.out, box{span: c, row: row, depth: depth, start: p.start[c], end: p.end[c], spans: 1,
				total: took, last: c})
			if p.first[c] >= 0 {
				p.visitSiblings(p.first[c], row, depth+1)
			}
			continue
		}
		if i >= 0 && p.start[c]-runs[i].end > p.shorter {
			p.out = append(p.out, runs[i])
			runs = slices.Delete(runs, i, i+1)
			i = -1
		}
		if i < 0 {
			runs = append(runs, box{span: c, row: row, depth: depth, start: p.start[c], end: p.end[c]})
			i = len(runs) - 1
		}
		runs[i].growBy(p.layout, c)
	}
	p.out = append(p.out, runs...)
}

// growBy adds a span to a run.
func (b *box) growBy(l *layout, c int32) {
	took := l.end[c] - l.start[c]
	if took > l.end[b.span]-l.start[b.span] {
		b.span = c
	}
	b.end, b.last = max(b.end, l.end[c]), c
	b.spans++
	b.below += int(l.below[c])
	b.total += took
}
