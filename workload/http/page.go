package http

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
)

// page returns an HTML page of exactly size bytes (at least minPage). It is
// the same page for the same size, always: environments differ in what serves
// it, not in what is served.
func page(size int64) []byte {
	const begin = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>bakeoff</title></head><body>\n<p>"
	const end = "</p>\n</body></html>\n"
	words := []string{"jail", "zone", "guest", "kernel", "socket", "packet", "buffer", "thread", "page", "block"}
	rng := rand.New(rand.NewPCG(uint64(size), 0x68747470))
	var b bytes.Buffer
	b.WriteString(begin)
	for int64(b.Len()) < size-int64(len(end)) {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	b.Truncate(int(size) - len(end))
	b.WriteString(end)
	return b.Bytes()
}

// minPage is the smallest page, in bytes.
const minPage = 128

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
