// Package lifecycle measures how long an environment takes to come and to go:
// creation, its first process, destruction. For short-lived environments this
// is the price that counts.
package lifecycle

import (
	"fmt"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
)

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Workload describes the workload and reads its trials.
type Workload struct{}

// Marks is the blob of a trial: nanoseconds on the host's clock since the
// environment was asked for.
type Marks struct {
	Schema string `json:"schema"`
	// Up: it answered. First: a process in it had run and ended.
	UpNS    int64 `json:"up_ns"`
	FirstNS int64 `json:"first_ns"`
	GoneNS  int64 `json:"gone_ns"` // it was gone, with all that belonged to it
}

const (
	// Schema is that of Marks, and Blob their name.
	Schema = "bakeoff/lifecycle/v1"
	Blob   = "marks.json"
)

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	metric := func(name, doc string, primary bool) sample.Metric {
		return sample.Metric{Name: name, Unit: "s", Better: sample.Lower, Primary: primary, Scale: sample.Ratio, Doc: doc}
	}
	return workload.Doc{
		Name: "lifecycle", Parser: 1,
		Summary: "How long an environment takes to be created, to run its first process, and to be gone",
		Metrics: []sample.Metric{
			metric("first-process", "from asking for an environment until a first process in it has run and ended", true),
			metric("create", "from asking for an environment until it answers", false),
			metric("destroy", "from asking it to go until nothing of it is left", false),
			metric("total", "from asking for it until it is gone", false),
		},
		State: "fresh", Cache: "warm",
		Time:   func(param.Values) time.Duration { return 100 * time.Millisecond }, // beside the environment
		Source: []string{"the marks are set by the controller on the host's monotonic clock; the process is the agent's own `list`, the same bytes on every side"},
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
		return nil, fault.New(fault.Invalid, "%s: schema is %q, this program reads %q", Blob, m.Schema, Schema)
	}
	if !(0 < m.UpNS && m.UpNS <= m.FirstNS && m.FirstNS < m.GoneNS) {
		return nil, fault.New(fault.Invalid, "%s: its moments are not one after the other: %s", Blob, fmt.Sprint(m.UpNS, m.FirstNS, m.GoneNS))
	}
	value := func(name string, ns int64) sample.Value {
		return sample.Value{Metric: name, Unit: "s", Value: float64(ns) / 1e9}
	}
	return []sample.Value{value("first-process", m.FirstNS), value("create", m.UpNS), value("destroy", m.GoneNS-m.FirstNS), value("total", m.GoneNS)}, nil
}
