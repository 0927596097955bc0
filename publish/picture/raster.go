package picture

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/vector"
)

// canvas is a PNG in the making. scale is the number of pixels of a user unit.
type canvas struct {
	image    *image.RGBA
	scale    float64
	down     float64 // user units by which everything is moved down
	patterns map[string]*node
	tiles    map[string]*tile
}

// PNG returns a drawing of package chart, with its text, as a PNG with scale pixels for each
// user unit.
func PNG(drawing string, text Text, scale float64) ([]byte, error) {
	root, err := parseDrawing(drawing)
	if err != nil {
		return nil, err
	}
	width, height, err := root.drawingSize()
	if err != nil {
		return nil, err
	}
	words, above, below := text.textNodes(root, width, height)
	height += above + below
	c := &canvas{scale: scale, down: above, patterns: map[string]*node{}, tiles: map[string]*tile{},
		image: image.NewRGBA(image.Rect(0, 0, int(math.Ceil(width*scale)), int(math.Ceil(height*scale))))}
	draw.Draw(c.image, c.image.Bounds(), image.White, image.Point{}, draw.Src)
	c.collect(root)
	for _, w := range words {
		c.drawNode(w)
	}
	c.drawNode(root)
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := encoder.Encode(&b, c.image); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// collect finds the patterns.
func (c *canvas) collect(n *node) {
	if n.name == "pattern" {
		c.patterns[n.attrs["id"]] = n
	}
	for _, child := range n.children {
		c.collect(child)
	}
}

// drawNode draws an element and what is in it.
func (c *canvas) drawNode(n *node) {
	switch n.name {
	case "defs", "title", "desc":
		return
	case "rect":
		x, y, w, h := n.numberAttribute("x"), n.numberAttribute("y"), n.numberAttribute("width"), n.numberAttribute("height")
		box := shape{{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}, {x, y}}}
		c.fillShape(n, box)
		c.strokeShape(n, box)
	case "line":
		c.strokeShape(n, shape{{{n.numberAttribute("x1"), n.numberAttribute("y1")}, {n.numberAttribute("x2"),
			n.numberAttribute("y2")}}})
	case "path":
		s := pathOf(n.attrs["d"])
		if fill := n.propertyOf("fill"); fill != "" && fill != "none" {
			c.fillShape(n, s)
		}
		c.strokeShape(n, s)
	case "text":
		c.drawText(n)
	}
	for _, child := range n.children {
		c.drawNode(child)
	}
}

// fillShape fills a shape with the color or the pattern of an element.
func (c *canvas) fillShape(n *node, s shape) {
	fill := n.propertyOf("fill")
	if id, ok := strings.CutPrefix(fill, "url(#"); ok {
		c.pattern(strings.TrimSuffix(id, ")"), s)
		return
	}
	fill = cmp.Or(fill, "#000000")
	if paint, ok := paintOf(fill, n.propertyOf("opacity")); ok {
		c.paintPolygons(image.NewUniform(paint), s)
	}
}

// strokeShape draws the outline of a shape.
func (c *canvas) strokeShape(n *node, s shape) {
	width := 1.0
	if v, err := strconv.ParseFloat(n.propertyOf("stroke-width"), 64); err == nil {
		width = v
	}
	paint, ok := paintOf(n.propertyOf("stroke"), n.propertyOf("opacity"))
	if !ok || !(width > 0) {
		return
	}
	lines := dashLines(s, n.propertyOf("stroke-dasharray"))
	c.paintPolygons(image.NewUniform(paint), outline(lines, width, n.propertyOf("stroke-linecap") == "round"))
}

// paintOf reads a color "#rrggbb" or "#rgb"; false for none.
func paintOf(text, opacity string) (color.NRGBA, bool) {
	digits, ok := strings.CutPrefix(text, "#")
	if len(digits) == 3 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil || len(digits) != 6 {
		return color.NRGBA{}, false
	}
	alpha := 1.0
	if a, err := strconv.ParseFloat(opacity, 64); err == nil {
		alpha = min(max(a, 0), 1)
	}
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: uint8(math.Round(255 * alpha))}, true
}

// paintPolygons fills polygons, all of the same orientation, with a source of colors.
func (c *canvas) paintPolygons(source image.Image, s shape) {
	box := c.boundsOf(s)
	if box.Empty() {
		return
	}
	r := vector.NewRasterizer(box.Dx(), box.Dy())
	at := func(p point) (x, y float32) {
		return float32(p.x*c.scale - float64(box.Min.X)), float32((p.y+c.down)*c.scale - float64(box.Min.Y))
	}
	for _, line := range s {
		if len(line) < 3 {
			continue
		}
		r.MoveTo(at(line[0]))
		for _, p := range line[1:] {
			r.LineTo(at(p))
		}
		r.ClosePath()
	}
	r.Draw(c.image, box, source, box.Min)
}

// boundsOf is the part of the image that a shape touches.
func (c *canvas) boundsOf(s shape) image.Rectangle {
	lo, hi := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
	for _, line := range s {
		for _, p := range line {
			lo.x, lo.y = min(lo.x, p.x), min(lo.y, p.y)
			hi.x, hi.y = max(hi.x, p.x), max(hi.y, p.y)
		}
	}
	if lo.x > hi.x {
		return image.Rectangle{}
	}
	return image.Rect(int(math.Floor(lo.x*c.scale)), int(math.Floor((lo.y+c.down)*c.scale)),
		int(math.Ceil(hi.x*c.scale))+1, int(math.Ceil((hi.y+c.down)*c.scale))+1).Intersect(c.image.Bounds())
}
