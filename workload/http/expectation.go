package http

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// maxBody bounds a body whose length was not stated, in bytes.
const maxBody = 64 << 20

// expectation is the body that every response must have. The first one of the
// stated length and sum is kept, and all others are compared with it byte for
// byte: that is cheaper than a sum of each, and stronger.
//
// It belongs to one thread.
type expectation struct {
	length int64  // -1 when not stated
	sum    string // SHA-256 in hexadecimal; "" when not stated
	want   []byte // the verified body
	have   bool   // there is one
}

// body checks one body on its way against an expectation.
type body struct {
	expect *expectation
	pos    int64  // bytes so far
	got    []byte // kept while there is nothing verified to compare with
	wrong  bool   // a byte differs, or is one too many
}

func (c *body) reset() { c.pos, c.got, c.wrong = 0, c.got[:0], false }

// take checks the next bytes.
func (c *body) take(b []byte) {
	e, end := c.expect, c.pos+int64(len(b))
	switch {
	case e.have:
		c.wrong = c.wrong || end > int64(len(e.want)) || !bytes.Equal(e.want[c.pos:end], b)
	case e.length >= 0 && end > e.length, end > maxBody:
		c.wrong = true
	case !c.wrong:
		c.got = append(c.got, b...)
	}
	c.pos = end
}

// verdict classes the whole body: "" when it is what was expected. It may
// become the reference for all others.
func (c *body) verdict() string {
	e := c.expect
	if !e.have && !c.wrong && (e.length < 0 || c.pos == e.length) {
		sum := sha256.Sum256(c.got)
		text := hex.EncodeToString(sum[:])
		if e.sum != "" && e.sum != text {
			return "wrong body"
		}
		e.want, e.length, e.sum, e.have = bytes.Clone(c.got), c.pos, text, true
		c.got = nil
		return ""
	}
	switch {
	case e.length >= 0 && c.pos < e.length:
		return "short body"
	case c.wrong, !bytes.HasPrefix(e.want, c.got):
		return "wrong body"
	}
	return ""
}
