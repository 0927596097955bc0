// Package curve draws a metric over the values of a sweep: a line for each
// contender that was swept, with the interval of every value.
package curve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// Point is one value of a sweep.
type Point struct {
	Value          string // as in the lab file
	Median, Lo, Hi *float64
	Baseline       bool
	Mark           chart.Mark // of the comparison with the baseline
	Note           string     // its verdict in a word
	// Against is the difference from the baseline, Between its interval; "–"
	// where there is none.
	Against, Between string
	// Ratio is the same as a number, or a difference; nil where there is none.
	Ratio, RatioLo, RatioHi *float64
}

// Line is one contender of the lab file with its values.
type Line struct {
	Label  string
	Points []Point
}

// Figure is one metric of one cell over one sweep.
type Figure struct {
	Of   string
	Name string // of what is swept
	Unit string
	// Better says which way is better: "higher is better".
	Better   string
	Baseline string
	// AgainstUnit is that of differences from the baseline, "" for ratios.
	AgainstUnit string
	// Level is the median of a baseline that is not swept; nil if it is.
	Level *float64
	Lines []Line
}

// Doc describes the kind.
func (Figure) Doc() chart.Doc {
	return chart.Doc{
		Name:  "curve",
		Title: "Curve",
		Read: "A sweep: the value on the horizontal axis, the median on the vertical axis, and the confidence interval as " +
			"a vertical line through it. The square with the word baseline, or the dashed line, is the baseline. A sign " +
			"shows the verdict of each value against it. An axis is logarithmic if its largest value is " +
			"many times its smallest. A " +
			"line between two values is not a measurement.",
	}
}

// Title names the figure.
func (f Figure) Title() string { return f.Of + " over " + f.Name }

// Desc says every value in words.
func (f Figure) Desc() string {
	return chart.Sentences(f.Lines, func(l Line) (string, string) {
		points := lists.Map(l.Points, func(p Point) string { return f.describePoint(p) })
		return l.Label, ": " + strings.Join(points, "; ")
	}) + f.Better + "."
}

func (f Figure) describePoint(p Point) string {
	return fmt.Sprintf("%s %s: median %s, interval %s to %s, %s", f.Name, p.Value, f.valueText(p.Median),
		f.valueText(p.Lo),
		f.valueText(p.Hi), p.pointWord())
}

// pointWord is the verdict, or what a point is instead.
func (p Point) pointWord() string {
	switch {
	case p.Baseline:
		return "the baseline"
	case p.Note == "":
		return "no verdict"
	}
	return p.Note
}

func (f Figure) valueText(v *float64) string {
	if !chart.Known(v) {
		return "unavailable"
	}
	return unit.Format(*v, f.Unit)
}

// Data holds every value of the sweep with its median and its verdict.
func (f Figure) Data() chart.Data {
	swept := chart.Column{Name: f.Name, Number: true}
	for _, l := range f.Lines {
		for _, p := range l.Points {
			if _, err := strconv.ParseFloat(p.Value, 64); err != nil {
				swept.Number = false
			}
		}
	}
	d := chart.Data{Columns: slices.Concat(chart.Texts("contender"), []chart.Column{swept},
		chart.Numbers(f.Unit, "median", "from", "to"), chart.Numbers(f.AgainstUnit, f.against(), "at least", "at most"),
		chart.Texts("verdict"))}
	for _, l := range f.Lines {
		for _, p := range l.Points {
			value := chart.Word(p.Value)
			if v, err := strconv.ParseFloat(p.Value, 64); err == nil && swept.Number {
				value = chart.Num(&v)
			}
			d.Rows = append(d.Rows, []chart.Cell{chart.Word(l.Label), value, chart.Num(p.Median), chart.Num(p.Lo),
				chart.Num(p.Hi), chart.Num(p.Ratio), chart.Num(p.RatioLo), chart.Num(p.RatioHi), chart.Word(p.pointWord())})
		}
	}
	return d
}

// against is what Ratio is: a ratio, or a difference in AgainstUnit.
func (f Figure) against() string {
	if f.AgainstUnit != "" {
		return "difference from " + f.Baseline
	}
	return "ratio to " + f.Baseline
}

