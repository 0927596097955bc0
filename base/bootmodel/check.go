package bootmodel

import (
	"math"
	"slices"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/sample"
)

// Check verifies what the comments of Recording promise. It returns an error of kind
// fault.Invalid that lists up to 20 problems, one per line, each beginning with name.
func Check(name string, r Recording) error {
	c := checker{r: r, at: name + ": "}
	c.schema()
	c.clocks()
	c.tracks()
	if c.problems.Empty() {
		// Everything below uses the indices of clocks and tracks.
		c.spans()
		c.marks()
	}
	return c.problems.Err()
}

type checker struct {
	r        Recording
	at       string
	problems fault.List
}

func (c *checker) addError(format string, args ...any) { c.problems.Add(c.at, format, args...) }

func (c *checker) schema() {
	if c.r.Schema != Schema {
		c.addError("the schema is %q, and this program reads %q; use the version of bakeoff that wrote the recording",
			c.r.Schema, Schema)
	}
	if i := slices.IndexFunc(c.r.Notes, func(n Note) bool { return n.Source == "" || n.Text == "" }); i >= 0 {
		c.addError("note %d has no source or no text", i)
	}
}

// certain reports whether an uncertainty is unknown or a number that it can be.
func certain(u *float64) bool { return u == nil || sample.IsFinite(*u) && *u >= 0 }

func (c *checker) clocks() {
	if len(c.r.Clocks) == 0 {
		c.addError("the recording has no clock")
	}
	for i, k := range c.r.Clocks {
		switch {
		case k.Name == "" || k.Source == "":
			c.addError("clock %d has no name or no source", i)
		case !sample.IsFinite(k.Hz) || k.Hz < 0:
			c.addError("clock %d has %v ticks per second", i, k.Hz)
		case !sample.IsFinite(k.OffsetNS) || !certain(k.UncertaintyNS):
			c.addError("clock %d has an impossible offset or uncertainty", i)
		case i == 0 && (k.OffsetNS != 0 || k.UncertaintyNS == nil || *k.UncertaintyNS != 0):
			c.addError("clock 0 is the reference clock, so its offset and its uncertainty must be 0")
		case i > 0 && (k.Hz == 0 || c.r.Clocks[0].Hz == 0):
			c.addError("clock %d cannot be placed on the reference clock, because the frequency of one of the two clocks "+
				"is unknown", i)
		case k.UncertaintyNS == nil && k.Note == "":
			c.addError("clock %d has an unknown uncertainty, and no note says why", i)
		}
	}
}

func (c *checker) tracks() {
	for i, t := range c.r.Tracks {
		switch {
		case t.Name == "" || !utf8.ValidString(t.Name):
			c.addError("track %d has no name, or one that is not UTF-8", i)
		case t.Parent < -1 || t.Parent >= len(c.r.Tracks) || t.Parent == i:
			c.addError("track %d has the parent %d, which is not another track", i, t.Parent)
		case t.Kind != KindFirmware && t.Kind != KindKernel && t.Kind != KindProcess:
			c.addError("track %d has the kind %q; it must be %s, %s or %s", i, t.Kind, KindFirmware, KindKernel, KindProcess)
		}
	}
	if c.problems.Empty() {
		c.ancestors()
	}
}

// ancestors refuses tracks that descend from themselves.
func (c *checker) ancestors() {
	rooted := make([]bool, len(c.r.Tracks))
	for i := range c.r.Tracks {
		var way []int
		for at := i; at >= 0 && !rooted[at]; at = c.r.Tracks[at].Parent {
			if way = append(way, at); len(way) > len(c.r.Tracks) {
				c.addError("track %d descends from itself", i)
				return
			}
		}
		for _, at := range way {
			rooted[at] = true
		}
	}
}

