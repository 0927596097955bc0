// Package responder is a web server that does no work: it answers every request with the
// same bytes, so that the rate of requests is what the network path can carry.
package responder

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/http/frame"
	"bakeoff/reach/wire"
)

// Name is the agent's hidden subcommand that answers every request with the same bytes.
const Name = "http-responder"

// maxPage bounds the page, in bytes.
const maxPage = 64 << 20

// maxResponders bounds the connections of a responder.
const maxResponders = 20000

// Run listens at --listen, prints "ready ADDRESS", and answers until
// its time is up or it is killed.
func Run(args []string) int {
	f := flag.NewFlagSet(Name, flag.ContinueOnError)
	listen := f.String("listen", "", "address to listen at")
	size := f.Int64("page", webroot.MinPage, "size of the page in bytes")
	workers := f.Int("workers", 1, "CPUs to use")
	protocol := f.String("protocol", http.One, "protocol of the requests")
	limit := f.Duration("for", time.Minute, "when to end at the latest")
	if f.Parse(args) != nil || *size < webroot.MinPage || *size > maxPage || *workers < 1 ||
		*protocol != http.One && *protocol != http.Two {
		return wire.ExitInvalid
	}
	runtime.GOMAXPROCS(*workers)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return wire.ExitLab
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	fmt.Println("ready", l.Addr())
	Serve(l, time.Now().Add(*limit), *protocol, webroot.Page(*size).Home().Body)
	return wire.ExitOK
}

// Response returns the response to every request of a protocol.
func Response(protocol string, page []byte) []byte {
	if protocol == http.Two {
		return fixedFrames(page)
	}
	return fixedResponse(page)
}

// Serve answers every request at l with page until l is closed. Connections end at until.
func Serve(l net.Listener, until time.Time, protocol string, page []byte) {
	response, answer := Response(protocol, page), answerAll
	if protocol == http.Two {
		answer = answerFrames
	}
	var open atomic.Int64
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if open.Add(1) > maxResponders {
			open.Add(-1)
			c.Close()
			continue
		}
		_ = c.SetDeadline(until)
		go func() {
			defer open.Add(-1)
			defer c.Close()
			answer(c, response)
		}()
	}
}

// endOfRequest ends the head of a request; there is no body.
const endOfRequest = "\r\n\r\n"

// answerAll answers the requests of one connection until the other side closes
// it or requests that.
func answerAll(c io.ReadWriter, response []byte) {
	buf := make([]byte, 4<<10)
	have := 0
	for {
		n, err := c.Read(buf[have:])
		have += n
		for {
			head, rest, ok := bytes.Cut(buf[:have], []byte(endOfRequest))
			if !ok {
				break
			}
			last := bytes.Contains(head, []byte("\r\nConnection: close"))
			if _, err := c.Write(response); err != nil || last {
				return
			}
			have = copy(buf, rest)
		}
		if err != nil || have == len(buf) {
			return
		}
	}
}

// responseFields are those of every response, as nginx has them.
func responseFields(page []byte) []hpack.HeaderField {
	const date = "Sat, 21 Nov 2026 12:00:00 GMT"
	return []hpack.HeaderField{{Name: "Server", Value: "nginx/1.22.1"}, {Name: "Date", Value: date},
		{Name: "Content-Type", Value: "text/html"}, {Name: "Content-Length", Value: strconv.Itoa(len(page))},
		{Name: "Last-Modified", Value: date}, {Name: "ETag", Value: fmt.Sprintf("\"6740c0c0-%x\"", len(page))},
		{Name: "Accept-Ranges", Value: "bytes"}}
}

// fixedResponse is a page over HTTP/1.1.
func fixedResponse(page []byte) []byte {
	head := []byte("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n")
	for _, f := range responseFields(page) {
		head = fmt.Appendf(head, "%s: %s\r\n", f.Name, f.Value)
	}
	return append(append(head, "\r\n"...), page...)
}

// fixedFrames is a page over HTTP/2: frames whose stream identifiers are set for each
// request.
func fixedFrames(page []byte) []byte {
	b := bytes.NewBuffer(make([]byte, frame.HeadLength))
	e := hpack.NewEncoder(b)
	e.SetMaxDynamicTableSize(0)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"}) // into memory, like the others
	for _, f := range responseFields(page) {
		_ = e.WriteField(hpack.HeaderField{Name: strings.ToLower(f.Name), Value: f.Value})
	}
	out := b.Bytes()
	frame.Put(out, len(out)-frame.HeadLength, frame.Headers, frame.EndHeaders, 0)
	for {
		n := min(len(page), frame.MaxPayload)
		flags := byte(0)
		if n == len(page) {
			flags = frame.EndStream
		}
		at := len(out)
		out = append(append(out, make([]byte, frame.HeadLength)...), page[:n]...)
		frame.Put(out[at:], n, frame.Data, flags, 0)
		if page = page[n:]; len(page) == 0 {
			return out
		}
	}
}

// answerFrames answers the requests of one connection over HTTP/2 (prior knowledge) with
// the frames of response until the other side closes it. It does not count the client's
// window: the native generator opens the largest one.
func answerFrames(c io.ReadWriter, response []byte) {
	start := make([]byte, len(frame.Preface))
	if _, err := io.ReadFull(c, start); err != nil || string(start) != frame.Preface {
		return
	}
	response = bytes.Clone(response) // its stream identifiers change
	out := make([]byte, frame.HeadLength, 4<<10)
	frame.Put(out, 0, frame.Settings, 0, 0)
	buf := make([]byte, 2*(frame.HeadLength+frame.MaxPayload))
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
		for len(rest) >= frame.HeadLength {
			length := int(binary.BigEndian.Uint32(rest) >> 8)
			if length > frame.MaxPayload {
				return
			}
			if len(rest) < frame.HeadLength+length {
				break
			}
			kind, flags, payload := rest[3], rest[4], rest[frame.HeadLength:frame.HeadLength+length]
			switch {
			case kind == frame.Headers && flags&frame.EndHeaders != 0:
				out = append(out, addressed(response, binary.BigEndian.Uint32(rest[5:])&frame.MaxStream)...)
			case (kind == frame.Settings || kind == frame.Ping) && flags&frame.Ack == 0:
				at := len(out)
				out = append(out, make([]byte, frame.HeadLength)...)
				if kind == frame.Ping {
					out = append(out, payload...)
				}
				frame.Put(out[at:], len(out)-at-frame.HeadLength, kind, frame.Ack, 0)
			case kind == frame.GoAway:
				return
			}
			rest = rest[frame.HeadLength+length:]
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
		at += frame.HeadLength + int(binary.BigEndian.Uint32(response[at:])>>8)
	}
	return response
}
