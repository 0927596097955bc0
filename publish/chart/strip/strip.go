// Package strip draws where the time of a trial went, so that the bottleneck
// of each contender can be seen: its CPUs by state, and the load generator.
package strip

import (
	"fmt"
	"math"
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
		Name:    "strip",
		Summary: "where the time of the CPUs went, and how busy the load generator was",
		Read: "The left bar is the time of the CPUs that the environment ran on: busy, stolen by another guest of the same " +
			"machine, waiting for a disk, idle. The right bar is the load generator. Where the subject is idle and the " +
			"generator is full, the generator was measured; where both have room, something between them was.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + ": what was the bottleneck" }

// Desc says every row in words.
func (f Figure) Desc() string {
	var b strings.Builder
	for _, r := range f.Rows {
		fmt.Fprintf(&b, "%s: busy %s, steal %s, waiting for disks %s", chart.Fit(r.Label, 400), share(r.Busy), share(r.Steal), share(r.IOWait))
		if r.HasPeer {
			fmt.Fprintf(&b, ", generator %s", share(r.Generator))
		}
		b.WriteString(". ")
	}
	if len(f.Rows) == 0 {
		return "No contender has counters."
	}
	return strings.TrimSpace(b.String())
}

func share(v *float64) string {
	if !known(v) {
		return "unavailable"
	}
	if p := 100 * *v; p > 0 && p < 0.95 || p > 99 && p < 99.95 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func known(v *float64) bool { return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) }

// Table holds the rows.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", "CPU busy", "steal", "waiting for disks", "idle", "generator"}}
	for _, r := range f.Rows {
		g := "none"
		if r.HasPeer {
			g = share(r.Generator)
		}
		t.Rows = append(t.Rows, []string{r.Label, share(r.Busy), share(r.Steal), share(r.IOWait), share(r.Idle), g})
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
	c := chart.NewCanvas(id, width)
	narrow := c.Width() < 560
	x0, x1, row := 4.0, c.Width()-4, tall
	if !narrow {
		gutter := 60.0
		for _, r := range f.Rows {
			gutter = max(gutter, chart.TextWidth(chart.Fit(r.Label, 180)))
		}
		x0, row = gutter+22, step
	}
	peer := false
	for _, r := range f.Rows {
		peer = peer || r.HasPeer
	}
	// The generator takes a third of the width, where there is one.
	split := x1
	if peer {
		split = x0 + (x1-x0)*0.64
		c.Label(split+16, 14, x1-split-16, chart.Start, "direction", "load generator")
	}
	c.Label(x0, 14, split-x0, chart.Start, "direction", "CPUs of the subject")
	for i, r := range f.Rows {
		y := head + row*float64(i)
		c.Begin("row", r.Label+": busy "+share(r.Busy)+", steal "+share(r.Steal)+", waiting for disks "+share(r.IOWait))
		top := y + (row-barH)/2
		if narrow {
			c.Label(x0, y+12, x1-x0, chart.Start, "label", r.Label)
			top = y + 19
		} else {
			c.Label(4, y+row/2+4, x0-16, chart.Start, "label", r.Label)
		}
		cpus(c, r, x0, split, top)
		if r.HasPeer {
			meter(c, r.Generator, split+16, x1, top)
		}
		c.End()
	}
	bottom := head + row*float64(len(f.Rows)) + 6
	bottom = legend(c, x0, x1, bottom)
	return c.SVG(bottom, f.Title(), f.Desc())
}

// cpus draws the states side by side; what none of them covers stays empty.
func cpus(c *chart.Canvas, r Row, x0, x1, y float64) {
	if !known(r.Busy) {
		c.Rect(x0, y, x1-x0, barH, "track none")
		c.Text(x0+6, y+barH-3, chart.Start, "small", "unavailable")
		return
	}
	c.Rect(x0, y, x1-x0, barH, "track")
	x, busy := x0, min(max(*r.Busy, 0), 1)*(x1-x0)
	for _, s := range []struct {
		v    *float64
		mark chart.Mark
	}{{r.Busy, chart.Baseline}, {r.Steal, chart.Worse}, {r.IOWait, chart.Open}} {
		if known(s.v) && *s.v > 0 {
			w := max(min(*s.v*(x1-x0), x1-x), 0)
			c.Bar(x, y, w, barH, s.mark)
			x += w
		}
	}
	caption(c, x0, busy, x, x1, y, share(r.Busy)+" busy")
}

func meter(c *chart.Canvas, v *float64, x0, x1, y float64) {
	if !known(v) {
		c.Rect(x0, y, x1-x0, barH, "track none")
		c.Text(x0+6, y+barH-3, chart.Start, "small", "unavailable")
		return
	}
	c.Rect(x0, y, x1-x0, barH, "track")
	w := min(max(*v, 0), 1) * (x1 - x0)
	c.Bar(x0, y, w, barH, chart.Baseline)
	caption(c, x0, w, x0+w, x1, y, share(v))
}

// caption writes on the bar that begins at x0 where it is wide enough, else
// behind what is drawn, which ends at x.
func caption(c *chart.Canvas, x0, w, x, x1, y float64, text string) {
	need := chart.TextWidth(text) + 10
	switch {
	case w > need:
		c.Text(x0+6, y+barH-3, chart.Start, "small on", text)
	case x1-x > need:
		c.Text(x+6, y+barH-3, chart.Start, "small", text)
	}
}

// legend draws the key and returns the height of the figure.
func legend(c *chart.Canvas, x0, x1, y float64) float64 {
	x := x0
	for _, k := range []struct {
		mark chart.Mark
		text string
	}{{chart.Baseline, "busy"}, {chart.Worse, "steal"}, {chart.Open, "waiting for disks"}} {
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
