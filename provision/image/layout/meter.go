package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Meter computes the size and the digest of what is written to it.
type Meter struct {
	sum  hash.Hash
	size int64
}

// NewMeter returns a Meter that nothing was written to.
func NewMeter() *Meter { return &Meter{sum: sha256.New()} }

// Write implements io.Writer and does not fail.
func (m *Meter) Write(b []byte) (int, error) {
	m.size += int64(len(b))
	return m.sum.Write(b)
}

// Descriptor has the digest and the size of what was written.
func (m *Meter) Descriptor() v1.Descriptor {
	return v1.Descriptor{Size: m.size, Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(m.sum.Sum(nil))}}
}
