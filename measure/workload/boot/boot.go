// Package boot measures how long an environment takes until it is ready, and until it is
// removed, from outside: nothing is started in it, so it needs no agent.
package boot

import (
	"fmt"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/base/unit"
	"bakeoff/measure/workload"
)

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Workload describes the workload and reads its trials.
type Workload struct{}

// Marks is the blob of a trial: nanoseconds on the host's clock since the request for the
// environment.
type Marks struct {
	Schema string `json:"schema"`
	// Ready: its driver says that it is ready.
	ReadyNS int64 `json:"ready_ns"`
	// Left and Gone: its removal began and ended.
	LeftNS int64 `json:"left_ns"`
	GoneNS int64 `json:"gone_ns"`
	// Counts are readings of the instruction clock in the order of the boot, the end of
	// the boot last; empty on other clocks.
	Counts []Count `json:"counts,omitempty"`
}

// Count is a moment on the instruction clock.
type Count struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // instructions since the first one of the machine
}

const (
	// Schema is that of Marks, and Blob their name.
	Schema = "bakeoff/boot/v1"
	Blob   = "marks.json"
	// Instructions is the metric of guests on the instruction clock.
	Instructions = "instructions"
)

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	ready := sample.LowerRatio("ready", "s", "from the request for an environment until it is ready: until its agent "+
		"answers, or until what the option ready of the driver names was seen from outside")
	ready.Primary = true
	instructions := sample.LowerRatio(Instructions, unit.Instruction, "from the first instruction of the machine until "+
		"the boot has ended, on the instruction clock (option clock of the driver qemu)")
	instructions.Exact = true
	return workload.Doc{
		Name: "boot", Parser: 1,
		Summary: "How long it takes until an environment is ready, measured from outside: it may be one without the agent",
		Metrics: []sample.Metric{
			ready,
			sample.LowerRatio("remove", "s", "from the request to remove it until it is removed completely"),
			instructions,
		},
		State: "fresh", Cache: "warm", Outside: true,
		Time:   func(param.Values) time.Duration { return 100 * time.Millisecond }, // without the environment itself
		Source: []string{"the controller takes the times on the host's monotonic clock"},
	}
}

// Parse reads the samples of a trial.
func (Workload) Parse(raw workload.Raw, _ param.Values) ([]sample.Value, error) {
	b, ok := raw[Blob]
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: %w", Blob, workload.ErrNoBlob)
	}
	var m Marks
	if err := strictjson.Decode(b, &m); err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", Blob, err)
	}
	if m.Schema != Schema {
		return nil, fault.New(fault.Invalid, "%s: schema is %q, but this program reads %q", Blob, m.Schema, Schema)
	}
	if !(0 < m.ReadyNS && m.ReadyNS <= m.LeftNS && m.LeftNS < m.GoneNS) {
		return nil, fault.New(fault.Invalid, "%s: times are not ascending: %s", Blob, fmt.Sprint(m.ReadyNS, m.LeftNS,
			m.GoneNS))
	}
	values := []sample.Value{{Metric: "ready", Unit: "s", Value: float64(m.ReadyNS) / 1e9},
		{Metric: "remove", Unit: "s", Value: float64(m.GoneNS-m.LeftNS) / 1e9}}
	last := int64(0)
	for _, c := range m.Counts {
		if c.At <= last {
			return nil, fault.New(fault.Invalid, "%s: the counts are not ascending at %d", Blob, c.At)
		}
		last = c.At
	}
	if last > 0 {
		values = append(values, sample.Value{Metric: Instructions, Unit: unit.Instruction, Value: float64(last)})
	}
	return values, nil
}
