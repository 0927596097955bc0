package workload

import (
	"bakeoff/base/facts"
	"bakeoff/base/lists"
	"bakeoff/reach/wire"
)

// PathBlob is the blob of a Path.
const PathBlob = "path.json"

// PathSchema is the schema of a Path, and OlderPathSchema that of older run folders, whose
// gates count what the whole machine did as that of the environment.
const (
	PathSchema      = "bakeoff/path/v2"
	OlderPathSchema = "bakeoff/path/v1"
)

// Path is what the network path between the load generator and an environment
// can carry: the throughput of the same generator against a responder there
// that only answers, measured before the first trial.
type Path struct {
	Schema string `json:"schema"`
	// PerSecond and BytesPerSecond are the maximum rate of responses of the
	// trial's size, and of their bytes; 0 if it could not be measured, for
	// the reason in Reason.
	PerSecond      float64 `json:"responses_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// ReceivedPerSecond and SentPerSecond are the bytes per second that the interface of the
	// generator carried meanwhile, headers included; 0 if unknown.
	Interface         string  `json:"interface,omitempty"`
	ReceivedPerSecond float64 `json:"received_bytes_per_second,omitempty"`
	SentPerSecond     float64 `json:"sent_bytes_per_second,omitempty"`
	Connections       int     `json:"connections"`
	// Workers is the number of CPUs that the server of the trials can use.
	Workers int `json:"workers"`
	// Utilisation is the generator's during the measurement, 0 to 1.
	Utilisation float64 `json:"generator_utilisation"`
	Reason      string  `json:"reason,omitempty"`
}

// Carried returns the bytes that an interface received and sent in a span: the one called
// name or, if name is "", the busiest one. Without such an interface all are zero.
func Carried(s wire.Span, name string) (received, sent float64, of string) {
	before := lists.Index(s.Before.Interfaces, func(i facts.Interface) string { return i.Name })
	for _, i := range s.After.Interfaces {
		b := before[i.Name]
		if name != "" && i.Name != name || i.ReceivedBytes < b.ReceivedBytes || i.SentBytes < b.SentBytes {
			continue
		}
		r, w := float64(i.ReceivedBytes-b.ReceivedBytes), float64(i.SentBytes-b.SentBytes)
		if r+w > received+sent {
			received, sent, of = r, w, i.Name
		}
	}
	return received, sent, of
}
