// Package flame draws a boot as a flame chart: time runs from left to right, a span is as
// wide as it took long, and what it did stands below it. Each thread or process has a band.
//
// A chart has a bounded number of boxes, whatever the number of spans. Spans that are too
// short for a box of their own are drawn together with their neighbors, in a box that
// says how many they are and how long they took.
package flame

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/bootmodel"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/judge/profile"
	"bakeoff/publish/chart"
)

// Boxes is the number of boxes of a chart that New makes.
const Boxes = 5000

// Figure is a boot.
type Figure struct {
	of   string
	most int
	l    *layout
	tree *profile.Tree
	cost []profile.Cost
	rows []profile.Row
}

// New returns the chart of a recording whose indices are valid. of names the recording,
// and boxes bounds how many boxes the chart has; Boxes suits a page.
func New(of string, rec *bootmodel.Recording, boxes int) Figure {
	f := Figure{of: of, most: max(boxes, 1), l: newLayout(rec), tree: profile.NewTree()}
	f.cost, _ = f.tree.Add(rec)
	f.rows = f.tree.Rows(rec)
	return f
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "flame",
		Title: "Flame charts",
		Read: "Time runs from left to right. A box is a span: its width is the time that the span took, and the spans " +
			"inside it are below it. Where there is nothing below a box, the span itself did the work. A pale box is a wait. " +
			"A dotted box stands for several spans that are too short for boxes of their own. A box with a dashed edge did " +
			"not end in the recording. Vertical lines are marks.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.of + ": flame chart" + chart.InUnit(f.Scale().Unit()) }

// Desc says what took most of the time.
func (f Figure) Desc() string {
	s, spans := f.Scale(), len(f.l.rec.Spans)
	text := fmt.Sprintf("%s and %s in %s. ", unit.Count(spans, "span"), unit.Count(len(f.l.rec.Marks), "mark"),
		s.Took(f.Extent()))
	for _, r := range f.Rows()[:min(3, len(f.Rows()))] {
		text += fmt.Sprintf("%s took %s itself. ", clipLabel(r.Label), s.Took(r.Self))
	}
	return text + "The table has the numbers."
}

// Rows are all spans by label, the greatest self time first.
func (f Figure) Rows() []profile.Row { return f.rows }

// Tree is the call tree of the recording with what each node cost.
func (f Figure) Tree() (*profile.Tree, []profile.Cost) { return f.tree, f.cost }

// Idle is how long the spans of a row waited or did not end; "" if they do not. It is not part
// of their self time.
func (f Figure) Idle(r profile.Row) string {
	if r.Wait+r.Open > 0 {
		return f.Scale().Took(r.Wait + r.Open)
	}
	return ""
}

// Scale writes the times of the figure.
func (f Figure) Scale() Scale { return f.l.scaleOf() }

// Extent is the time from the first span or mark to the last: the width of the chart.
func (f Figure) Extent() float64 { return f.l.hi - f.l.lo }

// Length is how long the boot took, as boot.Recording.Length says: what shares of the boot
// are shares of.
func (f Figure) Length() float64 { return f.l.length }

// Whole says in a sentence what shares of the boot are shares of.
func (f Figure) Whole() string {
	took, mark := f.Scale().Took(f.l.length), f.l.mark
	switch {
	case f.l.rec.Root != nil:
		return "The boot is the span that encloses all that it waited for, and took " + took + "."
	case mark != "":
		return fmt.Sprintf("The boot lasts from the first span or mark to the mark “%s”, and took %s.", mark, took)
	}
	return "The boot lasts from the first span or mark to the last, and took " + took + "."
}

// tableRows is the number of rows in the table of the figure.
const tableRows = 100

// Table holds the labels with the greatest self times.
func (f Figure) Table() chart.Table {
	s, all, rows := f.Scale(), f.Length(), f.Rows()
	t := chart.Table{Head: []string{"span", "own time", "of the boot", "total", "waits or no end", "spans"}}
	for _, r := range rows[:min(tableRows, len(rows))] {
		t.Rows = append(t.Rows, []string{clipLabel(r.Label), s.Took(r.Self), Share(r.Within, all), s.Took(r.Total),
			f.Idle(r), strconv.Itoa(r.Count)})
	}
	if n := len(rows) - tableRows; n > 0 {
		rest := lists.Sum(rows[tableRows:], func(r profile.Row) float64 { return r.Self })
		t.Note = fmt.Sprintf("%d further labels have an own time of %s together.", n, s.Took(rest))
	}
	return t
}

// Merged says which spans have no box of their own; "" if all have one.
func (f Figure) Merged() string {
	_, n, shorter := f.l.placeBoxes(f.most)
	var said []string
	if n > 0 {
		text := fmt.Sprintf("%d of %d spans have no box of their own", n, len(f.l.rec.Spans))
		if shorter > 0 {
			text += fmt.Sprintf(", because they are shorter than %s", f.Scale().Took(shorter))
		}
		said = append(said, text+". Dotted boxes stand for them, and the tables count them.")
	}
	if f.l.left > 0 {
		said = append(said, fmt.Sprintf("%d spans are not drawn, because the frequency of their clock is unknown.", f.l.left))
	}
	return strings.Join(said, " ")
}

const (
	rowH  = 18.0
	boxH  = 17.0
	headH = 18.0 // labels of the axis, and each row of names of marks
	bandH = 22.0 // label of a band
	gapH  = 8.0
	edge  = 6.0
	charW = 6.63 // of the monospaced names in boxes
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewCanvas(id, width)
	v := view{Canvas: c, l: f.l, s: f.Scale(), scale: (c.Width() - 2*edge) / f.Extent()}
	bands, _, _ := f.l.placeBoxes(f.most)
	top := v.placeNames()
	height := top
	for _, b := range f.l.bands {
		height += bandH + rowH*float64(b.rows) + gapH
	}
	v.drawAxis(top, height)
	c.Begin("marks", "")
	v.drawMarks(top, height)
	c.End()
	for i, b := range f.l.bands {
		c.Label(edge, top+15, c.Width()-2*edge, chart.Start, "label", safetext.Line(b.label))
		c.Begin("boxes", "")
		for _, x := range bands[i] {
			v.drawBox(x, top+bandH)
		}
		c.End()
		top += bandH + rowH*float64(b.rows) + gapH
	}
	return c.SVG(height+4, f.Title(), f.Desc())
}

// view draws at a scale, in user units for a unit of time.
type view struct {
	*chart.Canvas
	l      *layout
	s      Scale
	scale  float64
	labels []markName
}

func (v *view) xOf(at float64) float64 { return edge + (at-v.l.lo)*v.scale }

// drawAxis draws lines at round times.
func (v *view) drawAxis(top, bottom float64) {
	v.Begin("ticks", "")
	length := v.s.Value(v.l.hi - v.l.lo)
	values, step := chart.Ticks(0, length, int(v.Width()/110))
	labels := chart.TickLabels(values, step, v.s.Unit())
	for i, at := range values {
		v.Tick(edge+at/length*(v.Width()-2*edge), 12, top-4, bottom, labels[i])
	}
	v.End()
}

// drawBox draws a box of a band whose first row is at y.
func (v *view) drawBox(b box, y float64) {
	x, w := v.xOf(b.start), (b.end-b.start)*v.scale
	x = min(x, v.Width()-edge-0.4)
	out := chart.Box{X: x, Y: y + rowH*float64(b.row), W: max(w, 0.4), H: boxH, Class: v.boxClass(b), Title: v.boxTitle(b),
		Data: fmt.Sprintf("%.0f %.0f %d", b.start-v.l.lo, b.end-b.start, b.depth)}
	if room := int((w - 6) / charW); room >= 3 {
		name, _, _ := strings.Cut(out.Title, "\n")
		out.Name = safetext.Clip(name, room)
	}
	v.Box(out)
}

// shades is the number of colors of each kind, so that neighbors differ.
const shades = 3

func (v *view) boxClass(b box) string {
	s := v.l.rec.Spans[b.span]
	if b.isMerged() {
		return "b many"
	}
	h := fnv.New32a()
	h.Write([]byte(s.Name))
	class := "b k" + strconv.Itoa(int(h.Sum32()%shades))
	switch v.l.rec.Tracks[s.Track].Kind {
	case bootmodel.KindProcess:
		class = "b p" + class[3:]
	case bootmodel.KindFirmware:
		class = "b f" + class[3:]
	}
	if s.Wait {
		class += " wait"
	}
	if s.Open {
		class += " open"
	}
	return class
}

// boxTitle is what a box says under the pointer. Its first line is its name.
func (v *view) boxTitle(b box) string {
	s := v.l.rec.Spans[b.span]
	name := clipLabel(s.Label())
	if b.isMerged() {
		return v.several(b, name)
	}
	within := max(0, min(b.start+b.total, v.l.to)-max(b.start, v.l.from))
	text := fmt.Sprintf("%s\n%s (%s) from %s", name, v.s.Took(b.total), Share(within, v.l.length), v.s.At(b.start))
	if s.Open {
		text = fmt.Sprintf("%s\nfrom %s", name, v.s.At(b.start))
	}
	if self := v.l.selfTime(b.span); v.l.first[b.span] >= 0 {
		text += ", own time " + v.s.Took(self)
	}
	if p := s.Parent; p >= 0 && v.l.rec.Spans[p].Track != s.Track {
		text += "\nin " + clipLabel(trackLabel(v.l.rec.Tracks[s.Track]))
	}
	if s.Wait {
		text += "\nwaits"
	}
	if s.Open {
		text += "\nhad not ended when the recording ended"
	}
	return text
}

func (v *view) several(b box, longest string) string {
	text := fmt.Sprintf("%d spans\n%s from %s", b.spans, v.s.Took(b.total), v.s.At(b.start))
	if b.spans == 1 {
		return fmt.Sprintf("%s and %d below\n%s from %s", longest, b.below, v.s.Took(b.total), v.s.At(b.start))
	}
	text += fmt.Sprintf("\nlongest: %s, %s", longest, v.s.Took(v.l.end[b.span]-v.l.start[b.span]))
	if b.below > 0 {
		text += fmt.Sprintf("\n%d more below them", b.below)
	}
	return text
}

// selfTime is the time of a span without its children.
func (l *layout) selfTime(i int32) float64 {
	self := l.end[i] - l.start[i]
	for c := l.first[i]; c >= 0; c = l.next[c] {
		self -= l.end[c] - l.start[c]
	}
	return self
}

// clipLabel makes a label short enough for a title.
func clipLabel(s string) string { return safetext.Clip(safetext.Line(s), 120) }

// known are marks with names that all sources share: they are drawn first.
var known = []string{bootmodel.MarkHypervisor, bootmodel.MarkVCPU, bootmodel.MarkFirmware, bootmodel.MarkKernel,
	bootmodel.MarkRoot,
	bootmodel.MarkUserland, bootmodel.MarkService}

// maxMarks bounds the lines of marks.
const maxMarks = 40

// markName is a mark in the head of the chart.
type markName struct {
	at   float64
	name string
	row  int // -1: without a name
}

// markRows bounds the rows of names in the head.
const markRows = 4

// placeNames places the names of marks above the chart and returns its top.
func (v *view) placeNames() (top float64) {
	marks := lists.Filter(v.l.rec.Marks, func(m bootmodel.Mark) bool { return v.l.hasPlace(m.Clock) })
	slices.SortStableFunc(marks, func(a, b bootmodel.Mark) int { return importance(b) - importance(a) })
	used := 0
	var ends [markRows][][2]float64
	for _, m := range marks[:min(len(marks), maxMarks)] {
		at := v.l.rec.NS(m.Clock, m.At)
		n := markName{at: at, name: clipLabel(m.Name), row: -1}
		x := v.xOf(at)
		w := chart.TextWidth(n.name) + 8
		from, to := x, x+w
		if to > v.Width() {
			from, to = x-w, x
		}
		for r := range ends {
			if from >= 0 && to <= v.Width() && !slices.ContainsFunc(ends[r], func(e [2]float64) bool {
				return from < e[1] && e[0] < to
			}) {
				n.row = r
				ends[r] = append(ends[r], [2]float64{from, to})
				used = max(used, r+1)
				break
			}
		}
		v.labels = append(v.labels, n)
	}
	return headH*float64(used+1) + 6
}

func importance(m bootmodel.Mark) int {
	if slices.Contains(known, m.Name) {
		return 1
	}
	return 0
}

func (l *layout) hasPlace(clock int) bool {
	return clock == 0 || l.rec.Clocks[clock].Known() && l.rec.Clocks[0].Known()
}

// drawMarks draws the lines of marks with their names.
func (v *view) drawMarks(top, bottom float64) {
	for _, n := range v.labels {
		x := v.xOf(n.at)
		v.BeginData("mark", fmt.Sprintf("%.0f", n.at-v.l.lo), n.name+"\nat "+v.s.At(n.at))
		y := headH*float64(n.row+1) + 13
		if n.row < 0 {
			y = top
		}
		v.Line(x, y-10, x, bottom, "")
		if n.row >= 0 {
			anchor, at := chart.Start, x+4
			if x+chart.TextWidth(n.name)+8 > v.Width() {
				anchor, at = chart.End, x-4
			}
			v.Text(at, y, anchor, "", n.name)
		}
		v.End()
	}
}
