package picture

import (
	"image"
	"image/color"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

// fonts are the Go fonts, which are part of the program: the same figure gives the same
// PNG everywhere. They have Latin, Greek and Cyrillic letters; others show as boxes.
var fonts = sync.OnceValue(func() [2]*opentype.Font {
	var out [2]*opentype.Font
	for i, data := range [][]byte{goregular.TTF, gobold.TTF} {
		f, err := opentype.Parse(data)
		if err != nil {
			panic("picture: the Go font: " + err.Error())
		}
		out[i] = f
	}
	return out
})

// likeness replaces signs that the Go fonts lack.
var likeness = strings.NewReplacer("∅", "Ø", "\u00a0", " ", "\u202f", " ")

// maxText bounds one text, in bytes: nobody sees more in a figure.
const maxText = 2000

// drawText draws a text, first its halo.
func (c *canvas) drawText(n *node) {
	size, err := strconv.ParseFloat(n.propertyOf("font-size"), 64)
	if err != nil || !(size > 1 && size < 100) {
		size = 12.5
	}
	bold, _ := strconv.Atoi(n.propertyOf("font-weight"))
	face, err := opentype.NewFace(fonts()[map[bool]int{true: 1}[bold >= 600]], &opentype.FaceOptions{
		Size: size * c.scale, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		return
	}
	defer face.Close()
	s := n.text
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	s = likeness.Replace(s)
	x, y := n.numberAttribute("x")*c.scale, (n.numberAttribute("y")+c.down)*c.scale
	width := float64(font.MeasureString(face, s)) / 64
	switch n.attrs["text-anchor"] {
	case "middle":
		x -= width / 2
	case "end":
		x -= width
	}
	put := func(dx, dy float64, paint color.NRGBA) {
		d := font.Drawer{Dst: c.image, Src: image.NewUniform(paint), Face: face,
			Dot: fixed.Point26_6{X: fixed.Int26_6((x + dx) * 64), Y: fixed.Int26_6((y + dy) * 64)}}
		d.DrawString(s)
	}
	if halo, ok := paintOf(n.propertyOf("stroke"), ""); ok && n.propertyOf("paint-order") == "stroke" {
		r := 1.5 * c.scale
		for _, at := range []point{{-r, 0}, {r, 0}, {0, -r}, {0, r}, {-r, -r}, {r, r}, {-r, r}, {r, -r}} {
			put(at.x, at.y, halo)
		}
	}
	if ink, ok := paintOf(n.propertyOf("fill"), n.propertyOf("opacity")); ok {
		put(0, 0, ink)
	}
}
