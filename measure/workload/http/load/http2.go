package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"bakeoff/measure/workload/http/frame"

	"golang.org/x/net/http2/hpack"
)

// HTTP/2 (RFC 9113) with one request at a time on a connection, so that a
// latency means the same as over HTTP/1.1. No header table is used in either
// direction: a request is encoded once, and only its stream identifier changes;
// a response whose header block is the same as the last one is not decoded.

const (
	// maxWindow is the largest window.
	maxWindow = 1<<31 - 1
	// windowRefill is how much arrives before the connection's window is
	// enlarged again.
	windowRefill = 1 << 30
	// maxIdleFrames bounds the frames without a part of the body during one
	// request.
	maxIdleFrames = 10_000
)

// preface is what a client sends first: the preface, its settings (no header
// table, no push, the largest window of a stream), and the largest window of the
// connection.
var preface = []byte(frame.Preface +
	"\x00\x00\x12\x04\x00\x00\x00\x00\x00" +
	"\x00\x01\x00\x00\x00\x00" + "\x00\x02\x00\x00\x00\x00" + "\x00\x04\x7f\xff\xff\xff" +
	"\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\xff\x00\x00")

// failure is an error with a class of its own.
type failure string

func (f failure) Error() string { return string(f) }

// faultOf returns the class of an error in a response.
func faultOf(err error) string {
	if f, ok := errors.AsType[failure](err); ok {
		return string(f)
	}
	return "malformed response"
}

// errNotNegotiated is the error of a server that does not offer HTTP/2 by ALPN.
const errNotNegotiated = failure("the server did not negotiate HTTP/2")

// codes are the names of error codes.
var codes = []string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR",
	"ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED"}

func codeName(code uint32) string {
	if int64(code) < int64(len(codes)) {
		return codes[code]
	}
	return "unknown code"
}

// prepareFrame returns the HEADERS frame of a request, without its stream
// identifier.
func prepareFrame(scheme, host, path string) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, frame.HeadLength))
	e := hpack.NewEncoder(b)
	// The block begins with a change of the table's size to 0, so that it
	// satisfies every server, whatever its settings.
	e.SetMaxDynamicTableSize(0)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: host}, {Name: ":path", Value: path}} {
		if err := e.WriteField(f); err != nil {
			return nil, err
		}
	}
	length := b.Len() - frame.HeadLength
	if length > frame.MaxPayload {
		return nil, fmt.Errorf("the header of a request over HTTP/2 is %d bytes long; the limit is %d", length,
			frame.MaxPayload)
	}
	frame.Put(b.Bytes(), length, frame.Headers, frame.EndStream|frame.EndHeaders, 0)
	return b.Bytes(), nil
}

// session is the state of an HTTP/2 connection.
type session struct {
	stream  uint32 // of the current or last request; 0 before the first one
	open    bool   // the response is incomplete
	headed  bool   // its header has arrived
	short   bool   // its body was shorter than its Content-Length
	failure string // class of the error that ended the stream; "" for none
	got     int64  // bytes of the body
	idle    int    // frames without a part of the body since the request
	greeted bool   // the server's settings have arrived
	closing bool   // the server accepts no other request
	window  int    // bytes that arrived since the window was enlarged
	data    int    // remaining bytes of a DATA frame
	pad     int    // remaining bytes of its padding
	last    bool   // that frame ends the stream
	carry   []byte // the start of an incomplete frame
	// block is the start of a header block that CONTINUATION frames
	// continue; blockLast says whether it ends the stream.
	block     []byte
	continued bool
	blockLast bool
}

// request queues the next request.
func (r *reader) request(frame []byte, fresh bool) {
	s := r.session
	if fresh {
		*s = session{carry: s.carry[:0], block: s.block[:0]}
		r.rest = nil
		r.queueFrame(preface)
		s.stream = 1
	} else {
		s.stream += 2
	}
	s.open, s.headed, s.short, s.failure, s.got, s.idle = true, false, false, "", 0, 0
	r.queueFrame(frame)
	binary.BigEndian.PutUint32(r.rest[len(r.rest)-len(frame)+5:], s.stream)
}

