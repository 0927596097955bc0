package runner

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/reach/wire"
)

// responderName is the agent's hidden subcommand that answers every request
// with the same bytes: a server without work.
const responderName = "http-responder"

// maxResponders bounds the connections of a responder.
const maxResponders = 20000

// runResponder listens at --listen, prints "ready ADDRESS", and answers until
// its time is up or it is killed.
func runResponder(args []string) int {
	f := flag.NewFlagSet(responderName, flag.ContinueOnError)
	listen := f.String("listen", "", "address to listen at")
	size := f.Int64("page", webroot.MinPage, "size of the page in bytes")
	workers := f.Int("workers", 1, "CPUs to use")
	protocol := f.String("protocol", http.One, "protocol of the requests")
	limit := f.Duration("for", time.Minute, "when to end at the latest")
	if f.Parse(args) != nil || *size < webroot.MinPage || *size > maxBody || *workers < 1 ||
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
	answer := answerAll
	if *protocol == http.Two {
		answer = answerFrames
	}
	respond(l, time.Now().Add(*limit), answerOf(*protocol, webroot.Page(*size).Home().Body), answer)
	return wire.ExitOK
}

// answerOf is the response to every request of a protocol.
func answerOf(protocol string, page []byte) []byte {
	if protocol == http.Two {
		return fixedFrames(page)
	}
	return fixedResponse(page)
}

// respond answers every request at l with response until l is closed.
func respond(l net.Listener, until time.Time, response []byte, answer func(c io.ReadWriter, response []byte)) {
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

// fixedResponse is a page with a header as long as nginx's.
func fixedResponse(page []byte) []byte {
	head := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 12:00:00 "+
		"GMT\r\nContent-Type: text/html\r\nContent-Length: %d\r\n"+
		"Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\nConnection: keep-alive\r\nETag: "+
		"\"6740c0c0-%x\"\r\nAccept-Ranges: bytes\r\n\r\n", len(page), len(page))
	return append(head, page...)
}
