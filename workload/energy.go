package workload

import (
	"fmt"
	"time"

	"bakeoff/agent"
	"bakeoff/sample"
)

const energyDoc = ": of all its processors (RAPL), or what the meter counts that the lab file names for the host; idle power and the load generator included"

// JoulesPerOp and JoulesPerRequest are what the host spent of energy for one
// unit of work. A trial has no value of them where its host has no counter of
// energy, or where it spent less than the counter's grain.
var (
	JoulesPerOp = sample.Metric{Name: "joules-per-op", Unit: "J/op", Better: sample.Lower, Scale: sample.Ratio,
		Doc: "energy of the host for one unit of work" + energyDoc}
	JoulesPerRequest = sample.Metric{Name: "joules-per-request", Unit: "J/request", Better: sample.Lower, Scale: sample.Ratio,
		Doc: "energy of the host for each expected response" + energyDoc}
)

// Energy returns the samples of m, which is one of the above: at most one.
//
// The host's counters bracket the whole trial. Work that took the time timed of
// it is charged with that share of the energy; with 0 all of it is the work's.
func Energy(raw Raw, m sample.Metric, work float64, timed time.Duration) ([]sample.Value, error) {
	b, ok := raw[Host]
	if !ok || !positive(work) {
		return nil, nil
	}
	var host agent.Span
	if err := strict(b, &host); err != nil {
		return nil, fmt.Errorf("%s: %w", Host, err)
	}
	spent := host.After.Since(host.Before)
	if spent.Joules == nil || spent.AtNS <= 0 {
		return nil, nil
	}
	joules := *spent.Joules / work
	if timed > 0 {
		joules *= min(1, float64(timed.Nanoseconds())/float64(spent.AtNS))
	}
	if !positive(joules) {
		return nil, nil
	}
	return []sample.Value{{Metric: m.Name, Unit: m.Unit, Value: joules}}, nil
}
