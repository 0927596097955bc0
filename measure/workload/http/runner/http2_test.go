package runner

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2/hpack"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/measure/workload/http"
)

// frame is a frame as a server sends it.
func frame(kind, flags byte, stream uint32, payload ...byte) string {
	b := make([]byte, frameHead, frameHead+len(payload))
	putFrame(b, len(payload), kind, flags, stream)
	return string(append(b, payload...))
}

// block is a header block: names and values in turn.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func headers(flags byte, stream uint32, fields ...string) string {
	return frame(frameHeaders, flags|flagEndHeaders, stream, block(fields...)...)
}

func data(flags byte, stream uint32, body string) string {
	return frame(frameData, flags, stream, []byte(body)...)
}

var (
	settings = frame(frameSettings, 0, 0, 0, 3, 0, 0, 0, 128)
	settled  = frame(frameSettings, flagAck, 0)
	okFive   = headers(0, 1, ":status", "200", "content-length", "5")
	fiveDone = data(flagEndStream, 1, "hello")
)

// clientPreface begins a connection (RFC 9113, 3.4).
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

type rawFrame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

// framesOf cuts a stream into its complete frames.
func framesOf(b []byte) (out []rawFrame) {
	for len(b) >= 9 {
		n := 9 + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
		if len(b) < n {
			break
		}
		out = append(out, rawFrame{b[3], b[4], uint32(b[5]&0x7f)<<24 + uint32(b[6])<<16 +
			uint32(b[7])<<8 + uint32(b[8]), b[9:n]})
		b = b[n:]
	}
	return out
}

// conversation is a reader of HTTP/2 that has sent its first request.
func conversation(e *expectation) *reader {
	r := &reader{session: new(session)}
	r.begin(e, true)
	return r
}

// stepwise feeds stream to r in pieces of at most step bytes, and returns the
// class of its end: a verdict, the class of an error, or "incomplete".
func stepwise(r *reader, stream string, step func() int) string {
	ended := false
	for b := []byte(stream); len(b) > 0; {
		n := min(step(), len(b))
		_, done, err := r.feed(b[:n])
		if err != nil {
			return faultOf(err)
		}
		if done && ended {
			return "done twice"
		}
		ended = ended || done
		b = b[n:]
	}
	if !ended {
		return "incomplete"
	}
	return r.verdict()
}

