// Package sample describes one measurement: a number, its metric and its unit.
package sample

// Better says which way a metric is better.
type Better string

// The two directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Scale says how two values of a metric are compared.
type Scale string

const (
	// Ratio compares by contender / baseline; values are positive.
	Ratio Scale = "ratio"
	// Difference compares by contender − baseline; values may be zero.
	Difference Scale = "difference"
)

// Metric describes what a workload reports.
type Metric struct {
	Name string `json:"name"`
	// Unit is an SI or plain unit without prefix: B/s, s, op/s, request/s,
	// s/op. Values are always in exactly this unit.
	Unit    string `json:"unit"`
	Better  Better `json:"better"`
	Primary bool   `json:"primary"` // by default; a lab file may say otherwise
	Scale   Scale  `json:"scale"`
	// CPUTime is true if the value is CPU time used, per trial or unit of its
	// work, rather than wall time: waiting does not increase it.
	CPUTime bool `json:"cpu_time,omitempty"`
	// GeneratorHost is true if the value is what the load generator's host used,
	// and that host is not the subject's. The value is shown next to the subject's
	// own and gets no verdict, because the subject did not use it.
	GeneratorHost bool   `json:"generator_host,omitempty"`
	Doc           string `json:"doc,omitempty"`
}

// Of returns v, which is in m's unit, as a value of m.
func (m Metric) Of(v float64) Value { return Value{Metric: m.Name, Unit: m.Unit, Value: v} }

// Value is one sample: a number that one trial gave.
type Value struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
}
