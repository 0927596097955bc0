// Package frame has the layout of HTTP/2 frames (RFC 9113, 4.1 and 6).
package frame

import "encoding/binary"

// The types of frames.
const (
	Data = iota
	Headers
	Priority
	Reset
	Settings
	PushPromise
	Ping
	GoAway
	WindowUpdate
	Continuation
)

// The flags of frames.
const (
	Ack         = 0x1 // of SETTINGS and PING
	EndStream   = 0x1
	EndHeaders  = 0x4
	Padded      = 0x8
	HasPriority = 0x20
)

const (
	// HeadLength is the length of what precedes the payload of a frame.
	HeadLength = 9
	// MaxPayload bounds a payload. No side may exceed this initial value of
	// SETTINGS_MAX_FRAME_SIZE.
	MaxPayload = 16 << 10
	// MaxStream is the highest stream identifier.
	MaxStream = 1<<31 - 1
	// Preface is how a client begins a connection; frames follow.
	Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// Put writes what precedes a payload of length bytes.
func Put(b []byte, length int, kind, flags byte, stream uint32) {
	binary.BigEndian.PutUint32(b, uint32(length)<<8|uint32(kind))
	b[4] = flags
	binary.BigEndian.PutUint32(b[5:], stream)
}
