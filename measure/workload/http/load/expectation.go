package load

import (
	"bytes"
	"sync/atomic"

	"bakeoff/base/hexsum"
)

// maxBody bounds a body of unknown length, in bytes.
const maxBody = 64 << 20

// ask is one URL of the list as the threads share it.
type ask struct {
	URL
	request  []byte // prepared once
	varies   bool
	contains []byte
	// known is the verified body: the first correct one. All others are
	// compared with it byte by byte, which is cheaper and stronger than a
	// checksum of each. For a varying body it is empty, and says that one
	// was correct.
	known atomic.Pointer[model]
}

// model is a verified body and its SHA-256.
type model struct {
	body []byte
	sum  string
}

// newAsk prepares the request of l for u.
func newAsk(u URL, l *load) (*ask, error) {
	if err := u.Check(); err != nil {
		return nil, err
	}
	request, err := l.request(u.Path)
	return &ask{URL: u, request: request, varies: u.Varies(), contains: []byte(u.Contains)}, err
}

// expectation is an ask with what one thread remembers of its responses.
type expectation struct {
	*ask
	// memo is the last head (over HTTP/2 its frame), and parsed its
	// content: a server repeats the same head for a second at a time, and
	// comparing is cheaper than parsing.
	memo   []byte
	parsed head
}

// list is the URLs of a load for one thread, which requests them in turn and
// starts over at the end.
type list struct {
	expect []expectation
	at     int
}

func newList(asks []*ask) list {
	l := list{expect: make([]expectation, len(asks))}
	for i, a := range asks {
		l.expect[i].ask = a
	}
	return l
}

// startAtPart moves to part i of n parts of the list: threads start at different
// places.
func (l *list) startAtPart(i, n int) { l.at = i * len(l.expect) / n }

func (l *list) next() *expectation {
	e := &l.expect[l.at]
	if l.at++; l.at == len(l.expect) {
		l.at = 0
	}
	return e
}

// accepts reports whether a status is the expected one.
func (a *ask) accepts(status int) bool {
	if a.Status != 0 {
		return status == a.Status
	}
	return status >= 200 && status <= 299
}

// body compares a body, as it arrives, with an expectation.
type body struct {
	expect *expectation
	pos    int64  // bytes so far
	got    []byte // kept while there is nothing verified to compare with
	wrong  bool   // a byte differs, or is one too many
}

func (c *body) reset() { c.pos, c.got, c.wrong = 0, c.got[:0], false }

// checkBytes checks the next bytes.
func (c *body) checkBytes(b []byte) {
	e, end := c.expect, c.pos+int64(len(b))
	known := e.known.Load()
	switch {
	case end > maxBody, e.varies && e.Max > 0 && end > e.Max:
		c.wrong = true
	case e.varies && len(e.contains) == 0:
	case known != nil && !e.varies:
		c.wrong = c.wrong || end > int64(len(known.body)) || !bytes.Equal(known.body[c.pos:end], b)
	case e.Length >= 0 && end > e.Length:
		c.wrong = true
	case !c.wrong:
		c.got = append(c.got, b...)
	}
	c.pos = end
}

// verdict classifies the complete body: "" if it is as expected. It may become
// the reference for all others.
func (c *body) verdict() string {
	e := c.expect
	if e.varies {
		return c.variant()
	}
	known := e.known.Load()
	if known == nil && !c.wrong && (e.Length < 0 || c.pos == e.Length) {
		sum := SumOf(c.got)
		if e.Sum != "" && e.Sum != sum {
			return "wrong body"
		}
		if e.known.CompareAndSwap(nil, &model{bytes.Clone(c.got), sum}) {
			c.got = nil
			return ""
		}
		known = e.known.Load() // another thread was first
	}
	length := e.Length
	if known != nil {
		length = int64(len(known.body))
	}
	switch {
	case length >= 0 && c.pos < length:
		return "short body"
	case c.wrong, known != nil && (c.pos > length || !bytes.HasPrefix(known.body, c.got)):
		return "wrong body"
	}
	return ""
}

// variant classifies a body that may vary.
func (c *body) variant() string {
	e := c.expect
	switch {
	case c.pos < e.Min:
		return "short body"
	case c.wrong, !bytes.Contains(c.got, e.contains):
		return "wrong body"
	}
	if e.known.Load() == nil {
		e.known.Store(&model{})
	}
	return ""
}

// verified reports whether a correct response was seen, and returns the
// checksum of the reference: of the body, or of the list.
func verified(asks []*ask) (seen bool, sum string) {
	urls := make([]URL, 0, len(asks))
	for _, a := range asks {
		known := a.known.Load()
		seen = seen || known != nil
		if known != nil {
			sum = known.sum
		}
		urls = append(urls, a.URL)
	}
	if seen && (len(asks) > 1 || asks[0].varies) {
		sum = ListSum(urls)
	}
	return seen, sum
}

// SumOf returns the SHA-256 of b in hexadecimal.
func SumOf(b []byte) string {
	return hexsum.Of(b)
}