// Table holds every value with its comparison.
func (f Figure) Table() chart.Table {
	t := chart.Table{Head: []string{"contender", f.Name, "median", "CI from", "CI to", "against " + f.Baseline, "interval",
		"verdict"}}
	for _, l := range f.Lines {
		for _, p := range l.Points {
			against, between := p.Against, p.Between
			against = cmp.Or(against, "–")
			between = cmp.Or(between, "–")
			t.Rows = append(t.Rows, []string{l.Label, p.Value, f.valueText(p.Median), f.valueText(p.Lo), f.valueText(p.Hi),
				against, between,
				p.pointWord()})
		}
	}
	return t
}

// Plot is where the points of a figure are, as shares of its width and its height.
// The page and the terminal draw the same plot.
type Plot struct {
	f      Figure
	values []string
	across []float64 // place of each value
	plain  bool      // the values are numbers without a unit
	y      chart.Axis
}

// NewPlot lays out the points.
func NewPlot(f Figure) Plot {
	p := Plot{f: f}
	var heights []float64
	for _, l := range f.Lines {
		for _, x := range l.Points {
			p.values = lists.AddNew(p.values, x.Value)
			for _, v := range []*float64{x.Median, x.Lo, x.Hi} {
				if chart.Known(v) {
					heights = append(heights, *v)
				}
			}
		}
	}
	if chart.Known(f.Level) {
		heights = append(heights, *f.Level)
	}
	p.y = chart.NewAxis(heights, 0.06)
	at, plain := numbers(p.values)
	if p.plain = plain; at == nil { // names: one after the other
		for i := range p.values {
			at = append(at, float64(i))
		}
	} else {
		order := make([]int, len(at))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
		values, places := p.values, at
		p.values = lists.Map(order, func(i int) string { return values[i] })
		at = lists.Map(order, func(i int) float64 { return places[i] })
	}
	x := chart.NewAxis(at, 0)
	p.across = lists.Map(at, x.At)
	return p
}

// Values are the values of the sweep in the order of the axis, each with its place:
// 0 is left, 1 is right.
func (p Plot) Values() (values []string, across []float64) { return p.values, p.across }

// Across is the place of a value.
func (p Plot) Across(value string) float64 {
	if i := slices.Index(p.values, value); i >= 0 {
		return p.across[i]
	}
	return 0.5
}

// Up is the place of a median or a bound: 0 is at the bottom, 1 at the top.
func (p Plot) Up(v float64) float64 { return p.y.At(v) }

// Ticks are labels of the vertical axis with their places, and the unit that they
// share.
func (p Plot) Ticks(n int) (labels []string, up []float64, unitName string) {
	values, step := p.y.Ticks(n)
	labels, unitName = chart.Labels(values, step, p.f.Unit)
	return labels, lists.Map(values, p.Up), unitName
}

// Letter is the sign of a line, "" if the figure has only one.
func (f Figure) Letter(line int) string {
	if len(f.Lines) < 2 {
		return ""
	}
	return chart.Letter(line)
}

const (
	plotH  = 230.0
	headH  = 18.0
	keyH   = 18.0
	footH  = 40.0
	left   = 66.0
	margin = 30.0
	square = 7.0
)

// Draw draws the figure.
func (f Figure) Draw(id string, width float64) string {
	c := chart.NewRows(id, width, left, margin, f.Lines, func(l Line) string { return l.Label })
	x0, x1 := left, c.Width()-margin
	top := 2 * headH
	if len(f.Lines) > 1 {
		top += keyH * float64(len(f.Lines))
	}
	bottom := top + plotH
	p := NewPlot(f)
	x := func(value string) float64 { return x0 + 12 + p.Across(value)*(x1-x0-24) }
	y := func(v float64) float64 { return bottom - p.Up(v)*plotH }

	f.drawKey(c)
	labels, up, name := p.Ticks(6)
	for i, label := range labels {
		at := bottom - up[i]*plotH
		c.Line(x0, at, x1, at, "grid")
		c.Label(x0-8, at+4, left-12, chart.End, "tick", label)
	}
	f.labelValues(c, p, x, bottom)
	c.Line(x0, bottom, x1, bottom, "axis")
	if chart.Known(f.Level) {
		c.Begin("row", f.Baseline+": median "+f.valueText(f.Level)+", the baseline")
		c.Line(x0, y(*f.Level), x1, y(*f.Level), "level")
		c.Label(x1, y(*f.Level)-5, (x1-x0)/2, chart.End, "small", f.Baseline)
		c.End()
	}
	for i, l := range f.Lines {
		f.drawLine(c, i, l, x, y, bottom)
	}
	c.Label(x0, top-14, x1-x0, chart.Start, "direction", "↑ "+chart.AxisText(name, f.Better))
	across := f.Name
	if p.plain {
		across += ", " + chart.NoUnit
	}
	c.Label(x1, bottom+33, x1-x0, chart.End, "direction", across+" →")
	return c.SVG(bottom+footH, f.Title(), f.Desc())
}