// Every kind of frame has the same effect however it is cut.
func TestFrames(t *testing.T) {
	request := len(preface) + len(mustFrame(t))
	ack := len(frame(frameSettings, flagAck, 0))
	ok := block(":status", "200", "content-length", "5")
	for _, c := range []struct {
		name, stream, want string
		replies            int // bytes
	}{
		{"plain", settings + settled + okFive + fiveDone, "", ack},
		{"no content-length", settings + headers(0, 1, ":status", "200") + fiveDone, "", ack},
		{"several DATA", settings + okFive + data(0, 1, "he") + data(0, 1, "") + data(0, 1, "llo") + data(1, 1, ""), "", ack},
		{"padded DATA", settings + okFive + frame(frameData, flagPadded|flagEndStream, 1, []byte("\x03hello\x00\x00\x00")...),
			"", ack},
		{"only padding", settings + okFive + data(0, 1, "hello") +
			frame(frameData, flagPadded|flagEndStream, 1, []byte("\x02\x00\x00")...), "", ack},
		{"no padding, but padded", settings + okFive + frame(frameData, flagPadded|flagEndStream, 1, []byte("\x00hello")...),
			"", ack},
		{"too much padding", settings + okFive + frame(frameData, flagPadded, 1, 2, 'x'), "malformed response", ack},
		{"no room for padding", settings + okFive + frame(frameData, flagPadded, 1), "malformed response", ack},
		{"padding and priority", settings + frame(frameHeaders, flagPadded|flagPriority|flagEndHeaders, 1,
			append(append([]byte{2, 0, 0, 0, 0, 9}, ok...), 0, 0)...) + fiveDone, "", ack},
		{"HEADERS without room for padding", settings + frame(frameHeaders, flagPadded|flagEndHeaders, 1),
			"malformed response",
			ack},
		{"HEADERS with too much padding", settings + frame(frameHeaders, flagPadded|flagEndHeaders, 1, 3, 0x88),
			"malformed response", ack},
		{"CONTINUATION", settings + frame(frameHeaders, 0, 1, ok[:1]...) + frame(frameContinuation, 0, 1, ok[1:3]...) +
			frame(frameContinuation, flagEndHeaders, 1, ok[3:]...) + fiveDone, "", ack},
		{"CONTINUATION without a body", settings + frame(frameHeaders, flagEndStream, 1, block(":status", "404")...) +
			frame(frameContinuation, flagEndHeaders, 1), "status 404", ack},
		{"an interrupted header", settings + frame(frameHeaders, 0, 1, ok[:1]...) + settled, "malformed response", ack},
		{"CONTINUATION of nothing", settings + frame(frameContinuation, flagEndHeaders, 1, ok...), "malformed response", ack},
		{"CONTINUATION without end", settings + frame(frameHeaders, 0, 1, make([]byte, maxFrame)...) +
			frame(frameContinuation, 0, 1, 0), "malformed response", ack},
		{"trailers", settings + okFive + data(0, 1, "hello") + headers(flagEndStream, 1, "sum", "1"), "", ack},
		{"trailers with a status", settings + okFive + headers(flagEndStream, 1, ":status", "200"),
			"malformed response", ack},
		{"trailers that do not end", settings + okFive + headers(0, 1, "sum", "1"), "malformed response", ack},
		{"wrong body", settings + okFive + data(flagEndStream, 1, "hellO"), "wrong body", ack},
		{"short body", settings + okFive + data(flagEndStream, 1, "hell"), "short body", ack},
		{"no body", settings + headers(flagEndStream, 1, ":status", "200", "content-length", "5"), "short body", ack},
		{"long body", settings + okFive + data(flagEndStream, 1, "hello!"), "malformed response", ack},
		{"long body without content-length", settings + headers(0, 1, ":status", "200") + data(flagEndStream, 1, "hello!"),
			"wrong body", ack},
		{"404", settings + headers(0, 1, ":status", "404") + data(flagEndStream, 1, "no"), "status 404", ack},
		{"418, a literal in Huffman code", settings + headers(flagEndStream, 1, ":status", "418"), "status 418", ack},
		{"418, a literal", settings + frame(frameHeaders, 5, 1, []byte("\x08\x03418")...), "status 418", ack},
		{"a literal to be indexed", settings + frame(frameHeaders, 5, 1, []byte("\x20\x48\x03418\x40\x01a\x01b")...),
			"status 418", ack},
		{"a dynamic index", settings + frame(frameHeaders, 5, 1, 0x88, 0x80|62), "malformed response", ack},
		{"a larger table", settings + frame(frameHeaders, 5, 1, 0x21, 0x88), "malformed response", ack},
		{"a cut field", settings + frame(frameHeaders, 5, 1, 0x88, 0x0f), "malformed response", ack},
		{"304", settings + headers(flagEndStream, 1, ":status", "304", "content-length", "5"), "status 304", ack},
		{"an interim response", settings + headers(0, 1, ":status", "103"), "malformed response", ack},
		{"no status", settings + headers(0, 1, "server", "x"), "malformed response", ack},
		{"a late status", settings + headers(0, 1, "server", "x", ":status", "200"), "malformed response", ack},
		{"two statuses", settings + headers(0, 1, ":status", "200", ":status", "200"), "malformed response", ack},
		{"status 20", settings + headers(0, 1, ":status", "20"), "malformed response", ack},
		{"a pseudo-header of requests", settings + headers(0, 1, ":status", "200", ":path", "/"), "malformed response", ack},
		{"an upper-case name", settings + headers(0, 1, ":status", "200", "Server", "x"), "malformed response", ack},
		{"a control character", settings + headers(0, 1, ":status", "200", "server", "a\nb"), "malformed response", ack},
		{"Connection", settings + headers(0, 1, ":status", "200", "connection", "close"), "malformed response", ack},
		{"two lengths", settings + headers(0, 1, ":status", "200", "content-length", "5", "content-length", "5"),
			"malformed response", ack},
		{"a length that is none", settings + headers(0, 1, ":status", "200", "content-length", "+5"),
			"malformed response", ack},
		{"PING", settings + frame(framePing, 0, 0, []byte("12345678")...) + okFive + frame(framePing, flagAck, 0,
			[]byte("12345678")...) + fiveDone, "", ack + frameHead + 8},
		{"PING after the response", settings + okFive + fiveDone + frame(framePing, 0, 0, []byte("12345678")...), "",
			ack + frameHead + 8},
		{"a short PING", settings + frame(framePing, 0, 0, 1), "malformed response", ack},
		{"PING on a stream", settings + frame(framePing, 0, 1, []byte("12345678")...), "malformed response", ack},
		{"SETTINGS twice", settings + okFive + settings + fiveDone, "", 2 * ack},
		{"no settings", frame(frameSettings, 0, 0) + okFive + fiveDone, "", ack},
		{"SETTINGS on a stream", settings + frame(frameSettings, 0, 1), "malformed response", ack},
		{"incomplete SETTINGS", settings + frame(frameSettings, 0, 0, 0, 1, 0, 0, 0), "malformed response", ack},
		{"ACK with settings", settings + frame(frameSettings, flagAck, 0, 0, 3, 0, 0, 0, 1), "malformed response", ack},
		{"push enabled", settings + frame(frameSettings, 0, 0, 0, 2, 0, 0, 0, 1), "malformed response", ack},
		{"a window that is too large", settings + frame(frameSettings, 0, 0, 0, 4, 0x80, 0, 0, 0), "malformed response", ack},
		{"frames that are too short", settings + frame(frameSettings, 0, 0, 0, 5, 0, 0, 1, 0), "malformed response", ack},
		{"WINDOW_UPDATE", settings + frame(frameWindow, 0, 0, 0, 0, 0, 9) + okFive + frame(frameWindow, 0, 1, 0, 0, 0, 9) +
			fiveDone, "", ack},
		{"WINDOW_UPDATE by 0", settings + frame(frameWindow, 0, 0, 0x80, 0, 0, 0), "malformed response", ack},
		{"PRIORITY", settings + frame(framePriority, 0, 3, 0, 0, 0, 0, 1) + okFive + fiveDone, "", ack},
		{"a short PRIORITY", settings + frame(framePriority, 0, 3), "malformed response", ack},
		{"an unknown frame", settings + frame(0xfa, 0xff, 7, 1, 2, 3) + frame(0xfa, 0, 0) + okFive + fiveDone, "", ack},
		{"PUSH_PROMISE", settings + frame(framePush, flagEndHeaders, 1, 0, 0, 0, 2, 0x88), "malformed response", ack},
		{"RST_STREAM", settings + frame(frameReset, 0, 1, 0, 0, 0, 7), "stream reset: REFUSED_STREAM", ack},
		{"RST_STREAM in the body", settings + okFive + data(0, 1, "he") + frame(frameReset, 0, 1, 0, 0, 0, 2),
			"stream reset: INTERNAL_ERROR", ack},
		{"RST_STREAM without a known code", settings + frame(frameReset, 0, 1, 0xff, 0, 0, 7),
			"stream reset: unknown code", ack},
		{"RST_STREAM after the response", settings + okFive + fiveDone + frame(frameReset, 0, 1, 0, 0, 0, 0), "", ack},
		{"RST_STREAM of a stream that was not opened", settings + frame(frameReset, 0, 3, 0, 0, 0, 0),
			"malformed response", ack},
		{"a short RST_STREAM", settings + frame(frameReset, 0, 1, 0, 0, 0), "malformed response", ack},
		{"GOAWAY after this response", settings + frame(frameGoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0) +
			okFive + fiveDone, "", ack},
		{"GOAWAY before this request", settings + frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "connection closed", ack},
		{"GOAWAY by an error", settings + frame(frameGoAway, 0, 0, append([]byte{0, 0, 0, 1, 0, 0, 0, 11}, "why"...)...),
			"server sent GOAWAY: ENHANCE_YOUR_CALM", ack},
		{"GOAWAY after the response", settings + okFive + fiveDone + frame(frameGoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1), "",
			ack},
		{"a short GOAWAY", settings + frame(frameGoAway, 0, 0, 0), "malformed response", ack},
		{"HEADERS of another stream", settings + headers(0, 3, ":status", "200"), "malformed response", ack},
		{"HEADERS of no stream", settings + headers(0, 0, ":status", "200"), "malformed response", ack},
		{"DATA before HEADERS", settings + fiveDone, "malformed response", ack},
		{"DATA after the end", settings + okFive + fiveDone + data(0, 1, "x"), "malformed response", ack},
		{"HEADERS after the end", settings + okFive + fiveDone + okFive, "malformed response", ack},
		{"a frame that is too long", settings + "\x00\x40\x01\x00\x00\x00\x00\x00\x01", "malformed response", ack},
		{"HTTP/1.1", "HTTP/1.1 400 Bad Request\r\n\r\n", "not HTTP/2", 0},
		{"HEADERS before SETTINGS", okFive, "not HTTP/2", 0},
		{"ACK before SETTINGS", settled, "not HTTP/2", 0},
		{"nothing", "", "incomplete", 0},
		{"a part", settings + okFive + data(0, 1, "hello"), "incomplete", ack},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(how string, step func() int) {
				t.Helper()
				r := conversation(expecting(5, sumOf([]byte("hello"))))
				r.body.expect.request = mustFrame(t)
				r.begin(r.body.expect, true)
				if got := stepwise(r, c.stream, step); got != c.want || len(r.rest) != request+c.replies {
					t.Fatalf("%s: %q with %d bytes of replies; want %q with %d", how, got, len(r.rest)-request, c.want, c.replies)
				}
			}
			for cut := range min(len(c.stream), 400) {
				first := true
				check(fmt.Sprintf("cut at %d", cut), func() int {
					if first && cut > 0 {
						first = false
						return cut
					}
					return len(c.stream)
				})
			}
			check("byte by byte", func() int { return 1 })
		})
	}
}

