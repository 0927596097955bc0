package linux

import "bakeoff/base/bootmodel"

// node is a span while the tree grows.
type node struct {
	name, arg  string
	start, end int64
	open       bool
	children   []*node // in order of time
}

// slack is by how many microseconds times may contradict each other: each is rounded.
const slack = 2

// insertEnded inserts c, which has ended, below n. Children that began after c did become
// children of c: the kernel logs the end of a probe only. It reports whether c fits.
func (n *node) insertEnded(c *node) bool {
	if c.start < n.start-slack {
		return false
	}
	c.start = max(c.start, n.start)
	k := len(n.children)
	for k > 0 && n.children[k-1].start >= c.start-slack && !n.children[k-1].open {
		k--
	}
	if k > 0 {
		before := n.children[k-1]
		if before.open || before.end > c.start+slack {
			return false
		}
		c.start = max(c.start, before.end)
	}
	if below := n.children[k:]; len(below) > 0 {
		c.start = min(c.start, below[0].start)
		c.end = max(c.end, below[len(below)-1].end)
		c.children = append(c.children, below...)
	}
	c.end = max(c.end, c.start)
	n.children = append(n.children[:k:k], c)
	return true
}

// endOpen ends what is open below n, and cuts what is longer than n.
func (n *node) endOpen() {
	for _, c := range n.children {
		if c.open {
			c.end = n.end
		}
		c.start, c.end = min(c.start, n.end), min(c.end, n.end)
		c.endOpen()
	}
}

// writeNode appends n and all below it to r.
func (n *node) writeNode(r *bootmodel.Recording, track, parent int) {
	at := len(r.Spans)
	r.Spans = append(r.Spans, bootmodel.Span{Name: n.name, Arg: n.arg, Track: track, Parent: parent, Start: n.start,
		End:  n.end,
		Open: n.open})
	for _, c := range n.children {
		c.writeNode(r, track, at)
	}
}
