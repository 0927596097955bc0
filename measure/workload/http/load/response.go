package load

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"bakeoff/measure/workload/http/frame"
)

// maxHead bounds the status line with the header, and trailers, in bytes.
const maxHead = 16 << 10

// maxLine bounds the line that gives a chunk's size, in bytes, and maxLengthBits a length
// that is read.
const (
	maxLine       = 256
	maxLengthBits = 60
)

// head is the part of a response's header that frames the body.
type head struct {
	status  int
	length  int64 // of the body; -1 if it is chunked
	chunked bool
	close   bool // the server will close the connection
}

var (
	versionPrefix = []byte("HTTP/1.1 ")
	blankLine     = []byte("\r\n\r\n")
	crlf          = []byte("\r\n")
)

// parseHead parses the status line and the header at the start of b. size is
// their length in bytes with the blank line; 0 if b is incomplete. It is
// stricter than RFC 9112 requires of a client: the length of a body must be
// given exactly once; lines end in CRLF; no folded lines; no interim responses,
// because none were requested. There is no reason to be lenient with a measured
// server.
func parseHead(b []byte) (h head, size int, err error) {
	if n := min(len(b), len(versionPrefix)); !bytes.Equal(b[:n], versionPrefix[:n]) {
		return head{}, 0, fmt.Errorf("%.20q is not the start of an HTTP/1.1 response", b)
	}
	end := bytes.Index(b[:min(len(b), maxHead)], blankLine)
	if end < 0 {
		if len(b) >= maxHead {
			return head{}, 0, fmt.Errorf("the header is longer than %d bytes", maxHead)
		}
		return head{}, 0, nil
	}
	line, rest, _ := bytes.Cut(b[:end], crlf)
	if h.status, err = parseStatus(line); err != nil {
		return head{}, 0, err
	}
	h.length = -1
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, crlf)
		if err := h.parseField(line); err != nil {
			return head{}, 0, err
		}
	}
	if err := h.setBodyLength(); err != nil {
		return head{}, 0, err
	}
	return h, end + len(blankLine), nil
}

// parseStatus reads "HTTP/1.1 200 OK".
func parseStatus(line []byte) (int, error) {
	rest := line[len(versionPrefix):]
	if len(rest) < 4 || rest[3] != ' ' || !isFieldText(rest[4:]) {
		return 0, fmt.Errorf("%.40q is not a status line", line)
	}
	return parseCode(rest[:3])
}

// parseCode reads a status of three digits.
func parseCode(b []byte) (int, error) {
	status, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil || len(b) != 3 || status < 200 || status > 599 {
		return 0, fmt.Errorf("%.40q is not a final status", b)
	}
	return int(status), nil
}

// parseField parses one line of the header.
func (h *head) parseField(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !isToken(name) || !isFieldText(value) {
		return fmt.Errorf("%.40q is not a header line", line)
	}
	value = bytes.Trim(value, " \t")
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		if h.length >= 0 {
			return errors.New("more than one Content-Length")
		}
		n, err := parseLength(value)
		h.length = n
		return err
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if h.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return fmt.Errorf("unsupported Transfer-Encoding %.40q; only chunked is supported", value)
		}
		h.chunked = true
	case bytes.EqualFold(name, []byte("Connection")):
		for option := range bytes.SplitSeq(value, []byte(",")) {
			h.close = h.close || bytes.EqualFold(bytes.Trim(option, " \t"), []byte("close"))
		}
	}
	return nil
}

// setBodyLength decides how the body is delimited (RFC 9112, 6.3).
func (h *head) setBodyLength() error {
	switch {
	case h.chunked && h.length >= 0:
		return errors.New("the response has both Content-Length and Transfer-Encoding")
	case h.status == 204 || h.status == 304:
		h.length, h.chunked = 0, false
	case !h.chunked && h.length < 0:
		return errors.New("the response has neither Content-Length nor chunks, so the length of its body is unknown")
	}
	return nil
}

// parseLength parses a Content-Length: decimal digits only.
func parseLength(b []byte) (int64, error) {
	n, err := strconv.ParseUint(string(b), 10, maxLengthBits)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a Content-Length", b)
	}
	return int64(n), nil
}

// parseChunk reads the line that begins a chunk, without its CRLF.
func parseChunk(line []byte) (int64, error) {
	size, extension, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(size), 16, maxLengthBits)
	if err != nil || !isFieldText(extension) {
		return 0, fmt.Errorf("%.40q is not a chunk size", line)
	}
	return int64(n), nil
}

// isToken reports whether b is a field name (RFC 9110, 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte("\"(),/:;<=>?@[\\]{}"), c) >= 0 {
			return false
		}
	}
	return len(b) > 0
}

// isFieldText reports whether b has no control characters but the tab.
func isFieldText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// The parts of a response: the state of a reader.
const (
	inHead = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
)

// reader reads the responses of one connection, one after another, in pieces
// of any size, and checks each body. It also holds what must be sent.
type reader struct {
	session *session // of HTTP/2; nil for HTTP/1.1
	rest    []byte   // of the request, or of frames, that has not been sent
	buf     []byte   // frames, which end with rest

	part  int
	head  head
	body  body
	left  int64  // remaining bytes of the body or of the chunk
	carry []byte // the start of an incomplete head or line
	begun bool   // a byte of the response has arrived
}

// begin prepares r for the next request and its response. fresh says that the
// connection is a new one.
func (r *reader) begin(e *expectation, fresh bool) {
	r.body.expect = e
	r.reset()
	if r.session != nil {
		r.request(e.request, fresh)
		return
	}
	r.rest = e.request
}

