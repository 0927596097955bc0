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

// parse reads a drawing and finds the style of each element.
func parse(drawing string) (*node, error) {
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

// number is an attribute; 0 if it is none.
func (n *node) number(name string) float64 {
	v, err := strconv.ParseFloat(n.attrs[name], 64)
	if err != nil || v != v || v > maxSide || v < -maxSide {
		return 0
	}
	return v
}

// get is a property of an element: its own, or an attribute, or inherited.
func (n *node) get(property string) string {
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

// size is the size of a drawing in user units.
func (n *node) size() (width, height float64, err error) {
	width, height = n.number("width"), n.number("height")
	if !(width >= 1 && height >= 1) {
		return 0, 0, fmt.Errorf("picture: a drawing of %g × %g", width, height)
	}
	return width, height, nil
}

// captionHeight is the room for a caption above a drawing, in user units.
const captionHeight = 28.0

// SVG returns a drawing of package chart as a file of its own, with a caption above it: its
// style is in attributes, which every program reads, and it has a white ground.
func SVG(drawing, caption string) (string, error) {
	root, err := parse(drawing)
	if err != nil {
		return "", err
	}
	width, height, err := root.size()
	if err != nil {
		return "", err
	}
	root.attrs["height"] = strconv.FormatFloat(height+captionHeight, 'f', -1, 64)
	root.attrs["viewBox"] = fmt.Sprintf("0 %g %g %g", -captionHeight, width, height+captionHeight)
	ground := &node{name: "rect", parent: root, order: []string{"y", "width", "height", "fill"}, attrs: map[string]string{
		"y": fmt.Sprint(-captionHeight), "width": "100%", "height": "100%", "fill": "#ffffff"}}
	root.children = append([]*node{ground, captionOf(root, caption)}, root.children...)
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	write(&b, root)
	b.WriteString("\n")
	return b.String(), nil
}

// captionOf is the text above a drawing.
func captionOf(root *node, caption string) *node {
	return &node{name: "text", parent: root, text: chart.Fit(caption, 0.8*root.number("width")),
		order: []string{"x", "y", "fill", "font-size", "font-weight"},
		attrs: map[string]string{"x": "4", "y": fmt.Sprint(20 - captionHeight), "fill": colorsOf(chart.Colors)["ink"],
			"font-size": "14", "font-weight": "700"}}
}

// write writes an element with its style as attributes.
func write(b *strings.Builder, n *node) {
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
		write(b, c)
	}
	b.WriteString("</" + n.name + ">")
}
