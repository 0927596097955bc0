package picture

import (
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"
)

// tile is a pattern: its image, and how it lies.
type tile struct {
	image         *image.RGBA
	width, height float64 // in user units
	sin, cos      float64
}

// fine is the number of pixels of a tile for each user unit.
const fine = 8

// pattern fills a shape with a pattern.
func (c *canvas) pattern(id string, s shape) {
	t := c.tiles[id]
	if t == nil {
		n := c.patterns[id]
		if n == nil || n.numberAttribute("width") < 1 || n.numberAttribute("height") < 1 || n.numberAttribute("width") > 64 ||
			n.numberAttribute("height") > 64 {
			return
		}
		t = c.drawTile(n)
		c.tiles[id] = t
	}
	box := c.boundsOf(s)
	if box.Empty() {
		return
	}
	source := image.NewRGBA(box)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			source.SetRGBA(x, y, t.colorAt((float64(x)+.5)/c.scale, (float64(y)+.5)/c.scale, 1/c.scale))
		}
	}
	c.paintPolygons(source, s)
}

// drawTile draws a pattern once.
func (c *canvas) drawTile(n *node) *tile {
	t := &tile{width: n.numberAttribute("width"), height: n.numberAttribute("height"), cos: 1}
	if angle, ok := strings.CutPrefix(n.attrs["patternTransform"], "rotate("); ok {
		degrees, _ := strconv.ParseFloat(strings.TrimSuffix(angle, ")"), 64)
		t.sin, t.cos = math.Sincos(degrees * math.Pi / 180)
	}
	inner := &canvas{scale: fine, image: image.NewRGBA(image.Rect(0, 0, int(t.width*fine), int(t.height*fine)))}
	for _, child := range n.children {
		if child.name == "circle" {
			inner.fillShape(child, shape{diskAround(point{child.numberAttribute("cx"), child.numberAttribute("cy")},
				child.numberAttribute("r"))})
			continue
		}
		inner.drawNode(child)
	}
	t.image = inner.image
	return t
}

// colorAt is the color of a square of the given side around a point: the mean of nine of its
// points.
func (t *tile) colorAt(x, y, side float64) color.RGBA {
	var sum [4]int
	for _, dy := range []float64{-1, 0, 1} {
		for _, dx := range []float64{-1, 0, 1} {
			px, py := x+dx*side/3, y+dy*side/3
			u, v := px*t.cos+py*t.sin, py*t.cos-px*t.sin // turned back
			u, v = u-t.width*math.Floor(u/t.width), v-t.height*math.Floor(v/t.height)
			p := t.image.RGBAAt(int(u*fine), int(v*fine))
			for i, part := range []uint8{p.R, p.G, p.B, p.A} {
				sum[i] += int(part)
			}
		}
	}
	return color.RGBA{uint8(sum[0] / 9), uint8(sum[1] / 9), uint8(sum[2] / 9), uint8(sum[3] / 9)}
}
