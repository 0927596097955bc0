package audit

import (
	"math"
	"strconv"
	"strings"

	"bakeoff/base/yamltree"
)

// State is what became of a cell.
type State string

// The states of a cell that is not simply a figure.
const (
	Missing   State = "missing"   // nothing is printed
	Cropped   State = "cropped"   // a bar that leaves the chart
	Estimated State = "estimated" // printed, but not measured
)

// Cell is a printed figure with the interval that its digits allow: 46.2k
// stands for 46,150 to 46,250. In YAML it is a number (k, M and G multiply by
// thousands), or a mapping: {from: 31k, to: 33k}, {missing: why},
// {cropped: why, value: 795.03}, {estimated: why, value: 107.1}.
type Cell struct {
	Value, Lo, Hi float64 // NaN where nothing is printed
	State         State   // "" for a figure
	Why           string
}

// Known reports whether the cell has a figure.
func (c Cell) Known() bool { return !math.IsNaN(c.Value) }

// interval is a closed interval of real numbers.
type interval struct{ lo, hi float64 }

func (c Cell) interval() interval { return interval{c.Lo, c.Hi} }

// UnmarshalNode reads the cell, so that digits count as they were written.
func (c *Cell) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	if n.Kind == yamltree.Scalar {
		c.readFigure(n, r)
		return
	}
	*c = Cell{Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
	var m struct {
		From      string `yaml:"from"`
		To        string `yaml:"to"`
		Value     string `yaml:"value"`
		Missing   string `yaml:"missing"`
		Cropped   string `yaml:"cropped"`
		Estimated string `yaml:"estimated"`
	}
	if n.Kind != yamltree.Mapping {
		r.Add(n.Position, "write 46.2k, {from: 31k, to: 33k}, {missing: why} or {cropped: why, value: 795.03}",
			"the cell is %s", n.Kind)
		return
	}
	yamltree.Decode(n, &m, r)
	states := 0
	for s, why := range map[State]string{Missing: m.Missing, Cropped: m.Cropped, Estimated: m.Estimated} {
		if why != "" {
			c.State, c.Why = s, why
			states++
		}
	}
	switch from, to, value := n.Get("from"), n.Get("to"), n.Get("value"); {
	case from != nil && to != nil && value == nil && states == 0:
		c.readSpan(from, to, r)
	case from != nil || to != nil:
		r.Add(n.Position, "write only {from: 31k, to: 33k}", "a range needs both from and to")
	case states != 1:
		r.Add(n.Position, "write {missing: why}", "a cell without a number has exactly one of missing, cropped and estimated")
	case value != nil && c.State == Missing:
		r.Add(n.Position, "write {estimated: why, value: 1} if it is printed but was not measured",
			"a missing cell has no value")
	case value != nil:
		c.readFigure(value, r)
	}
}

// readFigure reads a printed number; State and Why stay.
func (c *Cell) readFigure(n *yamltree.Node, r *yamltree.Reporter) {
	v, half := figureAt(n, r)
	c.Value = v
	c.setRounding(half)
}

// figureAt is figure for a node; what is not a figure is reported.
func figureAt(n *yamltree.Node, r *yamltree.Reporter) (value, half float64) {
	value, half, ok := parseFigure(n.String())
	if !ok {
		r.Add(n.Position, "write 4005.08 or 46.2k, without commas", "%s is not a number", yamltree.Show(n.String()))
	}
	return value, half
}

// setRounding sets the interval of a figure whose last digit is worth 2 half. What
// is not negative was not negative before it was rounded.
func (c *Cell) setRounding(half float64) {
	c.Lo, c.Hi = c.Value-half, c.Value+half
	if c.Value >= 0 {
		c.Lo = max(c.Lo, 0)
	}
}

func (c *Cell) readSpan(from, to *yamltree.Node, r *yamltree.Reporter) {
	lo, half := figureAt(from, r)
	hi, half2 := figureAt(to, r)
	if lo > hi {
		r.Add(from.Position, "write the smaller one first", "from %s is above to %s", from, to)
	}
	c.Value, c.Lo, c.Hi = (lo+hi)/2, lo-half, hi+half2
}

// parseFigure reads a printed number and half a unit of its last digit.
func parseFigure(text string) (value, half float64, ok bool) {
	digits, scale := text, 1.0
	for _, p := range []struct {
		suffix string
		scale  float64
	}{{"k", 1e3}, {"M", 1e6}, {"G", 1e9}} {
		if d, ok := strings.CutSuffix(digits, p.suffix); ok {
			digits, scale = d, p.scale
			break
		}
	}
	plain := strings.TrimPrefix(digits, "-")
	whole, part, _ := strings.Cut(plain, ".")
	if len(plain) > 30 || whole+part == "" || strings.Trim(whole+part, "0123456789") != "" {
		return 0, 0, false
	}
	v, err := strconv.ParseFloat(digits, 64)
	return v * scale, scale * math.Pow(10, -float64(len(part))) / 2, err == nil
}

// A size is bytes, a bitrate bits per second, a frequency hertz.
type (
	size      float64
	bitrate   float64
	frequency float64
)

func (s *size) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	*s = quantity[size](n, r, "4069B, 16GiB or 1.5GB", []suffix{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}})
}

func (b *bitrate) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	*b = quantity[bitrate](n, r, "2.5Gbit/s or 100Mbit/s", []suffix{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}})
}

func (f *frequency) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	*f = quantity[frequency](n, r, "3.6GHz or 933MHz", []suffix{{"GHz", 1e9}, {"MHz", 1e6}})
}

type suffix struct {
	text  string
	scale float64
}

func quantity[T ~float64](n *yamltree.Node, r *yamltree.Reporter, example string, suffixes []suffix) T {
	for _, s := range suffixes {
		if num, ok := strings.CutSuffix(n.String(), s.text); ok {
			if v, _, ok := parseFigure(num); ok && v > 0 {
				return T(v * s.scale)
			}
		}
	}
	r.Add(n.Position, "write "+example, "%s is not a quantity", yamltree.Show(n.String()))
	return 0
}

// Count is a number of runs: 5, or "several" where the article says only that
// there was more than one.
type Count struct {
	N       int
	Several bool
}

// UnmarshalNode reads 5 or several.
func (c *Count) UnmarshalNode(n *yamltree.Node, r *yamltree.Reporter) {
	*c = Count{Several: n.String() == "several"}
	if c.Several {
		return
	}
	v, err := strconv.Atoi(n.String())
	if err != nil || v < 1 || v > 1e6 {
		r.Add(n.Position, "write 5, or several if the article does not say how many", "%s is not a number of runs",
			yamltree.Show(n.String()))
	}
	c.N = v
}

func bounded(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