// spans checks every span against its parent and its predecessor: the child of the
// same parent before it, or the root of the same track.
func (c *checker) spans() {
	child := make([]int, len(c.r.Spans))
	root := make([]int, len(c.r.Tracks))
	for i := range child {
		child[i] = -1
	}
	for i := range root {
		root[i] = -1
	}
	for i, s := range c.r.Spans {
		if !c.span(i, s) {
			return
		}
		before := &root[s.Track]
		if s.Parent >= 0 {
			before = &child[s.Parent]
			c.checkWithin(i, s.Parent)
		}
		if *before >= 0 {
			c.checkAfter(i, *before)
		}
		*before = i
	}
	if n := c.r.Root; n != nil && (*n < 0 || *n >= len(c.r.Spans)) {
		c.addError("the root is span %d, which does not exist", *n)
	}
}

// span checks a span alone, and reports whether its indices can be used.
func (c *checker) span(i int, s Span) bool {
	switch {
	case s.Name == "" || !utf8.ValidString(s.Name) || !utf8.ValidString(s.Arg):
		c.addError("span %d has no name, or one that is not UTF-8", i)
	case s.Track < 0 || s.Track >= len(c.r.Tracks):
		c.addError("span %d is on track %d, which does not exist", i, s.Track)
	case s.Clock < 0 || s.Clock >= len(c.r.Clocks):
		c.addError("span %d has clock %d, which does not exist", i, s.Clock)
	case s.Parent < -1 || s.Parent >= i:
		c.addError("span %d has the parent %d; a parent comes before its children", i, s.Parent)
	case s.Start > s.End:
		c.addError("span %d ends %d ticks before it starts", i, s.Start-s.End)
	default:
		return true
	}
	return false
}

// tolerance is by how many nanoseconds readings of two clocks may differ without
// contradiction; false if nobody knows.
func (c *checker) tolerance(a, b int) (float64, bool) {
	x, y := c.r.Clocks[a].UncertaintyNS, c.r.Clocks[b].UncertaintyNS
	if x == nil || y == nil {
		return 0, false
	}
	return *x + *y + 1e9/c.r.Clocks[a].Hz + 1e9/c.r.Clocks[b].Hz, true
}

func (c *checker) checkWithin(i, parent int) {
	s, p := c.r.Spans[i], c.r.Spans[parent]
	if s.Clock == p.Clock {
		if s.Start < p.Start || s.End > p.End {
			c.addError("span %d does not lie within its parent %d", i, parent)
		}
		return
	}
	start, end := c.r.Times(i)
	from, to := c.r.Times(parent)
	if slack, ok := c.tolerance(s.Clock, p.Clock); ok && (start < from-slack || end > to+slack) {
		c.addError("span %d does not lie within its parent %d", i, parent)
	}
}

func (c *checker) checkAfter(i, before int) {
	s, b := c.r.Spans[i], c.r.Spans[before]
	if s.Clock == b.Clock {
		if s.Start < b.End {
			c.addError("span %d starts before the end of its neighbor, span %d", i, before)
		}
		return
	}
	start, _ := c.r.Times(i)
	_, end := c.r.Times(before)
	if slack, ok := c.tolerance(s.Clock, b.Clock); ok && start < end-slack {
		c.addError("span %d starts before the end of its neighbor, span %d", i, before)
	}
}

func (c *checker) marks() {
	last := math.Inf(-1)
	for i, m := range c.r.Marks {
		switch {
		case m.Name == "" || !utf8.ValidString(m.Name) || !utf8.ValidString(m.How):
			c.addError("mark %d has no name, or one that is not UTF-8", i)
			return
		case m.Clock < 0 || m.Clock >= len(c.r.Clocks):
			c.addError("mark %d has clock %d, which does not exist", i, m.Clock)
			return
		case !certain(m.UncertaintyNS):
			c.addError("mark %d has an impossible uncertainty", i)
		}
		at := c.r.NS(m.Clock, m.At)
		if at < last {
			c.addError("mark %d is earlier than mark %d", i, i-1)
		}
		last = at
	}
}