// queueFrame adds a frame to what must be sent.
func (r *reader) queueFrame(frame []byte) {
	if len(r.rest) == 0 {
		r.buf = r.buf[:0]
	}
	left := len(r.rest) + len(frame)
	r.buf = append(r.buf, frame...)
	r.rest = r.buf[len(r.buf)-left:]
}

// queueReply queues a frame of the connection.
func (r *reader) queueReply(kind, flags byte, payload []byte) {
	var b [frame.HeadLength + 8]byte
	frame.Put(b[:], len(payload), kind, flags, 0)
	r.queueFrame(b[:frame.HeadLength+copy(b[frame.HeadLength:], payload)])
}

// feedFrames processes the next bytes of the connection. done says that the
// response is complete.
func (r *reader) feedFrames(b []byte) (done bool, err error) {
	for s := r.session; ; {
		ended := false
		switch {
		case s.data > 0 || s.pad > 0:
			b = r.takeData(b)
			if s.data > 0 || s.pad > 0 {
				return done, nil
			}
			ended = s.last
		default:
			f, n, err := s.nextFrame(b)
			b = b[n:]
			if err == nil && f == nil {
				return done, nil
			}
			if err == nil {
				ended, err = r.takeFrame(f)
			}
			if err != nil && !s.greeted {
				err = failure("not HTTP/2")
			}
			if err != nil {
				return done, err
			}
		}
		if ended {
			done = true
			s.open = false
			s.short = r.head.length > s.got
		}
	}
}

// takeData takes bytes of a DATA frame, and returns the others.
func (r *reader) takeData(b []byte) []byte {
	s := r.session
	if n := min(s.data, len(b)); n > 0 {
		if r.body.expect.accepts(r.head.status) {
			r.body.checkBytes(b[:n])
		}
		s.data -= n
		b = b[n:]
	}
	n := min(s.pad, len(b))
	s.pad -= n
	return b[n:]
}

// nextFrame returns the next frame when it is complete, except the content of a
// DATA frame. n is how many bytes of b belong to it.
func (s *session) nextFrame(b []byte) (f []byte, n int, err error) {
	if len(s.carry) == 0 {
		size, err := frameSize(b)
		if err != nil || size <= len(b) {
			return b[:min(size, len(b))], size, err
		}
	}
	for {
		size, err := frameSize(s.carry)
		if err != nil {
			return nil, n, err
		}
		if size == len(s.carry) {
			f, s.carry = s.carry, s.carry[:0]
			return f, n, nil
		}
		if n == len(b) {
			return nil, n, nil
		}
		k := min(size-len(s.carry), len(b)-n)
		s.carry = append(s.carry, b[n:n+k]...)
		n += k
	}
}

// frameSize is the length of the frame at the start of b, without the content
// of a DATA frame, as far as b shows it.
func frameSize(b []byte) (int, error) {
	if len(b) < frame.HeadLength {
		return frame.HeadLength, nil
	}
	switch length := int(binary.BigEndian.Uint32(b) >> 8); {
	case length > frame.MaxPayload:
		return 0, fmt.Errorf("the server sent a frame of %d bytes; the limit is %d", length, frame.MaxPayload)
	case b[3] != frame.Data:
		return frame.HeadLength + length, nil
	case b[4]&frame.Padded == 0:
		return frame.HeadLength, nil
	case length == 0:
		return 0, errors.New("a frame is too short for its padding")
	default:
		return frame.HeadLength + 1, nil
	}
}

