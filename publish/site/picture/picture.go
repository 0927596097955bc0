// Package picture makes smaller versions of images, so that a phone loads a small one.
package picture

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"path"
	"strings"

	"bakeoff/base/lists"

	"golang.org/x/image/draw"
)

// Widths are those of the smaller versions, in pixels.
var Widths = []int{480, 960}

// maxPixels bounds an image that is decoded: a small file can claim to be huge.
const maxPixels = 64 << 20

// Smaller returns the widths of the versions that an image of this name and size gets.
func Smaller(name string, width, height int) []int {
	switch strings.ToLower(path.Ext(name)) {
	case ".jpg", ".jpeg", ".png":
	default:
		return nil // a GIF may move, and no pure Go package writes WebP
	}
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return nil
	}
	return lists.Filter(Widths, func(w int) bool { return w < width && height*w/width > 0 })
}

// Name is that of a version, such as images/harbor-480w.jpg.
func Name(name string, width int) string {
	ext := path.Ext(name)
	return fmt.Sprintf("%s-%dw%s", strings.TrimSuffix(name, ext), width, ext)
}

// quality is that of JPEG files.
const quality = 82

// Scale returns the image at a width, in the format of its name.
func Scale(name string, content []byte, width int) ([]byte, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if c.Width <= 0 || c.Height <= 0 || c.Width > maxPixels/c.Height {
		return nil, fmt.Errorf("the picture has too many pixels: %d × %d", c.Width, c.Height)
	}
	from, _, err := image.Decode(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	b := from.Bounds()
	to := image.NewNRGBA(image.Rect(0, 0, width, max(1, b.Dy()*width/b.Dx())))
	draw.CatmullRom.Scale(to, to.Bounds(), from, b, draw.Src, nil)
	var out bytes.Buffer
	if strings.EqualFold(path.Ext(name), ".png") {
		err = png.Encode(&out, to)
	} else {
		err = jpeg.Encode(&out, to, &jpeg.Options{Quality: quality})
	}
	return out.Bytes(), err
}
