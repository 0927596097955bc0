// Package strip draws where the time of a trial went, so that the bottleneck
// of each contender can be seen: its CPUs by state, and the load generator.
package strip

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/publish/chart"
)

// Row is one contender. Shares are 0 to 1; nil is not available.
type Row struct {
	Label string
	// Busy, Steal, IOWait and Idle are shares of the time of the subject's
	// CPUs.
	Busy, Steal, IOWait, Idle *float64
	// Generator is the utilisation of the load generator's CPUs; HasPeer
	// tells that there was one.
	Generator *float64
	HasPeer   bool
}

// Figure is one cell.
type Figure struct {
	Of   string
	Rows []Row
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "strip",
		Title: "Bottleneck charts",
		Read: "The left bar divides the time of the environment’s CPUs into busy, stolen by another guest of the same " +
			"machine, waiting for a disk, and idle. The right bar is the load generator. If the environment is idle and " +
			"the generator is full, the run measured the generator. If both have room, something between them was the " +
			"bottleneck.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": bottleneck" }

// Desc says every row in words.
func (f Figure) Desc() string {
	if len(f.Rows) == 0 {
		return "No contender has counters."
	}
	return strings.TrimSpace(chart.Sentences(f.Rows, func(r Row) (string, string) { return r.Label, ": " + r.rowText() }))
}

func (r Row) rowText() string {
	s := fmt.Sprintf("busy %s, stolen %s, waiting for disks %s", shareText(r.Busy), shareText(r.Steal),
		shareText(r.IOWait))
	if r.HasPeer {
		s += ", generator " + shareText(r.Generator)
	}
	return s
}

func shareText(v *float64) string {
	if !chart.Known(v) {
		return "unavailable"
	}
	if p := 100 * *v; p > 0 && p < 0.95 || p > 99 && p < 99.95 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

// Data holds the rows, as shares of 1.
func (f Figure) Data() chart.Data {
	d := chart.Data{Columns: append(chart.Texts("contender"), chart.Numbers("share", "CPUs busy", "stolen",
		"waiting for disks", "idle", "generator")...)}
	for _, r := range f.Rows {
		d.Rows = append(d.Rows, []chart.Cell{chart.Word(r.Label), chart.Num(r.Busy), chart.Num(r.Steal), chart.Num(r.IOWait),
			chart.Num(r.Idle), chart.Num(r.Generator)})
	}
	return d
}

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "CPUs busy", "stolen", "waiting for disks", "idle", "generator"}}
	for _, r := range f.Rows {
		g := "none"
		if r.HasPeer {
			g = shareText(r.Generator)
		}
		t.Rows = append(t.Rows, []string{r.Label, shareText(r.Busy), shareText(r.Steal), shareText(r.IOWait),
			shareText(r.Idle), g})
	}
	return t
}

const (
	head = 24.0
	step = 26.0
	tall = 42.0
	barH = 13.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, 4, 4, f.Rows, func(r Row) string { return r.Label })
	row, line := step, (step-barH)/2 // height of a row, and its bars' place in it
	if c.Narrow {
		row, line = tall, 19
	}
	// The generator takes a third of the width, where there is one.
	split := c.X1
	if slices.ContainsFunc(f.Rows, func(r Row) bool { return r.HasPeer }) {
		split = c.X0 + (c.X1-c.X0)*0.64
		c.Label(split+16, 14, c.X1-split-16, chart.Start, "direction", "load generator, 0 to 100 %")
	}
	c.Label(c.X0, 14, split-c.X0, chart.Start, "direction", "CPUs of the environment, 0 to 100 % of the time")
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": "+r.rowText())
		c.Name(y, row, r.Label, "")
		drawStates(c, r, c.X0, split, y+line)
		if r.HasPeer {
			drawMeter(c, r.Generator, split+16, c.X1, y+line)
		}
		c.End()
	}
	bottom := drawLegend(c, c.X0, c.X1, head+row*float64(len(f.Rows))+6)
	return c.SVG(bottom, f.Title(), f.Desc())
}

// drawStates draws the states side by side; what none of them covers stays empty.
func drawStates(c chart.Rows, r Row, x0, x1, y float64) {
	if !drawTrack(c, r.Busy, x0, x1, y) {
		return
	}
	x, busy := x0, min(max(*r.Busy, 0), 1)*(x1-x0)
	for _, s := range []struct {
		v    *float64
		mark chart.Mark
	}{{r.Busy, chart.Baseline}, {r.Steal, chart.Worse}, {r.IOWait, chart.Open}} {
		if chart.Known(s.v) && *s.v > 0 {
			w := max(min(*s.v*(x1-x0), x1-x), 0)
			c.Bar(x, y, w, barH, s.mark)
			x += w
		}
	}
	caption(c, x0, busy, x, x1, y, shareText(r.Busy)+" busy")
}

func drawMeter(c chart.Rows, v *float64, x0, x1, y float64) {
	if !drawTrack(c, v, x0, x1, y) {
		return
	}
	w := min(max(*v, 0), 1) * (x1 - x0)
	c.Bar(x0, y, w, barH, chart.Baseline)
	caption(c, x0, w, x0+w, x1, y, shareText(v))
}

// drawTrack draws what a bar stands on, and reports whether its value is known.
func drawTrack(c chart.Rows, v *float64, x0, x1, y float64) bool {
	if !chart.Known(v) {
		c.Rect(x0, y, x1-x0, barH, "track none")
		c.Text(x0+6, y+barH-3, chart.Start, "small", "unavailable")
		return false
	}
	c.Rect(x0, y, x1-x0, barH, "track")
	return true
}

// caption writes on the bar that begins at x0 where it is wide enough, else
// behind what is drawn, which ends at x.
func caption(c chart.Rows, x0, w, x, x1, y float64, text string) {
	need := chart.TextWidth(text) + 10
	switch {
	case w > need:
		c.Text(x0+6, y+barH-3, chart.Start, "small on", text)
	case x1-x > need:
		c.Text(x+6, y+barH-3, chart.Start, "small", text)
	}
}

// drawLegend draws the key and returns the height of the figure.
func drawLegend(c chart.Rows, x0, x1, y float64) float64 {
	x := x0
	for _, k := range []struct {
		mark chart.Mark
		text string
	}{{chart.Baseline, "busy"}, {chart.Worse, "stolen"}, {chart.Open, "waiting for disks"}} {
		w := chart.TextWidth(k.text) + 32
		if x+w > x1 && x > x0 {
			x, y = x0, y+18
		}
		c.Bar(x, y, 12, 11, k.mark)
		c.Text(x+17, y+10, chart.Start, "small", k.text)
		x += w
	}
	return y + 18
}
