package output

import (
	"bytes"
	"compress/gzip"

	"github.com/andybalholm/brotli"
)

// Levels: files are compressed once and sent often, but a build compresses all of them.
const brotliLevel = 7

// compress returns content compressed for a suffix. The header of gzip has no time, so
// that equal contents give equal files.
func compress(suffix string, content []byte) []byte {
	var out bytes.Buffer
	if suffix == ".br" {
		w := brotli.NewWriterLevel(&out, brotliLevel)
		w.Write(content) // a buffer does not fail
		w.Close()
		return out.Bytes()
	}
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	w.Write(content)
	w.Close()
	return out.Bytes()
}
