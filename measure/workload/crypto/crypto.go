// Package crypto is hashing and authenticated encryption, one block at a time.
package crypto

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// New returns the workload.
func New() workload.NativeParser {
	return workload.Native(workload.Doc{
		Summary:   "Hashing (SHA-256) or encrypting (AES-256-GCM) one block after another",
		Allocates: func(p param.Values) int64 { return 2 * p.Bytes("block") },
		Metrics:   []sample.Metric{sample.Throughput("B/s", "bytes hashed or encrypted per second")},
		Source: []string{
			"OpenSSL, speed(1) -elapsed -evp: whole operations (init, update, final) on a block, by the wall clock. " +
				"bakeoff uses the code of Go's standard library, in the same binary for all contenders; this code " +
				"uses the AES and SHA instructions of the processor",
			"FIPS 180-4 and NIST SP 800-38D; test vectors: test case 14 of the GCM specification (McGrew and Viega), and " +
				"the example abc of FIPS 180-4",
		},
	}, Loop())
}

// Loop returns the part that runs on the target.
func Loop() loop.Loop {
	return loop.Loop{
		Name: "crypto",
		Params: []param.Spec{
			{Name: "algorithm", Kind: param.Text, Default: "sha256", Enum: []string{"sha256", "aes-256-gcm"},
				Doc: "digest or cipher: sha256 hashes a block, aes-256-gcm encrypts a block"},
			{Name: "block", Kind: param.Size, Default: "16KiB", Min: 1, Max: 64 << 20, Doc: "size of a block"},
			workload.TimeParam,
		},
		Run: runLoop,
	}
}

func runLoop(ctx context.Context, p param.Values, _ loop.Env) (wire.Result, error) {
	if err := knownAnswers(); err != nil {
		return wire.Result{}, err
	}
	block := make([]byte, p.Bytes("block"))
	for i := range block {
		block[i] = byte(i * 31)
	}
	var w work = &hashing{block: block, before: make([]byte, len(block))}
	if p.Text("algorithm") == "aes-256-gcm" {
		w = newSealing(block)
	}
	timing, check, err := loop.Timed{For: p.Duration("time"), Do: w.do}.Verified(ctx, w.check)
	if err != nil {
		return wire.Result{}, err
	}
	return timing.Result("op", check, loop.Throughput(timing.Rate()*float64(len(block)), "B/s")), nil
}

// work is one of the algorithms; its unit is a block.
type work interface {
	do(n int) error
	check() (answer string, err error)
}

// hashing writes the hash of a block to the beginning of the block, so that
// every hash depends on the previous one.
type hashing struct {
	block, before []byte
	last          [sha256.Size]byte
}

func (h *hashing) do(n int) error {
	for i := range n {
		if i == n-1 {
			copy(h.before, h.block)
		}
		h.last = sha256.Sum256(h.block)
		copy(h.block, h.last[:])
	}
	return nil
}

// check hashes the last block again, in small pieces.
func (h *hashing) check() (string, error) {
	again := sha256.New()
	for rest := h.before; len(rest) > 0; {
		piece := rest[:min(len(rest), 61)]
		again.Write(piece)
		rest = rest[len(piece):]
	}
	got, want := hex.EncodeToString(h.last[:]), hex.EncodeToString(again.Sum(nil))
	if got != want {
		return "", loop.Mismatch("the last hash", got, want)
	}
	return got[:16], nil
}

// sealing encrypts the block with a counter as nonce.
type sealing struct {
	gcm    cipher.AEAD
	block  []byte
	sealed []byte
	nonce  [12]byte
	count  uint64
}

func newSealing(block []byte) *sealing {
	s := &sealing{gcm: newGCM(bytes.Repeat([]byte{7}, 32)), block: block}
	s.sealed = make([]byte, 0, len(block)+s.gcm.Overhead())
	return s
}

func (s *sealing) do(n int) error {
	for range n {
		s.count++
		binary.BigEndian.PutUint64(s.nonce[4:], s.count)
		s.sealed = s.gcm.Seal(s.sealed[:0], s.nonce[:], s.block, nil)
	}
	return nil
}

// check decrypts the last result.
func (s *sealing) check() (string, error) {
	open, err := s.gcm.Open(nil, s.nonce[:], s.sealed, nil)
	if err != nil {
		return "", loop.Mismatch("the last block sealed", err, "one that opens")
	}
	if !bytes.Equal(open, s.block) {
		return "", loop.Mismatch("the last block opened", "another", "the one sealed")
	}
	return fmt.Sprintf("%x", s.sealed[len(s.block):][:8]), nil
}

func newGCM(key []byte) cipher.AEAD {
	c, err := aes.NewCipher(key)
	if err == nil {
		var g cipher.AEAD
		if g, err = cipher.NewGCM(c); err == nil {
			return g
		}
	}
	panic(err) // only for a key of the wrong length
}

// knownAnswers checks both algorithms with test vectors of their
// specifications.
func knownAnswers() error {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte("abc"))); got != abc {
		return loop.Mismatch("sha256 of abc", got, abc)
	}
	const zeros = "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"
	if got := fmt.Sprintf("%x", newGCM(make([]byte, 32)).Seal(nil, make([]byte, 12), make([]byte, 16),
		nil)); got != zeros {
		return loop.Mismatch("aes-256-gcm of 16 zeros", got, zeros)
	}
	return nil
}