func mustFrame(t *testing.T) []byte {
	t.Helper()
	f, err := prepareFrame("http", "h", "/index.html")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The preface, the settings, and requests on new streams.
func TestRequestsOverHTTP2(t *testing.T) {
	a, err := newAsk(URL{Path: "/a?b=c", Length: -1}, &load{host: "example.org", http2: true, tls: &tls.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	r := conversation(&expectation{ask: a})
	sent := bytes.NewBuffer(bytes.Clone(r.rest))
	for stream := uint32(3); stream <= 5; stream += 2 {
		r.rest = nil // sent
		r.begin(r.body.expect, false)
		sent.Write(r.rest)
	}
	if text := string(sent.Next(len(clientPreface))); text != clientPreface {
		t.Fatalf("%q", text)
	}
	var got []string
	for _, f := range framesOf(sent.Bytes()) {
		switch f.kind {
		case frameHeaders:
			fields, err := hpack.NewDecoder(0, nil).DecodeFull(f.payload)
			if err != nil || f.flags != flagEndStream|flagEndHeaders {
				t.Fatal(err, f.flags)
			}
			got = append(got, fmt.Sprint(f.stream, fields))
		default:
			got = append(got, fmt.Sprintf("%d %d %x", f.kind, f.stream, f.payload))
		}
	}
	fields := ` [header field ":method" = "GET" header field ":scheme" = "https" header field ` +
		`":authority" = "example.org" ` +
		`header field ":path" = "/a?b=c"]`
	// 7fff0000 is 2^31-1 less the initial 65,535.
	want := []string{"4 0 0001" + "00000000" + "0002" + "00000000" + "0004" + "7fffffff", "8 0 7fff0000",
		"1" + fields, "3" + fields, "5" + fields}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q; want %q", got, want)
	}
	if _, err := prepareFrame("http", "h", "/"+strings.Repeat("~", maxFrame)); err == nil {
		t.Error("a request that is too long for a frame was accepted")
	}
}

// A connection is replaced before its stream identifiers run out, its window is
// enlarged as bodies arrive, and a flood of frames ends it.
func TestLimitsOfAConnection(t *testing.T) {
	e := expecting(5, sumOf([]byte("hello")))
	e.request = mustFrame(t)
	r := conversation(e)
	at := func() int { return maxFrame }
	if got := stepwise(r, settings+okFive+fiveDone, at); got != "" || r.closing() {
		t.Fatalf("%q, %v", got, r.closing())
	}
	r.rest = nil
	r.session.stream = maxStream - 2
	r.session.window = windowRefill - 5
	r.begin(e, false)
	r.rest = nil
	got := stepwise(r, headers(0, maxStream, ":status", "200")+data(flagEndStream, maxStream, "hello"), at)
	if got != "" || !r.closing() || string(r.rest) != frame(frameWindow, 0, 0, 0x40, 0, 0, 0) {
		t.Errorf("%q, closing %v, replies %q", got, r.closing(), r.rest)
	}
	for name, flood := range map[string]string{
		"PING": frame(framePing, 0, 0, []byte("12345678")...), "DATA": data(0, 1, ""), "unknown": frame(0xfa, 0, 0),
	} {
		r = conversation(e)
		if got := stepwise(r, settings+okFive+strings.Repeat(flood, maxIdleFrames), at); got != "malformed response" {
			t.Errorf("a flood of %s: %q", name, got)
		}
	}
	r = conversation(e)
	small := expecting(-1, "").ask
	small.request = e.request
	r.begin(&expectation{ask: small}, true)
	body := strings.Repeat("x", 2*maxIdleFrames)
	stream := settings + headers(0, 1, ":status", "200") + strings.Repeat(data(0, 1, "x"), len(body)) + data(1, 1, "")
	if got := stepwise(r, stream, at); got != "" || r.session.got != int64(len(body)) {
		t.Errorf("a body in frames of one byte: %q after %d bytes", got, r.session.got)
	}
}

// A header that is the same as the last one is not decoded again, and one that
// differs is.
func TestRepeatedHeader(t *testing.T) {
	e := expecting(5, sumOf([]byte("hello")))
	e.request = mustFrame(t)
	r := conversation(e)
	stream, memo := settings, ""
	for i, status := range []string{"200", "200", "404", "200"} {
		id := uint32(2*i + 1)
		if i > 0 {
			r.begin(e, false)
			stream = ""
		}
		stream += headers(0, id, ":status", status, "content-length", "5") + data(flagEndStream, id, "hello")
		want := strings.TrimSuffix("status "+status, "status 200")
		if got := stepwise(r, stream, func() int { return maxFrame }); got != want {
			t.Errorf("response %d: %q; want %q", i, got, want)
		}
		if same := memo == string(e.memo); same != (i == 1) {
			t.Errorf("response %d: decoded %v", i, !same)
		}
		memo = string(e.memo)
	}
}

// A response is read in the same way however it is cut, and as a simple reader
// of whole frames reads it.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{
		settings + okFive + fiveDone,
		settings + frame(frameHeaders, 0, 1, 0x88) + frame(frameContinuation, flagEndHeaders, 1) + fiveDone,
		settings + okFive + frame(frameData, flagPadded|flagEndStream, 1, []byte("\x03hello\x00\x00\x00")...) + settled,
		settings + frame(frameReset, 0, 1, 0, 0, 0, 7) + frame(framePing, 0, 0, []byte("12345678")...),
		settings + okFive + data(0, 1, "hello") + headers(flagEndStream, 1, "sum", "1"),
		settings + frame(frameHeaders, 5, 1, []byte("\x20\x48\x03418\x40\x01a\x01b")...),
		settings + frame(frameGoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0) + frame(0xfa, 0, 0) + okFive + fiveDone,
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		whole, cut := conversation(expecting(-1, "")), conversation(expecting(-1, ""))
		a := stepwise(whole, string(stream), func() int { return len(stream) })
		b := stepwise(cut, string(stream), func() int { return 1 + rng.IntN(40) })
		if a != b || whole.head != cut.head || !bytes.Equal(whole.body.got, cut.body.got) ||
			!bytes.Equal(whole.rest, cut.rest) {
			t.Fatalf("at once: %q, %+v, %q; in pieces: %q, %+v, %q", a, whole.head, whole.rest, b, cut.head, cut.rest)
		}
		if len(whole.session.carry) > frameHead+maxFrame || len(whole.session.block) > maxHead ||
			len(whole.rest) > len(whole.buf) || len(whole.buf) > 2*len(stream)+200 {
			t.Fatalf("it keeps %d, %d and %d bytes", len(whole.session.carry), len(whole.session.block), len(whole.buf))
		}
		if a != "" {
			return
		}
		if status, body, err := simply(stream); err != nil || status != strconv.Itoa(whole.head.status) ||
			!bytes.Equal(body, kept(whole)) {
			t.Fatalf("read simply: %s, %q, %v; we %d, %q", status, body, err, whole.head.status, kept(whole))
		}
	})
}