// takeFrame processes a frame, except the content of a DATA frame. ended says
// that it ends the stream.
func (r *reader) takeFrame(f []byte) (ended bool, err error) {
	s := r.session
	kind, flags, stream := f[3], f[4], binary.BigEndian.Uint32(f[5:])&frame.MaxStream
	payload := f[frame.HeadLength:]
	if s.idle++; s.idle > maxIdleFrames {
		return false, errors.New("too many frames without content")
	}
	switch {
	case !s.greeted && (kind != frame.Settings || flags&frame.Ack != 0):
		return false, errors.New("the first frame is not SETTINGS")
	case s.continued && (kind != frame.Continuation || stream != s.stream):
		return false, errors.New("a header block is interrupted")
	case connectionFrame(kind) != (stream == 0) && kind != frame.WindowUpdate && kind <= frame.Continuation:
		return false, fmt.Errorf("unexpected frame of type %d on stream %d", kind, stream)
	}
	switch kind {
	case frame.Data:
		return r.enterData(f, stream)
	case frame.Headers:
		return r.takeHeaders(f, stream)
	case frame.Continuation:
		if !s.continued || len(s.block)+len(payload) > maxHead {
			return false, errors.New("an unexpected CONTINUATION, or a header that is too long")
		}
		s.block = append(s.block, payload...)
		if flags&frame.EndHeaders == 0 {
			return false, nil
		}
		s.continued = false
		h, err := parseBlock(s.block, s.headed)
		if err != nil {
			return false, err
		}
		return s.blockLast, r.enterHead(h, s.blockLast)
	case frame.Reset:
		return r.takeReset(payload, stream)
	case frame.Settings:
		return false, r.takeSettings(payload, flags)
	case frame.Ping:
		if len(payload) != 8 {
			return false, errors.New("a PING does not have 8 bytes")
		}
		if flags&frame.Ack == 0 {
			r.queueReply(frame.Ping, frame.Ack, payload)
		}
	case frame.GoAway:
		return false, s.takeGoAway(payload)
	case frame.WindowUpdate: // the generator sends no bodies
		if len(payload) != 4 || binary.BigEndian.Uint32(payload)&maxWindow == 0 {
			return false, errors.New("an invalid WINDOW_UPDATE")
		}
	case frame.Priority:
		if len(payload) != 5 {
			return false, errors.New("a PRIORITY does not have 5 bytes")
		}
	case frame.PushPromise:
		return false, errors.New("a PUSH_PROMISE, although the settings exclude pushes")
	}
	return false, nil // frames of unknown types are ignored
}

// connectionFrame reports whether frames of a type belong to the connection,
// and not to a stream.
func connectionFrame(kind byte) bool {
	return kind == frame.Settings || kind == frame.Ping || kind == frame.GoAway
}

// enterData begins a DATA frame.
func (r *reader) enterData(f []byte, stream uint32) (ended bool, err error) {
	s := r.session
	length := int(binary.BigEndian.Uint32(f) >> 8)
	s.data, s.pad, s.last = length, 0, f[4]&frame.EndStream != 0
	if f[4]&frame.Padded != 0 {
		s.pad = int(f[frame.HeadLength])
		s.data = length - 1 - s.pad
	}
	if s.data > 0 {
		s.idle--
	}
	if s.window += length; s.window >= windowRefill {
		r.queueReply(frame.WindowUpdate, 0, binary.BigEndian.AppendUint32(nil, uint32(s.window)))
		s.window = 0
	}
	s.got += int64(max(s.data, 0))
	switch {
	case !s.open || !s.headed || stream != s.stream:
		return false, errors.New("DATA outside of a response")
	case s.data < 0:
		return false, errors.New("a frame is too short for its padding")
	case s.got > maxWindow, r.head.length >= 0 && s.got > r.head.length:
		return false, errors.New("the body is longer than its Content-Length or its window")
	}
	return s.last && s.data == 0 && s.pad == 0, nil
}

// takeHeaders processes a HEADERS frame.
func (r *reader) takeHeaders(f []byte, stream uint32) (ended bool, err error) {
	s, e := r.session, r.body.expect
	if !s.open || stream != s.stream {
		return false, errors.New("HEADERS outside of a response")
	}
	flags := f[4]
	ended = flags&frame.EndStream != 0
	if !s.headed && len(e.memo) == len(f) && bytes.Equal(e.memo[:5], f[:5]) &&
		bytes.Equal(e.memo[frame.HeadLength:], f[frame.HeadLength:]) {
		return ended, r.enterHead(e.parsed, ended)
	}
	block, skip, pad := f[frame.HeadLength:], 0, 0
	if flags&frame.Padded != 0 && len(block) > 0 {
		skip, pad = 1, int(block[0])
	}
	if flags&frame.HasPriority != 0 {
		skip += 5
	}
	if skip+pad > len(block) || flags&frame.Padded != 0 && skip == 0 {
		return false, errors.New("a frame is too short for its padding or its priority")
	}
	block = block[skip : len(block)-pad]
	if flags&frame.EndHeaders == 0 {
		s.continued, s.blockLast, s.block = true, ended, append(s.block[:0], block...)
		return false, nil
	}
	h, err := parseBlock(block, s.headed)
	if err != nil {
		return false, err
	}
	if !s.headed {
		e.memo, e.parsed = append(e.memo[:0], f...), h
	}
	return ended, r.enterHead(h, ended)
}

