package runner

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"golang.org/x/net/http2/hpack"
)

// fixedFrames is a page over HTTP/2, with the fields of fixedResponse: the frames of a
// response, whose stream identifiers are set for each request.
func fixedFrames(page []byte) []byte {
	b := bytes.NewBuffer(make([]byte, frameHead))
	e := hpack.NewEncoder(b)
	e.SetMaxDynamicTableSize(0)
	for _, f := range []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "server", Value: "nginx/1.22.1"},
		{Name: "date", Value: "Sat, 21 Nov 2026 12:00:00 GMT"}, {Name: "content-type", Value: "text/html"},
		{Name: "content-length", Value: fmt.Sprint(len(page))}, {Name: "last-modified",
			Value: "Sat, 21 Nov 2026 12:00:00 GMT"},
		{Name: "etag", Value: fmt.Sprintf("\"6740c0c0-%x\"", len(page))}, {Name: "accept-ranges", Value: "bytes"}} {
		_ = e.WriteField(f) // into memory
	}
	out := b.Bytes()
	putFrame(out, len(out)-frameHead, frameHeaders, flagEndHeaders, 0)
	for {
		n := min(len(page), maxFrame)
		flags := byte(0)
		if n == len(page) {
			flags = flagEndStream
		}
		at := len(out)
		out = append(append(out, make([]byte, frameHead)...), page[:n]...)
		putFrame(out[at:], n, frameData, flags, 0)
		if page = page[n:]; len(page) == 0 {
			return out
		}
	}
}

// connectionPreface is how a connection of HTTP/2 begins; frames follow.
const connectionPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// answerFrames answers the requests of one connection over HTTP/2 (prior knowledge) with
// the frames of response until the other side closes it. It does not count the client's
// window: the native generator opens the largest one.
func answerFrames(c io.ReadWriter, response []byte) {
	start := make([]byte, len(connectionPreface))
	if _, err := io.ReadFull(c, start); err != nil || string(start) != connectionPreface {
		return
	}
	response = bytes.Clone(response) // its stream identifiers change
	out := make([]byte, frameHead, 4<<10)
	putFrame(out, 0, frameSettings, 0, 0)
	buf := make([]byte, 2*(frameHead+maxFrame))
	have := 0
	for {
		if len(out) > 0 {
			if _, err := c.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		n, err := c.Read(buf[have:])
		have += n
		rest := buf[:have]
		for len(rest) >= frameHead {
			length := int(binary.BigEndian.Uint32(rest) >> 8)
			if length > maxFrame {
				return
			}
			if len(rest) < frameHead+length {
				break
			}
			kind, flags, payload := rest[3], rest[4], rest[frameHead:frameHead+length]
			switch {
			case kind == frameHeaders && flags&flagEndHeaders != 0:
				out = append(out, addressed(response, binary.BigEndian.Uint32(rest[5:])&maxStream)...)
			case (kind == frameSettings || kind == framePing) && flags&flagAck == 0:
				at := len(out)
				out = append(out, make([]byte, frameHead)...)
				if kind == framePing {
					out = append(out, payload...)
				}
				putFrame(out[at:], len(out)-at-frameHead, kind, flagAck, 0)
			case kind == frameGoAway:
				return
			}
			rest = rest[frameHead+length:]
		}
		have = copy(buf, rest)
		if err != nil {
			return
		}
	}
}

// addressed sets the stream identifier of every frame of a response.
func addressed(response []byte, stream uint32) []byte {
	for at := 0; at < len(response); {
		binary.BigEndian.PutUint32(response[at+5:], stream)
		at += frameHead + int(binary.BigEndian.Uint32(response[at:])>>8)
	}
	return response
}
