// Package picture makes files of figures, for slides, papers and pages of others: SVG that
// needs no style sheet, and PNG. Both are drawn from the figure on the page
// (chart.Figure.Draw), in the light colors on white.
package picture

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"strconv"
	"strings"

	"bakeoff/publish/chart"
)

// node is an element of a drawing. Text is what stands in it.
type node struct {
	name     string
	attrs    map[string]string
	order    []string // names of attrs as written
	text     string
	children []*node
	parent   *node
	style    map[string]string // the declarations of the rules that match it
}

// Bounds on a drawing: a page's own has some hundred elements.
const (
	maxDepth = 20
	maxNodes = 200_000
	maxSide  = 20_000.0
)

// parseDrawing reads a drawing and finds the style of each element.
func parseDrawing(drawing string) (*node, error) {
	dec := xml.NewDecoder(strings.NewReader(drawing))
	var root, at *node
	nodes, depth := 0, 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("picture: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if nodes, depth = nodes+1, depth+1; nodes > maxNodes || depth > maxDepth {
				return nil, errors.New("picture: the drawing is too large")
			}
			n := newNode(t, at)
			if at == nil && root == nil {
				root = n
			} else if at != nil {
				at.children = append(at.children, n)
			}
			at = n
		case xml.EndElement:
			at, depth = at.parent, depth-1
		case xml.CharData:
			if at != nil {
				at.text += string(t)
			}
		}
	}
	if root == nil || root.name != "svg" {
		return nil, errors.New("picture: not an SVG element")
	}
	return root, nil
}

func newNode(t xml.StartElement, parent *node) *node {
	n := &node{name: t.Name.Local, attrs: map[string]string{}, parent: parent}
	for _, a := range t.Attr {
		n.attrs[a.Name.Local] = a.Value
		n.order = append(n.order, a.Name.Local)
	}
	n.style = styleOf(n)
	return n
}

// numberAttribute is an attribute; 0 if it is none.
func (n *node) numberAttribute(name string) float64 {
	v, err := strconv.ParseFloat(n.attrs[name], 64)
	if err != nil || v != v || v > maxSide || v < -maxSide {
		return 0
	}
	return v
}

// propertyOf is a property of an element: its own, or an attribute, or inherited.
func (n *node) propertyOf(property string) string {
	for at := n; at != nil; at = at.parent {
		if v, ok := at.style[property]; ok {
			return v
		}
		if v, ok := at.attrs[property]; ok {
			return v
		}
		if property == "opacity" {
			break
		}
	}
	return ""
}

// drawingSize is the size of a drawing in user units.
func (n *node) drawingSize() (width, height float64, err error) {
	width, height = n.numberAttribute("width"), n.numberAttribute("height")
	if !(width >= 1 && height >= 1) {
		return 0, 0, fmt.Errorf("picture: the drawing has an invalid size: %g × %g", width, height)
	}
	return width, height, nil
}

// Text is what stands above and below a drawing.
type Text struct {
	Caption string
	Alarms  []string // why not to trust the numbers, above the drawing
	Notes   []string // what else a reader must know, below it
}

// Heights in user units: of a caption, and of a line of other text.
const (
	captionHeight = 28.0
	lineHeight    = 16.0
	maxLines      = 12 // of alarms, and of notes
)

// textNodes are the elements of a text around a drawing, with the room that they need above
// and below it.
func (t Text) textNodes(root *node, width, height float64) (out []*node, above, below float64) {
	colors := colorsOf(chart.Colors)
	add := func(y float64, text, color, size, weight string) {
		out = append(out, &node{name: "text", parent: root, text: text,
			order: []string{"x", "y", "fill", "font-size", "font-weight"},
			attrs: map[string]string{"x": "4", "y": strconv.FormatFloat(y, 'f', -1, 64), "fill": color, "font-size": size,
				"font-weight": weight}})
	}
	alarms, notes := breakLines(t.Alarms, width), breakLines(t.Notes, width)
	above, below = captionHeight+lineHeight*float64(len(alarms)), lineHeight*float64(len(notes))
	if below > 0 {
		below += lineHeight / 2
	}
	add(20-above, chart.Fit(t.Caption, 0.8*width), colors["ink"], "14", "700")
	for i, l := range alarms {
		add(20-above+lineHeight*float64(i+1), l, alarmColor, "12", "700")
	}
	for i, l := range notes {
		add(height+lineHeight*float64(i+1), l, colors["soft"], "11", "400")
	}
	return out, above, below
}

// alarmColor has a contrast of 8 to 1 on white.
const alarmColor = "#a3120a"

// breakLines breaks texts into lines of a width; each begins a line of its own.
func breakLines(texts []string, width float64) (out []string) {
	for _, text := range texts {
		line := ""
		for _, word := range strings.Fields(text) {
			if line != "" && 1.05*chart.TextWidth(line+" "+word) > width-8 {
				out, line = append(out, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		if line != "" {
			out = append(out, chart.Fit(line, width-8))
		}
	}
	if len(out) > maxLines {
		out = append(out[:maxLines-1], "…")
	}
	return out
}

// SVG returns a drawing of package chart as a file of its own, with its text: its style is in
// attributes, which every program reads, and it has a white ground.
func SVG(drawing string, text Text) (string, error) {
	root, err := parseDrawing(drawing)
	if err != nil {
		return "", err
	}
	width, height, err := root.drawingSize()
	if err != nil {
		return "", err
	}
	words, above, below := text.textNodes(root, width, height)
	root.attrs["height"] = strconv.FormatFloat(height+above+below, 'f', -1, 64)
	root.attrs["viewBox"] = fmt.Sprintf("0 %g %g %g", -above, width, height+above+below)
	ground := &node{name: "rect", parent: root, order: []string{"y", "width", "height", "fill"}, attrs: map[string]string{
		"y": fmt.Sprint(-above), "width": "100%", "height": "100%", "fill": "#ffffff"}}
	root.children = append(append([]*node{ground}, words...), root.children...)
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	writeNode(&b, root)
	b.WriteString("\n")
	return b.String(), nil
}

// writeNode writes an element with its style as attributes.
func writeNode(b *strings.Builder, n *node) {
	b.WriteString("<" + n.name)
	if n.name == "svg" {
		b.WriteString(` xmlns="http://www.w3.org/2000/svg" font-family="sans-serif"`)
	}
	for _, name := range n.order {
		if _, styled := n.style[name]; styled || name == "class" || name == "xmlns" {
			continue
		}
		b.WriteString(" " + name + `="` + html.EscapeString(n.attrs[name]) + `"`)
	}
	for _, name := range properties {
		if v, ok := n.style[name]; ok {
			b.WriteString(" " + name + `="` + html.EscapeString(v) + `"`)
		}
	}
	b.WriteString(">")
	if len(n.children) == 0 || n.name == "text" {
		b.WriteString(html.EscapeString(n.text))
	}
	for _, c := range n.children {
		writeNode(b, c)
	}
	b.WriteString("</" + n.name + ">")
}