// enterHead enters the body after its header, or ends it with its trailers.
func (r *reader) enterHead(h head, ended bool) error {
	if r.session.headed {
		if !ended {
			return errors.New("a second header")
		}
		return nil
	}
	r.session.headed, r.head = true, h
	return nil
}

// parseBlock decodes the header of a response, or its trailers.
func parseBlock(block []byte, trailers bool) (h head, err error) {
	h.length = -1
	fields := 0
	d := hpack.NewDecoder(0, func(f hpack.HeaderField) {
		if err == nil {
			err = h.checkField(f, trailers, fields == 0)
		}
		fields++
	})
	d.SetMaxStringLength(maxHead)
	_, bad := d.Write(block)
	if err := errors.Join(bad, d.Close(), err); err != nil {
		return head{}, err
	}
	switch {
	case !trailers && h.status == 0:
		return head{}, errors.New("no status")
	case h.status == 204 || h.status == 304:
		h.length = 0
	}
	return h, nil
}

// checkField checks one field of a header or of trailers.
func (h *head) checkField(f hpack.HeaderField, trailers, first bool) (err error) {
	name, value := []byte(f.Name), []byte(f.Value)
	switch {
	case f.Name == ":status" && first && !trailers:
		h.status, err = parseCode(value)
		return err
	case !isToken(name) || strings.ToLower(f.Name) != f.Name || !isFieldText(value):
		return fmt.Errorf("%.40q is not a field of a response", f.Name)
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return fmt.Errorf("the field %s is not allowed in HTTP/2", f.Name)
	case "content-length":
		if h.length >= 0 {
			return errors.New("more than one Content-Length")
		}
		h.length, err = parseLength(value)
	}
	return err
}

// takeReset processes RST_STREAM.
func (r *reader) takeReset(payload []byte, stream uint32) (ended bool, err error) {
	s := r.session
	if len(payload) != 4 || stream > s.stream {
		return false, errors.New("an invalid RST_STREAM")
	}
	if !s.open || stream != s.stream {
		return false, nil // of a response that is complete
	}
	s.failure = "stream reset: " + codeName(binary.BigEndian.Uint32(payload))
	return true, nil
}

// The settings of a server that have a limit.
const (
	settingPush   = 2
	settingWindow = 4
	settingFrame  = 5
)

// takeSettings checks and acknowledges the server's settings. They bound only
// what the generator does not do: it needs no header table, no push and one
// stream, and its frames are short.
func (r *reader) takeSettings(payload []byte, flags byte) error {
	if flags&frame.Ack != 0 {
		if len(payload) != 0 {
			return errors.New("a SETTINGS acknowledgement contains settings")
		}
		return nil
	}
	if len(payload)%6 != 0 {
		return errors.New("incomplete settings")
	}
	for ; len(payload) > 0; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch id := binary.BigEndian.Uint16(payload); {
		case id == settingPush && value != 0, id == settingWindow && value > maxWindow,
			id == settingFrame && (value < frame.MaxPayload || value >= 1<<24):
			return fmt.Errorf("the setting with the number %d cannot have the value %d", id, value)
		}
	}
	r.session.greeted = true
	r.queueReply(frame.Settings, frame.Ack, nil)
	return nil
}

// takeGoAway processes GOAWAY: the connection ends after the current response,
// or at once if the server does not answer the request.
func (s *session) takeGoAway(payload []byte) error {
	if len(payload) < 8 {
		return errors.New("an invalid GOAWAY")
	}
	s.closing = true
	last, code := binary.BigEndian.Uint32(payload)&frame.MaxStream, binary.BigEndian.Uint32(payload[4:])
	switch {
	case !s.open:
	case code != 0:
		return failure("server sent GOAWAY: " + codeName(code))
	case last < s.stream:
		return failure("connection closed")
	}
	return nil
}