// kept is the body that became the reference.
func kept(r *reader) []byte { return r.body.expect.known.Load().body }

// simply reads a valid response.
func simply(stream []byte) (status string, body []byte, err error) {
	var header []byte
	for _, f := range framesOf(stream) {
		payload := f.payload
		pads := f.kind == frameData || f.kind == frameHeaders
		if pads && f.flags&flagPadded != 0 {
			payload = payload[1 : len(payload)-int(payload[0])]
		}
		if f.kind == frameHeaders && f.flags&flagPriority != 0 {
			payload = payload[5:]
		}
		switch f.kind {
		case frameHeaders, frameContinuation:
			header = append(header, payload...)
			if f.flags&flagEndHeaders == 0 || status != "" {
				continue
			}
			fields, err := hpack.NewDecoder(0, nil).DecodeFull(header)
			if err != nil {
				return "", nil, err
			}
			status = fields[0].Value
		case frameData:
			body = append(body, payload...)
			if f.flags&flagEndStream != 0 {
				return status, body, nil
			}
		}
	}
	return status, body, nil
}

// serve2 is serve over HTTP/2: script writes frames for the nth request, from 0,
// on a stream.
func serve2(t *testing.T, script func(c net.Conn, stream uint32, n int64) bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var requests atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 1<<10)
				if _, err := io.ReadFull(c, b[:len(clientPreface)]); err != nil {
					return
				}
				io.WriteString(c, settings)
				for {
					if _, err := io.ReadFull(c, b[:9]); err != nil {
						return
					}
					kind, stream := b[3], binary.BigEndian.Uint32(b[5:])
					if _, err := io.ReadFull(c, b[:int(b[1])<<8+int(b[2])]); err != nil {
						return
					}
					if kind == frameHeaders && !script(c, stream, requests.Add(1)-1) {
						c.(*net.TCPConn).CloseWrite()
						io.Copy(io.Discard, c) // closing with unread bytes would be a reset
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func good2(c net.Conn, stream uint32) bool {
	_, err := io.WriteString(c, headers(0, stream, ":status", "200")+data(flagEndStream, stream, hello))
	return err == nil
}

// As TestErrorsByClass.
func TestErrorsByClassOverHTTP2(t *testing.T) {
	ok := func(stream uint32) string { return headers(0, stream, ":status", "200", "content-length", "12") }
	for _, c := range []struct {
		class  string
		answer func(stream uint32) string
		stays  bool
	}{
		{"status 404", func(n uint32) string { return headers(flagEndStream, n, ":status", "404") }, true},
		{"wrong body", func(n uint32) string { return ok(n) + data(flagEndStream, n, "hello, World") }, true},
		{"short body", func(n uint32) string { return ok(n) + data(flagEndStream, n, "hello") }, true},
		{"short body", func(n uint32) string { return ok(n) + data(0, n, "hello") }, false},
		{"stream reset: CANCEL", func(n uint32) string { return ok(n) + frame(frameReset, 0, n, 0, 0, 0, 8) }, true},
		{"malformed response", func(n uint32) string { return ok(n) + ok(n) }, true},
		{"malformed response", func(n uint32) string { return ok(n) + data(1, n, hello) + data(1, n, hello) }, true},
		{"connection closed", func(uint32) string { return "" }, false},
		{"connection closed", func(uint32) string { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true},
		{"server sent GOAWAY: PROTOCOL_ERROR", func(n uint32) string {
			return frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint64(nil, uint64(n)<<32|1)...)
		}, true},
	} {
		for _, engine := range engines {
			t.Run(engine+", "+c.class, func(t *testing.T) {
				t.Parallel() // it waits
				var bad atomic.Int64
				addr := serve2(t, func(conn net.Conn, stream uint32, n int64) bool {
					if n < 4 || n%3 != 0 {
						return good2(conn, stream)
					}
					bad.Add(1)
					io.WriteString(conn, c.answer(stream))
					return c.stays
				})
				r := generate(t, addr, "protocol=http/2", "time=300ms", "connections=4", "engine="+engine, besideOthers)
				if bad.Load() == 0 || r.Errors[c.class] != bad.Load() || len(r.Errors) > 1 || http.Stated(r, "requests") < 4 {
					t.Errorf("errors %v, want %d of %q; %v", r.Errors, bad.Load(), c.class, r.Values)
				}
			})
		}
	}
}

// A server that ends its connections politely costs no request.
func TestGoAwayCostsNoRequest(t *testing.T) {
	for _, engine := range engines {
		addr := serve2(t, func(c net.Conn, stream uint32, n int64) bool {
			if n%5 == 4 {
				io.WriteString(c, frame(frameGoAway, 0, 0, binary.BigEndian.AppendUint64(nil, uint64(stream)<<32)...))
			}
			return good2(c, stream)
		})
		for _, args := range []string{"keepalive=true", "keepalive=false", "rate=500/s"} {
			r := generate(t, addr, "protocol=http/2", "time=50ms", "connections=3", "engine="+engine, args)
			if len(r.Errors) > 0 || !r.Check.Verified {
				t.Errorf("%s, %s: errors %v, check %+v", engine, args, r.Errors, r.Check)
			}
		}
	}
}

// The server of net/http answers as many requests as are counted, over TLS and
// without, in short and long bodies.
func TestAgainstNetHTTP(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	pair, cert := selfSigned(t)
	var served, others atomic.Int64
	s := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		served.Add(1)
		if r.ProtoMajor != 2 || r.Host != "example.org" || r.Method != "GET" {
			others.Add(1)
		}
		io.WriteString(w, map[string]string{"/": hello, "/long": long}[r.URL.Path])
	}))
	s.Config.Protocols = new(nethttp.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	secure := httptest.NewUnstartedServer(s.Config.Handler)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, engine := range engines {
		for _, args := range []string{"rate=400/s", "path=/long length=-1 sha256=" + sumOf([]byte(long))} {
			for _, to := range []struct{ addr, args string }{
				{s.Listener.Addr().String(), "threads=2"},
				{secure.Listener.Addr().String(), "tls=true certificate=" + pair.Sum},
			} {
				served.Store(0)
				all := strings.Fields(args + " " + to.args)
				r := generate(t, to.addr, append([]string{"protocol=http/2", "host=example.org", "time=30ms", "connections=4",
					"engine=" + engine}, all...)...)
				if n := served.Load(); len(r.Errors) > 0 || !r.Check.Verified || others.Load() > 0 ||
					http.Stated(r, "requests") != float64(n) {
					t.Errorf("%s, %v: errors %v, %g in time of %g responses; %d requests, %d wrong", engine, all, r.Errors, r.Work,
						http.Stated(r, "requests"), n, others.Load())
				}
			}
		}
	}
}

