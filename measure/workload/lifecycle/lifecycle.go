// Package lifecycle measures the creation of an environment, its first process,
// and its destruction: the cost that matters for short-lived environments.
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
// request for the environment.
type Marks struct {
	Schema string `json:"schema"`
	// Up: it answers. First: a first process in it has ended.
	UpNS    int64 `json:"up_ns"`
	FirstNS int64 `json:"first_ns"`
	GoneNS  int64 `json:"gone_ns"` // it is removed completely
}

const (
	// Schema is that of Marks, and Blob their name.
	Schema = "bakeoff/lifecycle/v1"
	Blob   = "marks.json"
)

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	first := sample.LowerRatio("first-process", "s",
		"from the request for an environment until a first process in it has ended")
	first.Primary = true
	return workload.Doc{
		Name: "lifecycle", Parser: 1,
		Summary: "How long it takes to create an environment, to run a first process in it, and to remove it",
		Metrics: []sample.Metric{
			first,
			sample.LowerRatio("create", "s", "from the request for an environment until the environment answers"),
			sample.LowerRatio("destroy", "s", "from the request to remove the environment until it is removed "+
				"completely"),
			sample.LowerRatio("total", "s", "from the request for an environment until it is removed completely"),
		},
		State: workload.Fresh, Cache: "warm",
		Time: func(param.Values) time.Duration { return 100 * time.Millisecond }, // without the environment itself
		Source: []string{"bakeoff takes the times on the host's monotonic clock; the process is `bakeoff-agent " +
			"list`, the same binary for all contenders"},
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
	if !(0 < m.UpNS && m.UpNS <= m.FirstNS && m.FirstNS < m.GoneNS) {
		return nil, fault.New(fault.Invalid, "%s: the times are not ascending: %s", Blob, fmt.Sprint(m.UpNS,
			m.FirstNS, m.GoneNS))
	}
	value := func(name string, ns int64) sample.Value {
		return sample.Value{Metric: name, Unit: "s", Value: float64(ns) / 1e9}
	}
	return []sample.Value{value("first-process", m.FirstNS), value("create", m.UpNS),
		value("destroy", m.GoneNS-m.FirstNS), value("total", m.GoneNS)}, nil
}
