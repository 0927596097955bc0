package workload

import (
	"time"

	"bakeoff/base/sample"
)

const energyDoc = ", from the RAPL counters of all its processors, or from the meter that the lab file names for " +
	"the host; includes idle power"

// subjectDoc and generatorDoc say which metric includes the load generator.
const (
	subjectDoc   = energyDoc + " and a load generator on the same host"
	generatorDoc = energyDoc +
		"; absent if the load generator runs on the environment's host"
)

// JoulesPerOp and JoulesPerRequest are the energy that the environment's host
// spent per unit of work; GeneratorJoulesPerOp and GeneratorJoulesPerRequest
// are that of a separate host of the load generator. A trial has no value if
// the host has no energy counter, or spent less than the counter's resolution.
var (
	JoulesPerOp      = sample.LowerRatio("joules-per-op", "J/op", "energy of the host per unit of work"+subjectDoc)
	JoulesPerRequest = sample.LowerRatio("joules-per-request", "J/request",
		"energy of the host per expected response"+subjectDoc)
	GeneratorJoulesPerOp = sample.Metric{Name: "generator-joules-per-op", Unit: "J/op", Better: sample.Lower,
		Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the load generator's own host per unit of work" + generatorDoc}
	GeneratorJoulesPerRequest = sample.Metric{Name: "generator-joules-per-request", Unit: "J/request",
		Better: sample.Lower, Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the load generator's own host per expected response" + generatorDoc}
)

// Costs returns the samples of these metrics of CPU time or energy per unit of
// work, at most one each.
//
// A host's counters cover the whole trial. Work that took the time timed is
// charged with that share of the energy; with 0 it is charged with all of it.
// The CPU time is that of the whole trial. A cost is unknown without counters or
// work, or below one tick on a host that counts only ticks.
func Costs(raw Raw, work float64, timed time.Duration, metrics ...sample.Metric) ([]sample.Value, error) {
	if !positive(work) {
		return nil, nil
	}
	var out []sample.Value
	for _, m := range metrics {
		cost, err := costOf(raw, work, timed, m)
		if err != nil {
			return nil, err
		}
		if positive(cost) {
			out = append(out, m.Of(cost))
		}
	}
	return out, nil
}

// costOf is the CPU time or the energy that a host spent per unit of work; 0 if
// unknown.
func costOf(raw Raw, work float64, timed time.Duration, m sample.Metric) (float64, error) {
	if m.CPUTime {
		busy, _, err := raw.Busy()
		return busy / work, err
	}
	blob := Host
	if m.GeneratorHost {
		blob = GeneratorHost
	}
	spent, ok, err := raw.spanCounters(blob)
	if !ok || spent.Joules == nil || spent.AtNS <= 0 {
		return 0, err
	}
	joules := *spent.Joules / work
	if timed > 0 {
		joules *= min(1, float64(timed.Nanoseconds())/float64(spent.AtNS))
	}
	return joules, nil
}
