// Package sample describes one measurement: a number, its metric and its unit.
package sample

import "slices"

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
	// Exact is true if repeated trials are meant to give the same value, to the last
	// digit: a count that nothing outside of the trial can change.
	Exact bool `json:"exact,omitempty"`
	// GeneratorHost is true if the value is what the load generator's host used,
	// and that host is not the subject's. The value is shown next to the subject's
	// own and gets no verdict, because the subject did not use it.
	GeneratorHost bool   `json:"generator_host,omitempty"`
	Doc           string `json:"doc,omitempty"`
}

// HigherRatio returns a metric whose higher values are better, and of which the
// ratio is compared.
func HigherRatio(name, unit, doc string) Metric {
	return Metric{Name: name, Unit: unit, Better: Higher, Scale: Ratio, Doc: doc}
}

// LowerRatio returns a metric whose lower values are better, and of which the
// ratio is compared.
func LowerRatio(name, unit, doc string) Metric {
	return Metric{Name: name, Unit: unit, Better: Lower, Scale: Ratio, Doc: doc}
}

// LowerShare returns the metric of a share whose lower values are better, and of
// which the difference is compared.
func LowerShare(name, doc string) Metric {
	return Metric{Name: name, Unit: "1", Better: Lower, Scale: Difference, Doc: doc}
}

// Throughput returns the primary metric of most workloads: units of work per
// second, in unit; doc says what a unit is.
func Throughput(unit, doc string) Metric {
	m := HigherRatio("throughput", unit, doc)
	m.Primary = true
	return m
}

// Named returns the metric called name.
func Named(metrics []Metric, name string) (Metric, bool) {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return metrics[i], true
}

// Of returns v, which is in m's unit, as a value of m.
func (m Metric) Of(v float64) Value { return Value{Metric: m.Name, Unit: m.Unit, Value: v} }

// Value is one sample: a number that one trial gave.
type Value struct {
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
}
