// Package charttest is the suite that every kind of figure passes.
package charttest

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"bakeoff/publish/chart"
)

// Hostile is a name that tests give to things in figures: it closes every
// quote and element that it could land in.
const Hostile = `"'><script>alert(1)</script><!--]]>&x;`

// Run checks one figure at the widths of a desk, of a phone, and below what
// is possible: it is well formed, names itself, stays inside its view box,
// keeps its ids to itself, lets nothing through unescaped, and has a table.
func Run(t *testing.T, f chart.Figure) {
	t.Helper()
	if d := f.Doc(); d.Name == "" || d.Title == "" || d.Read == "" {
		t.Errorf("Doc is not complete: %+v", d)
	}
	if f.Title() == "" || f.Desc() == "" {
		t.Error("a figure needs a title and a description")
	}
	table := f.Table()
	if len(table.Head) == 0 {
		t.Error("the table has no head")
	}
	for i, r := range table.Rows {
		if len(r) != len(table.Head) {
			t.Errorf("row %d of the table has %d columns, its head has %d", i, len(r), len(table.Head))
		}
	}
	if m, ok := f.(chart.Measured); ok {
		numbers(t, m.Data())
	}
	for _, w := range []float64{chart.Wide, chart.Narrow, 10} {
		svg := f.Draw("fig-1", w)
		if svg != f.Draw("fig-1", w) {
			t.Error("the same data gave different bytes")
		}
		element(t, svg, max(w, chart.MinWidth))
		checkLabelsApart(t, svg)
	}
}

// numbers reads the file of a figure's numbers as a program does: every cell of a column of
// numbers is a number, or empty where nothing is known.
func numbers(t *testing.T, d chart.Data) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(d.CSV([2]string{"warning", "w"}))).ReadAll()
	if err != nil || len(rows) != len(d.Rows)+1 {
		t.Fatalf("%d rows of %d, %v", len(rows)-1, len(d.Rows), err)
	}
	for i, row := range rows[1:] {
		for k, cell := range row[:len(d.Columns)] {
			if c := d.Columns[k]; c.Number && cell != "" {
				if _, err := strconv.ParseFloat(cell, 64); err != nil {
					t.Errorf("row %d has %q in the column %q of numbers", i, cell, c.Head())
				}
			}
		}
		if row[len(d.Columns)] != "w" {
			t.Errorf("row %d lacks the last column", i)
		}
	}
}

// checkLabelsApart checks that no label of an axis runs into another.
func checkLabelsApart(t *testing.T, svg string) {
	t.Helper()
	type label struct {
		X     float64 `xml:"x,attr"`
		Y     float64 `xml:"y,attr"`
		Class string  `xml:"class,attr"`
		Text  string  `xml:",chardata"`
		Place string  `xml:"text-anchor,attr"`
	}
	var root struct {
		Labels []label `xml:"text"`
	}
	if err := xml.Unmarshal([]byte(svg), &root); err != nil {
		t.Fatal(err)
	}
	type span struct{ from, to float64 }
	taken := map[float64][]span{}
	for _, l := range root.Labels {
		if l.Class != "tick" || l.Place != string(chart.Middle) {
			continue
		}
		half := chart.TextWidth(l.Text) / 2
		for _, s := range taken[l.Y] {
			if l.X-half < s.to && s.from < l.X+half {
				t.Errorf("the label %q runs into another", l.Text)
			}
		}
		taken[l.Y] = append(taken[l.Y], span{l.X - half, l.X + half})
	}
}

// element walks through one svg element.
func element(t *testing.T, svg string, width float64) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(svg))
	ids, titled, depth := map[string]bool{}, 0, 0
	var refs []string
	var box []float64
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well formed: %v\n%s", err, svg)
		}
		if _, ok := tok.(xml.EndElement); ok {
			depth--
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		depth++
		if depth == 1 && e.Name.Local != "svg" {
			t.Errorf("the root is %s, not svg", e.Name.Local)
		}
		if depth == 2 && (e.Name.Local == "title" || e.Name.Local == "desc") {
			titled++
		}
		if n := e.Name.Local; n == "script" || n == "image" || n == "foreignObject" || n == "style" {
			t.Errorf("an element %s", n)
		}
		for _, a := range e.Attr {
			switch n, v := a.Name.Local, a.Value; {
			case n == "id":
				if ids[v] || !strings.HasPrefix(v, "fig-1") {
					t.Errorf("id %q is used twice or is not the figure's own", v)
				}
				ids[v] = true
			case n == "viewBox":
				for _, s := range strings.Fields(v) {
					x, _ := strconv.ParseFloat(s, 64)
					box = append(box, x)
				}
			case n == "fill" && strings.HasPrefix(v, "url(#"):
				refs = append(refs, strings.TrimSuffix(strings.TrimPrefix(v, "url(#"), ")"))
			case n == "x" || n == "x1" || n == "x2" || n == "cx":
				x, err := strconv.ParseFloat(v, 64)
				if err != nil || x < -0.1 || x > width+0.1 {
					t.Errorf("%s %s=%q is outside of the figure (width %v)", e.Name.Local, n, v, width)
				}
			case strings.HasPrefix(n, "on") || n == "href" || n == "style":
				t.Errorf("an attribute %s", n)
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s=%q", a.Name.Local, a.Value)
			}
		}
	}
	for _, r := range refs {
		if !ids[r] {
			t.Errorf("refers to #%s, which is not in the figure", r)
		}
	}
	if titled != 2 {
		t.Error("the figure has no title and desc of its own")
	}
	if len(box) != 4 || box[2] != width || box[3] <= 0 {
		t.Errorf("viewBox %v, width %v", box, width)
	}
}
