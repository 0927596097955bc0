package workload

import "encoding/json"

// ProtocolBlob is the blob of a Protocol.
const ProtocolBlob = "protocol.json"

// ProtocolSchema is the schema of a Protocol.
const ProtocolSchema = "bakeoff/protocol/v1"

// Protocol is what a load generator and the server in an environment speak.
type Protocol struct {
	Schema string `json:"schema"`
	// Used is the protocol of every request, such as HTTP/1.1; "" if the generator
	// negotiates it and its output names it (Diagnostics.Protocol).
	Used string `json:"used,omitempty"`
	// Offered are the protocols that the server agreed to in TLS handshakes before the first
	// trial. Without TLS there is no negotiation, and they are unknown.
	Offered []string `json:"offered,omitempty"`
}

// KeepProtocol adds a Protocol to the raw output of a trial.
func (r Raw) KeepProtocol(p Protocol) error {
	p.Schema = ProtocolSchema
	b, err := json.Marshal(p)
	r.Keep(ProtocolBlob, b)
	return err
}

// The names of protocols, as their RFCs write them.
const (
	HTTP10 = "HTTP/1.0"
	HTTP11 = "HTTP/1.1"
	HTTP2  = "HTTP/2"
)