// drawKey says which letter is which line.
func (f Figure) drawKey(c chart.Rows) {
	if len(f.Lines) < 2 {
		return
	}
	for i, l := range f.Lines {
		y := headH + keyH*float64(i)
		c.Text(8, y, chart.Start, "sign mark-plain", chart.Letter(i))
		c.Label(28, y, c.Width()-36, chart.Start, "label", l.Label)
	}
}

// labelValues labels the horizontal axis, its ends first: labels that would touch are
// left out.
func (f Figure) labelValues(c chart.Rows, p Plot, x func(string) float64, bottom float64) {
	values, _ := p.Values()
	label := func(i int) {
		c.Tick(x(values[i]), bottom+15, bottom, bottom+4, chart.Ends(values[i], 120))
	}
	if len(values) > 0 {
		label(0)
		label(len(values) - 1)
	}
	for i := 1; i < len(values)-1; i++ {
		label(i)
	}
}

// drawLine draws the values of one contender: first what connects them.
func (f Figure) drawLine(c chart.Rows, i int, l Line, x func(string) float64, y func(float64) float64, bottom float64) {
	points := slices.Clone(l.Points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(x(a.Value), x(b.Value)) })
	var path strings.Builder
	word := "M"
	for _, p := range points {
		if !chart.Known(p.Median) {
			word = "M" // no line through what is missing
			continue
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", word, x(p.Value), y(*p.Median))
		word = "L"
	}
	if path.Len() > 0 {
		c.Path(path.String(), "curve")
	}
	for k, p := range points {
		c.Begin("row", l.Label+", "+f.describePoint(p))
		f.drawPoint(c, p, x(p.Value), y, bottom)
		if k == len(points)-1 && len(f.Lines) > 1 && chart.Known(p.Median) {
			c.Text(x(p.Value)+8, y(*p.Median)+14, chart.Start, "sign letter mark-plain", chart.Letter(i))
		}
		c.End()
	}
}

// drawPoint draws one value.
func (f Figure) drawPoint(c chart.Rows, p Point, x float64, y func(float64) float64, bottom float64) {
	if !chart.Known(p.Median) {
		c.Text(x, bottom-6, chart.Middle, "sign mark-plain", chart.Plain.Sign())
		return
	}
	if chart.Known(p.Lo) && chart.Known(p.Hi) {
		for _, class := range []string{"halo", "whisker"} {
			c.Line(x, y(*p.Lo), x, y(*p.Hi), class)
			c.Line(x-4, y(*p.Lo), x+4, y(*p.Lo), class)
			c.Line(x-4, y(*p.Hi), x+4, y(*p.Hi), class)
		}
	}
	at, mark := y(*p.Median), p.Mark
	mark = cmp.Or(mark, chart.Plain)
	if p.Baseline {
		mark = chart.Baseline
	}
	c.Bar(x-square/2, at-square/2, square, square, mark)
	switch {
	case p.Baseline && x > c.Width()/2:
		c.Text(x-7, at+13, chart.End, "small", "baseline")
	case p.Baseline:
		c.Text(x+7, at+13, chart.Start, "small", "baseline")
	case mark != chart.Plain:
		c.Text(x+7, at-6, chart.Start, "sign letter mark-"+string(p.Mark), p.Mark.Sign())
	}
}

// numbers returns the values of a sweep as numbers of one kind: plain numbers,
// sizes, durations or rates. It returns nil if they are not, or not all of the same
// kind. plain tells that they are plain numbers.
func numbers(values []string) (out []float64, plain bool) {
	for kind, read := range []func(string) (float64, error){
		func(s string) (float64, error) { return strconv.ParseFloat(s, 64) },
		func(s string) (float64, error) { b, err := unit.ParseBytes(s); return float64(b), err },
		func(s string) (float64, error) { d, err := unit.ParseDuration(s); return d.Seconds(), err },
		unit.ParseRate,
	} {
		out = make([]float64, 0, len(values))
		for _, s := range values {
			v, err := read(s)
			if err != nil || !chart.Known(&v) {
				break
			}
			out = append(out, v)
		}
		if len(out) == len(values) && len(out) > 0 {
			return out, kind == 0
		}
	}
	return nil, false
}
