package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"bakeoff/publish/chart"
	"bakeoff/publish/chart/bar"
	"bakeoff/publish/chart/charttest"
	"bakeoff/publish/chart/percent"
	"bakeoff/publish/chart/quantile"
)

func v(x float64) *float64 { return &x }

// figures draw everything that package chart can draw: bars with every pattern, whiskers,
// dashes, dots and text at every anchor.
func figures() map[string]chart.Figure {
	p := percent.Figure{Of: "http-50, throughput", Baseline: "host", Less: "slower", More: "faster", MoreIsBetter: true}
	for i, m := range []chart.Mark{chart.Better, chart.Worse, chart.Same, chart.Open, chart.Plain} {
		p.Rows = append(p.Rows, percent.Row{Label: string(m), Mark: m, Note: string(m), Value: v(1.03 + float64(i-2)/10),
			Lo: v(.95 + float64(i-2)/10), Hi: v(1.05 + float64(i-2)/10)})
	}
	p.Axis = percent.NewAxis(.02, p.Rows...)
	q := quantile.Figure{Of: "http-50", Floor: 2e-3}
	for i, name := range []string{"host", "crun", "microvm"} {
		q.Lines = append(q.Lines, quantile.Line{Label: name, Baseline: i == 0, Count: 1e6, Points: []quantile.Point{
			{Percent: 0, Seconds: 1e-3}, {Percent: 99.99, Seconds: float64(i+1) * 1e-2}}})
	}
	return map[string]chart.Figure{"percent": p, "quantile": q,
		"bar": bar.Figure{Of: "cost", Unit: "s/op", Better: "lower is better",
			Rows: []bar.Row{{Label: "a", Value: v(1)}}},
		"hostile": bar.Figure{Of: charttest.Hostile, Rows: []bar.Row{{Label: charttest.Hostile, Value: v(math.MaxFloat64)}}}}
}

// A file needs no style sheet, and is well formed.
func TestSVG(t *testing.T) {
	for name, f := range figures() {
		svg, err := SVG(f.Draw("figure", chart.Wide), Text{Caption: f.Title()})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, svg)
			}
			e, ok := token.(xml.StartElement)
			if ok && (e.Name.Local == "script" || e.Name.Local == "style") {
				t.Errorf("%s: an element %s", name, e.Name.Local)
			}
			for _, a := range e.Attr {
				if a.Name.Local == "class" || strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Value, "var(") {
					t.Errorf("%s: %s=%q", name, a.Name.Local, a.Value)
				}
			}
		}
		if !strings.Contains(svg, `stroke="#`) || !strings.Contains(svg, `font-size="12.5"`) {
			t.Errorf("%s: no style in attributes:\n%s", name, svg)
		}
	}
}

// A picture has the colors of its figure, each mark's and the ground's.
func TestPNG(t *testing.T) {
	colors := colorsOf(chart.Colors)
	for name, f := range figures() {
		data, err := PNG(f.Draw("figure", chart.Wide), Text{Caption: f.Title()}, 2)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		image, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if w := image.Bounds().Dx(); w != 2*int(chart.Wide) || len(data) > 300_000 {
			t.Errorf("%s: %d pixels wide, %d bytes", name, w, len(data))
		}
		has := map[color.Color]int{}
		for y := range image.Bounds().Dy() {
			for x := range image.Bounds().Dx() {
				has[color.NRGBAModel.Convert(image.At(x, y))]++
			}
		}
		wanted := map[string][]string{"percent": {"better", "worse", "same", "open", "ink", "better-text", "band"},
			"quantile": {"ink", "soft", "hair"}, "bar": {"plain", "ink"}}[name]
		for _, c := range append(wanted, "paper") {
			want, ok := paintOf(colors[c], "")
			if !ok || has[want] < 10 {
				t.Errorf("%s: %d pixels of --%s", name, has[want], c)
			}
		}
	}
}

// Every rule of the figures' style sheet is understood, and every property is used or
// known to be of no use.
func TestTheStyleSheetIsUnderstood(t *testing.T) {
	unused := map[string]bool{"display": true, "width": true, "height": true, "font-variant-numeric": true, "font": true}
	known := map[string]bool{}
	for _, p := range properties {
		known[p] = true
	}
	selectors := 0
	for _, m := range block.FindAllStringSubmatch(chart.Style, -1) {
		for selector := range strings.SplitSeq(m[1], ",") {
			if strings.TrimSpace(selector) == ".figure" {
				continue
			}
			selectors++
			if _, ok := ruleOf(selector); !ok {
				t.Errorf("the selector %q", strings.TrimSpace(selector))
			}
		}
		for d := range strings.SplitSeq(m[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(d), ":")
			if name != "" && !known[name] && !unused[name] {
				t.Errorf("the property %s", name)
			}
			for _, c := range reference.FindAllStringSubmatch(value, -1) {
				if colors := colorsOf(chart.Colors); colors[c[1]] == "" && c[1] != "sans" {
					t.Errorf("the color %s", c[1])
				}
			}
		}
	}
	if selectors != len(rules) || selectors < 30 {
		t.Errorf("%d selectors, %d rules", selectors, len(rules))
	}
	if left := regexp.MustCompile(`@media`).FindString(chart.Style); left != "" {
		t.Error("a rule for media is not understood")
	}
}

// What is no drawing is an error, and never fills the memory.
func TestRefusals(t *testing.T) {
	for name, s := range map[string]string{"empty": "", "text": "x", "html": "<p></p>",
		"cut": "<svg", "no size": "<svg></svg>",
		"huge": `<svg width="1e9" height="1e9"></svg>`,
		"deep": `<svg width="9" height="9">` + strings.Repeat("<g>", 100) + strings.Repeat("</g>", 100) + "</svg>",
	} {
		if _, err := PNG(s, Text{}, 1); err == nil {
			t.Errorf("%s: a picture", name)
		}
		if _, err := SVG(s, Text{}); err == nil {
			t.Errorf("%s: a file", name)
		}
	}
}

func FuzzPicture(f *testing.F) {
	for _, x := range figures() {
		f.Add(x.Draw("figure", chart.MinWidth))
	}
	f.Add(`<svg width="20" height="20"><path class="curve" d="M1e3 1L-5 NaNh3v"/><line class="level" x1="-1e9"/></svg>`)
	f.Fuzz(func(t *testing.T, drawing string) {
		if root, err := parseDrawing(drawing); err != nil ||
			root.numberAttribute("width")*root.numberAttribute("height") > 1e6 {
			return
		}
		if data, err := PNG(drawing, Text{Caption: "x"}, 1); err == nil {
			if _, err := png.Decode(bytes.NewReader(data)); err != nil {
				t.Error(err)
			}
		}
	})
}
