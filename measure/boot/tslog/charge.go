package tslog

import (
	"cmp"
	"slices"
	"sort"

	"bakeoff/base/bootmodel"
	"bakeoff/base/lists"
)

// maxWork bounds the spans that are charged to waits, and the holds that are looked at
// for it.
const maxWork = 20 << 20

// charger charges the stacks of threads to the waits for them.
type charger struct {
	*log
	byTrack  [][]int // the spans of every track, in order of their starts
	children map[int][]int
	work     int
}

// chargeWaits appends, for every wait, what the threads that held the topic did meanwhile. Those
// of the boot's own threads come first. It reports whether it gave up.
func (l *log) chargeWaits(main int) (spare bool) {
	if len(l.waits) == 0 || len(l.holds) == 0 {
		return false
	}
	c := charger{log: l, byTrack: make([][]int, len(l.tracks)), children: map[int][]int{}}
	waits := lists.Set(l.waits, func(w wait) int { return w.span })
	for i, s := range l.spans {
		c.byTrack[s.Track] = append(c.byTrack[s.Track], i)
		if s.Parent >= 0 && waits[s.Parent] {
			c.children[s.Parent] = append(c.children[s.Parent], i)
		}
	}
	for topic := range l.holds {
		slices.SortFunc(l.holds[topic], func(a, b hold) int {
			return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(a.start, b.start), cmp.Compare(a.track, b.track))
		})
	}
	own := func(w wait) bool {
		t := l.spans[w.span].Track
		return t == l.spans[main].Track || l.ended >= 0 && t == l.spans[l.ended].Track
	}
	slices.SortStableFunc(l.waits, func(a, b wait) int {
		switch x, y := own(a), own(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	for _, w := range l.waits {
		if c.work > maxWork {
			return true
		}
		c.chargeWait(w)
	}
	return false
}

// piece is a time in which a thread held what another waited for.
type piece struct {
	track    int
	from, to int64
}

// chargeWait charges one wait. What the waiting thread did itself meanwhile is not charged.
func (c *charger) chargeWait(w wait) {
	s := c.spans[w.span]
	at := s.Start
	for _, p := range c.holders(s, w.topic) {
		free := max(p.from, at)
		for _, child := range c.children[w.span] {
			own := c.spans[child]
			if own.End <= free {
				continue
			}
			if own.Start >= p.to {
				break
			}
			c.copyWork(p.track, free, own.Start, w.span)
			free = own.End
		}
		c.copyWork(p.track, free, p.to, w.span)
	}
}

// holders returns who held the topic of a wait, in order of time. At each moment it is
// the thread that releases it last.
func (c *charger) holders(s bootmodel.Span, topic int32) (out []piece) {
	until := s.End
	for _, h := range c.holds[topic] { // the last to release comes first
		c.work++
		if h.track == s.Track {
			continue
		}
		if from, to := max(h.start, s.Start), min(h.end, until); from < to {
			out = append(out, piece{h.track, from, to})
		}
		if until = min(until, h.start); until <= s.Start {
			break
		}
	}
	slices.Reverse(out)
	return out
}

// copyWork appends what a track did from one time to another, as children of a wait.
func (c *charger) copyWork(track int, from, to int64, parent int) {
	if from >= to {
		return
	}
	all := c.byTrack[track]
	k := sort.Search(len(all), func(i int) bool { return c.spans[all[i]].Start >= from })
	var open []int // what was open at the start, the innermost first
	if k > 0 {
		for at := all[k-1]; at >= 0; at = c.spans[at].Parent {
			if c.spans[at].End > from {
				open = append(open, at)
			}
		}
	}
	slices.Reverse(open)
	var stack []copied
	for _, i := range open {
		stack = c.copyOne(stack, i, from, to, parent)
	}
	for ; k < len(all) && c.spans[all[k]].Start < to; k++ {
		stack = c.copyOne(stack, all[k], from, to, parent)
	}
}

// copied is a span and its copy.
type copied struct{ span, copy int }

// copyOne appends a copy of span i, cut to the time, below the copy of its parent.
func (c *charger) copyOne(stack []copied, i int, from, to int64, parent int) []copied {
	c.work++
	s := c.spans[i]
	for len(stack) > 0 && stack[len(stack)-1].span != s.Parent {
		stack = stack[:len(stack)-1]
	}
	s.Parent = parent
	if n := len(stack); n > 0 {
		s.Parent = stack[n-1].copy
	}
	s.Open = s.Open && s.End <= to
	s.Start, s.End, s.Charged = max(s.Start, from), min(s.End, to), true
	c.log.spans = append(c.log.spans, s)
	return append(stack, copied{i, len(c.log.spans) - 1})
}
