// Package channel reaches an agent over one byte stream that both ends share:
// a virtio-serial port, a serial line, a pair of pipes.
//
// Both ends first find each other (Greet, Answer), even if an earlier session
// left bytes in the line. Then yamux multiplexes the stream, and every request
// is a stream of its own that carries frames. The host sends requests and the
// agent answers; see Request.
package channel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// The types of a frame. A stream begins with one Ask frame from the host and
// ends with one Result or Fault frame from the agent; a dialed connection
// continues after its Result until one side closes the stream.
const (
	FrameAsk    byte = 'q' // host to agent: a Request as JSON
	FrameInput  byte = 'i' // host to agent: standard input, file, connection
	FrameOutput byte = 'o' // agent to host: standard output, file, connection
	FrameErrput byte = 'e' // agent to host: standard error
	FrameEOF    byte = 'z' // either: no more of FrameInput or FrameOutput
	FrameResult byte = 'x' // agent to host: a Result as JSON
	FrameFault  byte = 'f' // agent to host: a Fault as JSON
)

// MaxPayload is the maximum payload of one frame, in bytes. The agent refuses a
// request that does not fit (an argument vector of a megabyte).
const MaxPayload = 1 << 20

// HeaderSize is the size of a frame's header in bytes: the type and the length
// of the payload, big-endian.
const HeaderSize = 5

// ChunkSize is how much data one frame carries, in bytes: the capacity of a
// pipe on Linux.
const ChunkSize = 64 << 10

// AppendFrame appends a frame to b.
func AppendFrame(b []byte, kind byte, payload []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// PutHeader writes the header of a frame whose payload of n bytes follows it in
// b, so that data can be read directly into place.
func PutHeader(b []byte, kind byte, n int) {
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(n))
}

// ReadFrame reads one frame. The payload lies in buf, which grows as needed up
// to MaxPayload; pass grown to the next call. The end of the stream is io.EOF
// between two frames, and io.ErrUnexpectedEOF within one.
func ReadFrame(r io.Reader, buf []byte) (kind byte, payload, grown []byte, err error) {
	var header [HeaderSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, buf, err
	}
	switch header[0] {
	case FrameAsk, FrameInput, FrameOutput, FrameErrput, FrameEOF, FrameResult, FrameFault:
	default:
		return 0, nil, buf, fmt.Errorf("channel: unknown frame type %#x", header[0])
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > MaxPayload {
		return 0, nil, buf, fmt.Errorf("channel: the frame has %d bytes; the limit is %d", n, MaxPayload)
	}
	if int(n) > cap(buf) {
		buf = make([]byte, max(int(n), 4<<10))
	}
	buf = buf[:cap(buf)]
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, buf, err
	}
	return header[0], buf[:n], buf, nil
}

// The operations of a Request.
const (
	OpExec = "exec" // run Argv; FrameInput is its input
	OpPush = "push" // write the whole file Path from FrameInput
	OpPull = "pull" // read Path as FrameOutput
	OpDial = "dial" // connect to Address
	OpCall = "call" // call the function Name with Params
	// OpKill ends the request with this ID and kills what it started. It is
	// a request of its own, because a program that does not read its input
	// blocks the stream that feeds it.
	OpKill = "kill"
)

// Request is what the host sends.
type Request struct {
	Op string `json:"op"`
	// ID is the host's own number for the request, for OpKill.
	ID uint64 `json:"id"`
	// exec
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	// Group is that of conn.Cmd.
	Group string `json:"group,omitempty"`
	// Input says that FrameInput follows; if false, the input is empty.
	Input bool `json:"input,omitempty"`
	// push, pull
	Path string `json:"path,omitempty"`
	Mode uint32 `json:"mode,omitempty"` // permission bits
	// dial
	Network string `json:"network,omitempty"`
	Address string `json:"address,omitempty"`
	// call
	Name   string          `json:"name,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Result is the answer to a request that was carried out.
type Result struct {
	// exec
	Code   int    `json:"code,omitempty"`
	Signal string `json:"signal,omitempty"`
	// dial
	Local  string `json:"local,omitempty"`
	Remote string `json:"remote,omitempty"`
	// call
	Value json.RawMessage `json:"value,omitempty"`
}

// Fault is the answer to a request that could not be carried out.
type Fault struct {
	Kind    string `json:"kind"` // fault.Kind as text
	Message string `json:"message"`
}
