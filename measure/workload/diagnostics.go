package workload

import (
	"fmt"
	"math"

	"bakeoff/base/param"
	"bakeoff/base/strictjson"
	"bakeoff/reach/wire"
)

// Facts is the blob with what a workload knows about the programs that it ran:
// a JSON object of strings ("version": "1.0.20"). They join the fingerprint of
// the contender as program.WORKLOAD.NAME, so that a difference between builds
// is a confounder.
const Facts = "facts.json"

// Diagnostics are what the output of a trial says about its validity, for the
// gates.
type Diagnostics struct {
	// Errors counts failed operations by class.
	Errors map[string]int64
	// Generator is the state of the load generator; nil if there is none.
	Generator *wire.Generator
}

// Diagnoser is a Parser of output that is not a wire.Result. Diagnose is pure;
// ok is false if the output is not valid.
type Diagnoser interface {
	Diagnose(raw Raw, p param.Values) (d Diagnostics, ok bool)
}

// ReportedTime is the time that a program says it took, with what its system
// says about the same program. Seconds.
type ReportedTime struct {
	Seconds    float64 // the program's own figure
	Elapsed    float64 // wall clock
	CPUSeconds float64 // of the program and its children
}

// TimeReporter is a Parser of a program that reports how long it took.
// ReportedTime is pure; ok is false if the output does not contain it.
type TimeReporter interface {
	ReportedTime(raw Raw, p param.Values) (r ReportedTime, ok bool)
}

// HostCost returns how long the environment's CPUs were busy during a whole
// trial, as the host saw it, per unit of work. It is nil if unknown: without
// counters or work, or below one tick on a host that counts only ticks.
func HostCost(raw Raw, work float64) (*float64, error) {
	b, ok := raw[Host]
	if !ok || !positive(work) {
		return nil, nil
	}
	var host wire.Span
	if err := strictjson.Decode(b, &host); err != nil {
		return nil, fmt.Errorf("%s: %w", Host, err)
	}
	busy, _, ok := host.After.Since(host.Before).Busy()
	cost := busy / work
	if !ok || !positive(cost) {
		return nil, nil
	}
	return &cost, nil
}

// InTicks reports whether all of these times, in seconds, are whole hundredths
// of a second. Times measured in nanoseconds or microseconds never are. A
// system that counts in ticks, such as gVisor, cannot measure a part of a
// trial.
func InTicks(times ...float64) bool {
	for _, t := range times {
		if ticks := t * 100; math.Abs(ticks-math.Round(ticks)) > 1e-6 {
			return false
		}
	}
	return true
}
