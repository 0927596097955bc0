// Package lifecycle measures how long an environment takes to come and to go:
// creation, its first process, destruction. For short-lived environments this
// is the price that counts.
package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/measure/workload"
	"bakeoff/reach/conn"
)

// New returns the workload.
func New() workload.Workload { return life{} }

type life struct{}

// marks is the blob of a trial: nanoseconds on the host's clock since the
// environment was asked for.
type marks struct {
	Schema string `json:"schema"`
	// Up: it answered. First: a process in it had run and ended.
	UpNS    int64 `json:"up_ns"`
	FirstNS int64 `json:"first_ns"`
	GoneNS  int64 `json:"gone_ns"` // it was gone, with all that belonged to it
}

const (
	schema = "bakeoff/lifecycle/v1"
	blob   = "marks.json"
)

func (life) Doc() workload.Doc {
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

func (life) Prepare(ctx context.Context, t workload.Target, _ param.Values) error {
	if t.Fresh == nil {
		return fault.New(fault.Unsupported, "this target cannot create environments")
	}
	return nil
}

func (life) Reset(context.Context, workload.Target, param.Values) error { return nil }

func (life) Run(ctx context.Context, t workload.Target, _ param.Values) (workload.Raw, error) {
	asked := time.Now()
	inst, made, err := t.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	m := marks{Schema: schema, UpNS: time.Since(asked).Nanoseconds()}
	for _, mark := range made {
		switch mark.Name {
		case "asked":
			asked = mark.At
		case "up":
			m.UpNS = mark.At.Sub(asked).Nanoseconds()
		}
	}
	exit, err := inst.Exec(ctx, conn.Command(inst.Info().Agent, "list"))
	m.FirstNS = time.Since(asked).Nanoseconds()
	if err == nil && !exit.OK() {
		err = fault.New(fault.Subject, "its first process: %v", exit)
	}
	// It is closed whatever happened, even when the trial's time is up.
	gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, inst.Close(gone))
	m.GoneNS = time.Since(asked).Nanoseconds()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(m)
	return workload.Raw{blob: b}, err
}

func (life) Parse(raw workload.Raw, _ param.Values) ([]sample.Value, error) {
	b, ok := raw[blob]
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: %w", blob, workload.ErrNoBlob)
	}
	var m marks
	if err := strictjson.Decode(b, &m); err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", blob, err)
	}
	if m.Schema != schema {
		return nil, fault.New(fault.Invalid, "%s: schema is %q, this program reads %q", blob, m.Schema, schema)
	}
	if !(0 < m.UpNS && m.UpNS <= m.FirstNS && m.FirstNS < m.GoneNS) {
		return nil, fault.New(fault.Invalid, "%s: its moments are not one after the other: %s", blob, fmt.Sprint(m.UpNS, m.FirstNS, m.GoneNS))
	}
	value := func(name string, ns int64) sample.Value {
		return sample.Value{Metric: name, Unit: "s", Value: float64(ns) / 1e9}
	}
	return []sample.Value{value("first-process", m.FirstNS), value("create", m.UpNS), value("destroy", m.GoneNS-m.FirstNS), value("total", m.GoneNS)}, nil
}
