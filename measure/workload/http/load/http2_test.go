package load

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"bakeoff/base/suite"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/frame"
	"bakeoff/measure/workload/http/responder"
)

// packet is a frame as a server sends it.
func packet(kind, flags byte, stream uint32, payload ...byte) string {
	b := make([]byte, frame.HeadLength, frame.HeadLength+len(payload))
	frame.Put(b, len(payload), kind, flags, stream)
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
	return packet(frame.Headers, flags|frame.EndHeaders, stream, block(fields...)...)
}

func data(flags byte, stream uint32, body string) string {
	return packet(frame.Data, flags, stream, []byte(body)...)
}

var (
	settings = packet(frame.Settings, 0, 0, 0, 3, 0, 0, 0, 128)
	settled  = packet(frame.Settings, frame.Ack, 0)
	okFive   = headers(0, 1, ":status", "200", "content-length", "5")
	fiveDone = data(frame.EndStream, 1, "hello")
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
		_, done, err := r.readBytes(b[:n])
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
	ack := len(packet(frame.Settings, frame.Ack, 0))
	ok := block(":status", "200", "content-length", "5")
	for _, c := range []struct {
		name, stream, want string
		replies            int // bytes
	}{
		{"plain", settings + settled + okFive + fiveDone, "", ack},
		{"no content-length", settings + headers(0, 1, ":status", "200") + fiveDone, "", ack},
		{"several DATA", settings + okFive + data(0, 1, "he") + data(0, 1, "") + data(0, 1, "llo") + data(1, 1, ""), "", ack},
		{"padded DATA", settings + okFive + packet(frame.Data, frame.Padded|frame.EndStream, 1,
			[]byte("\x03hello\x00\x00\x00")...),
			"", ack},
		{"only padding", settings + okFive + data(0, 1, "hello") +
			packet(frame.Data, frame.Padded|frame.EndStream, 1, []byte("\x02\x00\x00")...), "", ack},
		{"no padding, but padded", settings + okFive + packet(frame.Data, frame.Padded|frame.EndStream, 1,
			[]byte("\x00hello")...),
			"", ack},
		{"too much padding", settings + okFive + packet(frame.Data, frame.Padded, 1, 2, 'x'), "malformed response", ack},
		{"no room for padding", settings + okFive + packet(frame.Data, frame.Padded, 1), "malformed response", ack},
		{"padding and priority", settings + packet(frame.Headers, frame.Padded|frame.HasPriority|frame.EndHeaders, 1,
			append(append([]byte{2, 0, 0, 0, 0, 9}, ok...), 0, 0)...) + fiveDone, "", ack},
		{"HEADERS without room for padding", settings + packet(frame.Headers, frame.Padded|frame.EndHeaders, 1),
			"malformed response",
			ack},
		{"HEADERS with too much padding", settings + packet(frame.Headers, frame.Padded|frame.EndHeaders, 1, 3, 0x88),
			"malformed response", ack},
		{"CONTINUATION", settings + packet(frame.Headers, 0, 1, ok[:1]...) + packet(frame.Continuation, 0, 1, ok[1:3]...) +
			packet(frame.Continuation, frame.EndHeaders, 1, ok[3:]...) + fiveDone, "", ack},
		{"CONTINUATION without a body", settings + packet(frame.Headers, frame.EndStream, 1, block(":status", "404")...) +
			packet(frame.Continuation, frame.EndHeaders, 1), "status 404", ack},
		{"an interrupted header", settings + packet(frame.Headers, 0, 1, ok[:1]...) + settled, "malformed response", ack},
		{"CONTINUATION of nothing", settings + packet(frame.Continuation, frame.EndHeaders, 1, ok...),
			"malformed response", ack},
		{"CONTINUATION without end", settings + packet(frame.Headers, 0, 1, make([]byte, frame.MaxPayload)...) +
			packet(frame.Continuation, 0, 1, 0), "malformed response", ack},
		{"trailers", settings + okFive + data(0, 1, "hello") + headers(frame.EndStream, 1, "sum", "1"), "", ack},
		{"trailers with a status", settings + okFive + headers(frame.EndStream, 1, ":status", "200"),
			"malformed response", ack},
		{"trailers that do not end", settings + okFive + headers(0, 1, "sum", "1"), "malformed response", ack},
		{"wrong body", settings + okFive + data(frame.EndStream, 1, "hellO"), "wrong body", ack},
		{"short body", settings + okFive + data(frame.EndStream, 1, "hell"), "short body", ack},
		{"no body", settings + headers(frame.EndStream, 1, ":status", "200", "content-length", "5"), "short body", ack},
		{"long body", settings + okFive + data(frame.EndStream, 1, "hello!"), "malformed response", ack},
		{"long body without content-length", settings + headers(0, 1, ":status", "200") + data(frame.EndStream, 1, "hello!"),
			"wrong body", ack},
		{"404", settings + headers(0, 1, ":status", "404") + data(frame.EndStream, 1, "no"), "status 404", ack},
		{"418, a literal in Huffman code", settings + headers(frame.EndStream, 1, ":status", "418"), "status 418", ack},
		{"418, a literal", settings + packet(frame.Headers, 5, 1, []byte("\x08\x03418")...), "status 418", ack},
		{"a literal to be indexed", settings + packet(frame.Headers, 5, 1, []byte("\x20\x48\x03418\x40\x01a\x01b")...),
			"status 418", ack},
		{"a dynamic index", settings + packet(frame.Headers, 5, 1, 0x88, 0x80|62), "malformed response", ack},
		{"a larger table", settings + packet(frame.Headers, 5, 1, 0x21, 0x88), "malformed response", ack},
		{"a cut field", settings + packet(frame.Headers, 5, 1, 0x88, 0x0f), "malformed response", ack},
		{"304", settings + headers(frame.EndStream, 1, ":status", "304", "content-length", "5"), "status 304", ack},
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
		{"PING", settings + packet(frame.Ping, 0, 0, []byte("12345678")...) + okFive + packet(frame.Ping, frame.Ack, 0,
			[]byte("12345678")...) + fiveDone, "", ack + frame.HeadLength + 8},
		{"PING after the response", settings + okFive + fiveDone + packet(frame.Ping, 0, 0, []byte("12345678")...), "",
			ack + frame.HeadLength + 8},
		{"a short PING", settings + packet(frame.Ping, 0, 0, 1), "malformed response", ack},
		{"PING on a stream", settings + packet(frame.Ping, 0, 1, []byte("12345678")...), "malformed response", ack},
		{"SETTINGS twice", settings + okFive + settings + fiveDone, "", 2 * ack},
		{"no settings", packet(frame.Settings, 0, 0) + okFive + fiveDone, "", ack},
		{"SETTINGS on a stream", settings + packet(frame.Settings, 0, 1), "malformed response", ack},
		{"incomplete SETTINGS", settings + packet(frame.Settings, 0, 0, 0, 1, 0, 0, 0), "malformed response", ack},
		{"ACK with settings", settings + packet(frame.Settings, frame.Ack, 0, 0, 3, 0, 0, 0, 1), "malformed response", ack},
		{"push enabled", settings + packet(frame.Settings, 0, 0, 0, 2, 0, 0, 0, 1), "malformed response", ack},
		{"a window that is too large", settings + packet(frame.Settings, 0, 0, 0, 4, 0x80, 0, 0, 0),
			"malformed response", ack},
		{"frames that are too short", settings + packet(frame.Settings, 0, 0, 0, 5, 0, 0, 1, 0), "malformed response", ack},
		{"WINDOW_UPDATE", settings + packet(frame.WindowUpdate, 0, 0, 0, 0, 0, 9) + okFive +
			packet(frame.WindowUpdate, 0, 1, 0, 0, 0, 9) +
			fiveDone, "", ack},
		{"WINDOW_UPDATE by 0", settings + packet(frame.WindowUpdate, 0, 0, 0x80, 0, 0, 0), "malformed response", ack},
		{"PRIORITY", settings + packet(frame.Priority, 0, 3, 0, 0, 0, 0, 1) + okFive + fiveDone, "", ack},
		{"a short PRIORITY", settings + packet(frame.Priority, 0, 3), "malformed response", ack},
		{"an unknown frame", settings + packet(0xfa, 0xff, 7, 1, 2, 3) + packet(0xfa, 0, 0) + okFive + fiveDone, "", ack},
		{"PUSH_PROMISE", settings + packet(frame.PushPromise, frame.EndHeaders, 1, 0, 0, 0, 2, 0x88),
			"malformed response", ack},
		{"RST_STREAM", settings + packet(frame.Reset, 0, 1, 0, 0, 0, 7), "stream reset: REFUSED_STREAM", ack},
		{"RST_STREAM in the body", settings + okFive + data(0, 1, "he") + packet(frame.Reset, 0, 1, 0, 0, 0, 2),
			"stream reset: INTERNAL_ERROR", ack},
		{"RST_STREAM without a known code", settings + packet(frame.Reset, 0, 1, 0xff, 0, 0, 7),
			"stream reset: unknown code", ack},
		{"RST_STREAM after the response", settings + okFive + fiveDone + packet(frame.Reset, 0, 1, 0, 0, 0, 0), "", ack},
		{"RST_STREAM of a stream that was not opened", settings + packet(frame.Reset, 0, 3, 0, 0, 0, 0),
			"malformed response", ack},
		{"a short RST_STREAM", settings + packet(frame.Reset, 0, 1, 0, 0, 0), "malformed response", ack},
		{"GOAWAY after this response", settings + packet(frame.GoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0) +
			okFive + fiveDone, "", ack},
		{"GOAWAY before this request", settings + packet(frame.GoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
			"connection closed", ack},
		{"GOAWAY by an error", settings + packet(frame.GoAway, 0, 0, append([]byte{0, 0, 0, 1, 0, 0, 0, 11}, "why"...)...),
			"server sent GOAWAY: ENHANCE_YOUR_CALM", ack},
		{"GOAWAY after the response", settings + okFive + fiveDone + packet(frame.GoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1), "",
			ack},
		{"a short GOAWAY", settings + packet(frame.GoAway, 0, 0, 0), "malformed response", ack},
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
				r := conversation(expecting(5, SumOf([]byte("hello"))))
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
		case frame.Headers:
			fields, err := hpack.NewDecoder(0, nil).DecodeFull(f.payload)
			if err != nil || f.flags != frame.EndStream|frame.EndHeaders {
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
	if _, err := prepareFrame("http", "h", "/"+strings.Repeat("~", frame.MaxPayload)); err == nil {
		t.Error("a request that is too long for a frame was accepted")
	}
}

// A connection is replaced before its stream identifiers run out, its window is
// enlarged as bodies arrive, and a flood of frames ends it.
func TestLimitsOfAConnection(t *testing.T) {
	e := expecting(5, SumOf([]byte("hello")))
	e.request = mustFrame(t)
	r := conversation(e)
	at := func() int { return frame.MaxPayload }
	if got := stepwise(r, settings+okFive+fiveDone, at); got != "" || r.closing() {
		t.Fatalf("%q, %v", got, r.closing())
	}
	r.rest = nil
	r.session.stream = frame.MaxStream - 2
	r.session.window = windowRefill - 5
	r.begin(e, false)
	r.rest = nil
	got := stepwise(r, headers(0, frame.MaxStream, ":status", "200")+data(frame.EndStream, frame.MaxStream, "hello"), at)
	if got != "" || !r.closing() || string(r.rest) != packet(frame.WindowUpdate, 0, 0, 0x40, 0, 0, 0) {
		t.Errorf("%q, closing %v, replies %q", got, r.closing(), r.rest)
	}
	for name, flood := range map[string]string{
		"PING": packet(frame.Ping, 0, 0, []byte("12345678")...), "DATA": data(0, 1, ""), "unknown": packet(0xfa, 0, 0),
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
	e := expecting(5, SumOf([]byte("hello")))
	e.request = mustFrame(t)
	r := conversation(e)
	stream, memo := settings, ""
	for i, status := range []string{"200", "200", "404", "200"} {
		id := uint32(2*i + 1)
		if i > 0 {
			r.begin(e, false)
			stream = ""
		}
		stream += headers(0, id, ":status", status, "content-length", "5") + data(frame.EndStream, id, "hello")
		want := strings.TrimSuffix("status "+status, "status 200")
		if got := stepwise(r, stream, func() int { return frame.MaxPayload }); got != want {
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
		settings + packet(frame.Headers, 0, 1, 0x88) + packet(frame.Continuation, frame.EndHeaders, 1) + fiveDone,
		settings + okFive + packet(frame.Data, frame.Padded|frame.EndStream, 1, []byte("\x03hello\x00\x00\x00")...) + settled,
		settings + packet(frame.Reset, 0, 1, 0, 0, 0, 7) + packet(frame.Ping, 0, 0, []byte("12345678")...),
		settings + okFive + data(0, 1, "hello") + headers(frame.EndStream, 1, "sum", "1"),
		settings + packet(frame.Headers, 5, 1, []byte("\x20\x48\x03418\x40\x01a\x01b")...),
		settings + packet(frame.GoAway, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0) + packet(0xfa, 0, 0) + okFive + fiveDone,
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
		if len(whole.session.carry) > frame.HeadLength+frame.MaxPayload || len(whole.session.block) > maxHead ||
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
		pads := f.kind == frame.Data || f.kind == frame.Headers
		if pads && f.flags&frame.Padded != 0 {
			payload = payload[1 : len(payload)-int(payload[0])]
		}
		if f.kind == frame.Headers && f.flags&frame.HasPriority != 0 {
			payload = payload[5:]
		}
		switch f.kind {
		case frame.Headers, frame.Continuation:
			header = append(header, payload...)
			if f.flags&frame.EndHeaders == 0 || status != "" {
				continue
			}
			fields, err := hpack.NewDecoder(0, nil).DecodeFull(header)
			if err != nil {
				return "", nil, err
			}
			status = fields[0].Value
		case frame.Data:
			body = append(body, payload...)
			if f.flags&frame.EndStream != 0 {
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
					if kind == frame.Headers && !script(c, stream, requests.Add(1)-1) {
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
	_, err := io.WriteString(c, headers(0, stream, ":status", "200")+data(frame.EndStream, stream, hello))
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
		{"status 404", func(n uint32) string { return headers(frame.EndStream, n, ":status", "404") }, true},
		{"wrong body", func(n uint32) string { return ok(n) + data(frame.EndStream, n, "hello, World") }, true},
		{"short body", func(n uint32) string { return ok(n) + data(frame.EndStream, n, "hello") }, true},
		{"short body", func(n uint32) string { return ok(n) + data(0, n, "hello") }, false},
		{"stream reset: CANCEL", func(n uint32) string { return ok(n) + packet(frame.Reset, 0, n, 0, 0, 0, 8) }, true},
		{"malformed response", func(n uint32) string { return ok(n) + ok(n) }, true},
		{"malformed response", func(n uint32) string { return ok(n) + data(1, n, hello) + data(1, n, hello) }, true},
		{"connection closed", func(uint32) string { return "" }, false},
		{"connection closed", func(uint32) string { return packet(frame.GoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true},
		{"server sent GOAWAY: PROTOCOL_ERROR", func(n uint32) string {
			return packet(frame.GoAway, 0, 0, binary.BigEndian.AppendUint64(nil, uint64(n)<<32|1)...)
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
				io.WriteString(c, packet(frame.GoAway, 0, 0, binary.BigEndian.AppendUint64(nil, uint64(stream)<<32)...))
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
	sum, cert := selfSigned(t)
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
		for _, args := range []string{"rate=400/s", "path=/long length=-1 sha256=" + SumOf([]byte(long))} {
			for _, to := range []struct{ addr, args string }{
				{s.Listener.Addr().String(), "threads=2"},
				{secure.Listener.Addr().String(), "tls=true certificate=" + sum},
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
	sum, cert := selfSigned(t)
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
			r := generate(t, l.Addr().String(), "protocol=http/2", "tls=true", "certificate="+sum, "time=50ms",
				"connections=2", "engine="+engine)
			if r.Errors[string(errNotNegotiated)] == 0 || len(r.Errors) > 1 || r.Work > 0 {
				t.Errorf("%s, a server that offers %q: errors %v", engine, offers, r.Errors)
			}
		}
	}
}

// The responder answers the native generator over HTTP/2, on kept and on new
// connections, with pages that need several frames. The generator verifies every byte.
func TestResponderOverHTTP2(t *testing.T) {
	for _, x := range []struct {
		size      int64
		keepalive bool
	}{{webroot.MinPage, true}, {webroot.MinPage, false}, {3*frame.MaxPayload + 5, true}} {
		page := webroot.Page(x.size).Home().Body
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			responder.Serve(l, time.Now().Add(5*time.Minute), http.Two, page)
		}()
		r := generate(t, l.Addr().String(), "protocol="+http.Two, "time=100ms", "connections=4", "timeout=1m",
			fmt.Sprintf("keepalive=%v", x.keepalive), fmt.Sprintf("length=%d", len(page)),
			fmt.Sprintf("sha256=%x", sha256.Sum256(page)))
		if why := http.Failed(r); why != "" || r.Work < 4 || len(r.Errors) > 0 {
			t.Errorf("%d bytes, keepalive %v: %q, %g responses, errors %v", len(page), x.keepalive, why, r.Work, r.Errors)
		}
		l.Close()
		<-ended
	}
}
