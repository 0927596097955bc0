package site

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"os"
	"sync"

	"bakeoff/base/fault"
)

// digestOf is a digest of its parts, each with its length.
func digestOf(parts ...string) string {
	buffer := buffers.Get().(*[]byte)
	text := (*buffer)[:0]
	for _, p := range parts {
		text = append(binary.LittleEndian.AppendUint64(text, uint64(len(p))), p...)
	}
	out := digestFile(text)
	*buffer = text
	buffers.Put(buffer)
	return out
}

// buffers hold what key hashes: a hash that is written to copies every string.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// digestFile is that of a file.
func digestFile(content []byte) string {
	sum := sha256.Sum256(content)
	return shortDigest(sum[:])
}

// shortDigest shortens a digest to 144 bits: no two of any files of a site will agree.
func shortDigest(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum[:18]) }

// readBounded reads a regular file of the site.
func readBounded(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fault.New(fault.Invalid, "%s is not a file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fault.New(fault.Invalid, "%s has more than %d bytes", name, most)
	}
	return text, err
}