// A server without HTTP/2 is an error that says so.
func TestServersWithoutHTTP2(t *testing.T) {
	plain, _ := serve(t, func(c net.Conn, _ int64) bool { return good(c) })
	pair, cert := selfSigned(t)
	for _, engine := range engines {
		r := generate(t, plain, "protocol=http/2", "time=50ms", "timeout=5s", "connections=2", "engine="+engine)
		if r.Errors["not HTTP/2"] == 0 || len(r.Errors) > 1 || r.Work > 0 {
			t.Errorf("%s, without TLS: errors %v", engine, r.Errors)
		}
		for _, offers := range [][]string{nil, {"http/1.1"}} {
			l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: offers})
			if err != nil {
				t.Fatal(err)
			}
			suite.Accept(t, l, func(c net.Conn) { io.Copy(io.Discard, c) })
			r := generate(t, l.Addr().String(), "protocol=http/2", "tls=true", "certificate="+pair.Sum, "time=50ms",
				"connections=2", "engine="+engine)
			if r.Errors[string(errNotNegotiated)] == 0 || len(r.Errors) > 1 || r.Work > 0 {
				t.Errorf("%s, a server that offers %q: errors %v", engine, offers, r.Errors)
			}
		}
	}
}

// nginx serves HTTP/2 with and without TLS, and a page that is missing is an
// error over HTTP/2 as well.
func TestNginxOverHTTP2(t *testing.T) {
	for _, set := range []param.Values{{"tls": "false"}, {"tls": "true", "rate": "500/s"}} {
		t.Run("tls="+set.Text("tls"), func(t *testing.T) {
			t.Parallel() // it waits
			maps.Copy(set, param.Values{"protocol": "http/2", "site": "example", "urls": "all", "warmup": "50ms"})
			target, p := served(t, set)
			if p.Bool("tls") {
				return
			}
			s, err := NewServer(target, p)
			if err != nil {
				t.Fatal(err)
			}
			r := generate(t, s.addr.String(), "protocol=http/2", "path=/none", "time=20ms", "connections=2", besideOthers)
			if _, err := parsed(t, r); !fault.Is(err, fault.Subject) ||
				!strings.Contains(err.Error(), "server answered 404 to ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// HTTP/2 is in the configuration if the generator uses it, and nothing changes
// for other cells, whose plans may be older than the parameter.
func TestConfigurationForHTTP2(t *testing.T) {
	config := func(p param.Values) string {
		return (&Server{params: values(p), addr: loopback4, dir: "/d"}).nginx("")
	}
	if plain := config(param.Values{"protocol": "http/2"}); !strings.Contains(plain,
		"listen 127.0.0.1:80 http2 backlog") ||
		strings.Contains(plain, "ssl") || !strings.Contains(plain, "sendfile off") {
		t.Errorf("without TLS: %s", plain)
	}
	secure := config(param.Values{"protocol": "http/2", "tls": "true"})
	if secure != config(param.Values{"http2": "true", "tls": "true"}) ||
		!strings.Contains(secure, "listen 127.0.0.1:80 ssl http2 backlog") {
		t.Errorf("with TLS: %s", secure)
	}
	if config(nil) != config(param.Values{"protocol": ""}) || strings.Contains(config(nil), "http2") {
		t.Errorf("HTTP/1.1: %s", config(nil))
	}
}