// maxLowWater bounds the result of wholeBody. It is far below the usual receive buffer,
// so waiting for that many bytes does not change the window that a server sees.
const maxLowWater = 64 << 10

// wholeBody returns how many bytes, at least 1, every correct response to the current
// request has. Its head is not counted, as heads may differ.
func (r *reader) wholeBody() int {
	known := r.body.expect.known.Load()
	if known == nil || len(known.body) > maxLowWater {
		return 1
	}
	return max(1, len(known.body))
}

// closing reports whether the connection cannot be used for another request.
func (r *reader) closing() bool {
	if s := r.session; s != nil {
		return s.closing || s.stream >= frame.MaxStream
	}
	return r.head.close
}

// classOfCut returns the class of a connection that ended during a response.
func (r *reader) classOfCut(why string) string {
	if why == "connection closed" && (r.part != inHead || r.session != nil && r.session.headed) {
		return "short body"
	}
	return why
}

// reset prepares r for the next response.
func (r *reader) reset() {
	r.part, r.left, r.begun = inHead, 0, false
	r.carry = r.carry[:0]
	r.body.reset()
}

// readBytes processes the next bytes of the stream. n is how many of them belong to
// the response; done says that it is complete. After an error the stream cannot
// be used.
func (r *reader) readBytes(b []byte) (n int, done bool, err error) {
	if len(b) > 0 {
		r.begun = true
	}
	if r.session != nil {
		done, err = r.feedFrames(b)
		return len(b), done, err
	}
	for {
		var k int
		var next bool
		switch r.part {
		case inHead:
			k, next, err = r.readHead(b[n:])
		case inBody, inChunk:
			k, next = r.readBody(b[n:])
		default:
			k, next, err = r.readLine(b[n:])
		}
		n += k
		if err != nil || !next {
			return n, false, err
		}
		if r.part == inHead { // back at the start: the response is complete
			return n, true, nil
		}
	}
}

// readHead reads the head, or the available part of it.
func (r *reader) readHead(b []byte) (n int, next bool, err error) {
	e := r.body.expect
	if len(r.carry) == 0 && len(e.memo) > 0 && len(b) >= len(e.memo) && bytes.Equal(b[:len(e.memo)], e.memo) {
		r.enterBody(e.parsed)
		return len(e.memo), true, nil
	}
	whole, had := b, len(r.carry)
	if had > 0 {
		r.carry = append(r.carry, b[:min(len(b), maxHead-had)]...)
		whole = r.carry
	}
	h, size, err := parseHead(whole)
	if err != nil {
		return 0, false, err
	}
	if size == 0 {
		if had == 0 {
			r.carry = append(r.carry, b...)
		}
		return len(b), false, nil
	}
	e.memo = append(e.memo[:0], whole[:size]...)
	e.parsed = h
	r.carry = r.carry[:0]
	r.enterBody(h)
	return size - had, true, nil
}

// enterBody changes the state from the head to the body.
func (r *reader) enterBody(h head) {
	r.head = h
	switch {
	case h.chunked:
		r.part = inChunkSize
	default:
		r.part, r.left = inBody, h.length
	}
}

// readBody reads bytes of the body, or of a chunk.
func (r *reader) readBody(b []byte) (n int, next bool) {
	n = int(min(int64(len(b)), r.left))
	if n > 0 {
		if r.body.expect.accepts(r.head.status) {
			r.body.checkBytes(b[:n])
		}
		r.left -= int64(n)
	}
	if r.left > 0 {
		return n, false
	}
	if r.part == inChunk {
		r.part = inChunkEnd
	} else {
		r.part = inHead
	}
	return n, true
}

// readLine reads a line between chunks.
func (r *reader) readLine(b []byte) (n int, next bool, err error) {
	limit := maxLine
	if r.part == inTrailer {
		limit = maxHead
	}
	i := bytes.IndexByte(b, '\n')
	n = i + 1
	if i < 0 {
		n = len(b)
	}
	if len(r.carry)+n > limit {
		return 0, false, fmt.Errorf("a line between chunks is longer than %d bytes", limit)
	}
	r.carry = append(r.carry, b[:n]...)
	if i < 0 {
		return n, false, nil
	}
	line, ok := bytes.CutSuffix(r.carry, crlf)
	if !ok {
		return 0, false, errors.New("a line between chunks does not end in CRLF")
	}
	r.carry = r.carry[:0]
	return n, true, r.takeLine(line)
}

func (r *reader) takeLine(line []byte) error {
	switch r.part {
	case inChunkSize:
		size, err := parseChunk(line)
		if err != nil {
			return err
		}
		if r.body.pos > math.MaxInt64-size {
			return errors.New("the chunks exceed the maximum length of a body")
		}
		r.part, r.left = inChunk, size
		if size == 0 {
			r.part = inTrailer
		}
	case inChunkEnd:
		if len(line) > 0 {
			return fmt.Errorf("unexpected %.40q after a chunk", line)
		}
		r.part = inChunkSize
	case inTrailer:
		if len(line) == 0 {
			r.part = inHead
			return nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(name) || !isFieldText(value) {
			return fmt.Errorf("%.40q is not a trailer", line)
		}
	}
	return nil
}

// verdict classifies the complete response: "" if it is as expected.
func (r *reader) verdict() string {
	s := r.session
	switch {
	case s != nil && s.failure != "":
		return s.failure
	case !r.body.expect.accepts(r.head.status):
		return "status " + strconv.Itoa(r.head.status)
	case s != nil && s.short:
		return "short body"
	}
	return r.body.verdict()
}
