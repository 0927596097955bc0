package audit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
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

// UnmarshalYAML reads the cell from its node, so that digits count as they
// were written.
func (c *Cell) UnmarshalYAML(n ast.Node) error {
	if text, ok := scalarText(n); ok {
		v, half, err := figure(text)
		*c = Cell{Value: v}
		c.round(half)
		return err
	}
	var m struct {
		From      *string `yaml:"from"`
		To        *string `yaml:"to"`
		Value     *string `yaml:"value"`
		Missing   string  `yaml:"missing"`
		Cropped   string  `yaml:"cropped"`
		Estimated string  `yaml:"estimated"`
	}
	if _, ok := n.(*ast.MappingNode); !ok {
		if _, ok := n.(*ast.MappingValueNode); !ok {
			return errors.New("it is neither a number nor a mapping; write 46.2k, {from: 31k, to: 33k}, {missing: why} or {cropped: why, value: 795.03}")
		}
	}
	if err := yaml.NodeToValue(n, &m, yaml.Strict()); err != nil {
		return err
	}
	*c = Cell{Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
	states := 0
	for s, why := range map[State]string{Missing: m.Missing, Cropped: m.Cropped, Estimated: m.Estimated} {
		if why != "" {
			c.State, c.Why = s, why
			states++
		}
	}
	switch {
	case m.From != nil && m.To != nil && m.Value == nil && states == 0:
		return c.span(*m.From, *m.To)
	case m.From != nil || m.To != nil:
		return errors.New("from and to belong together; write {from: 31k, to: 33k} and nothing else")
	case states != 1:
		return errors.New("a cell without a number has exactly one of missing, cropped and estimated; write {missing: why}")
	case m.Value != nil && c.State == Missing:
		return errors.New("a missing cell has no value; write {estimated: why, value: 1} where it is printed but was not measured")
	case m.Value != nil:
		v, half, err := figure(*m.Value)
		c.Value = v
		c.round(half)
		return err
	}
	return nil
}

// round sets the interval of a figure whose last digit is worth 2 half. What
// is not negative was not negative before it was rounded.
func (c *Cell) round(half float64) {
	c.Lo, c.Hi = c.Value-half, c.Value+half
	if c.Value >= 0 {
		c.Lo = max(c.Lo, 0)
	}
}

func (c *Cell) span(from, to string) error {
	lo, half, err := figure(from)
	if err != nil {
		return err
	}
	hi, half2, err := figure(to)
	if err != nil {
		return err
	}
	if lo > hi {
		return fmt.Errorf("from %s is above to %s; write the smaller one first", from, to)
	}
	c.Value, c.Lo, c.Hi = (lo+hi)/2, lo-half, hi+half2
	return nil
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// figure reads a printed number and half a unit of its last digit.
func figure(text string) (value, half float64, err error) {
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
		return 0, 0, fmt.Errorf("%q is not a number; write 4005.08 or 46.2k, without commas", bounded(text))
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%q is not a number; write 4005.08 or 46.2k", bounded(text))
	}
	return v * scale, scale * math.Pow(10, -float64(len(part))) / 2, nil
}

// A size is bytes, a bitrate bits per second, a frequency hertz.
type (
	size      float64
	bitrate   float64
	frequency float64
)

func (s *size) UnmarshalYAML(n ast.Node) (err error) {
	*s, err = quantity[size](n, "4069B, 16GiB or 1.5GB", []suffix{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}})
	return err
}

func (b *bitrate) UnmarshalYAML(n ast.Node) (err error) {
	*b, err = quantity[bitrate](n, "2.5Gbit/s or 100Mbit/s", []suffix{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}})
	return err
}

func (f *frequency) UnmarshalYAML(n ast.Node) (err error) {
	*f, err = quantity[frequency](n, "3.6GHz or 933MHz", []suffix{{"GHz", 1e9}, {"MHz", 1e6}})
	return err
}

type suffix struct {
	text  string
	scale float64
}

func quantity[T ~float64](n ast.Node, example string, suffixes []suffix) (T, error) {
	text, _ := scalarText(n)
	for _, s := range suffixes {
		if num, ok := strings.CutSuffix(text, s.text); ok {
			if v, _, err := figure(num); err == nil && v > 0 {
				return T(v * s.scale), nil
			}
		}
	}
	return 0, fmt.Errorf("%q is not a quantity; write %s", bounded(text), example)
}

// Count is a number of runs: 5, or "several" where the article says only that
// there was more than one.
type Count struct {
	N       int
	Several bool
}

// UnmarshalYAML reads 5 or several.
func (c *Count) UnmarshalYAML(n ast.Node) error {
	text, _ := scalarText(n)
	if text == "several" {
		*c = Count{Several: true}
		return nil
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 || v > 1e6 {
		return fmt.Errorf("%q is not a number of runs; write 5, or several where it is not said how many", bounded(text))
	}
	*c = Count{N: v}
	return nil
}

func bounded(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}
