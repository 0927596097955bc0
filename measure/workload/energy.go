package workload

import (
	"fmt"
	"time"

	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/reach/wire"
)

const energyDoc = ", from the RAPL counters of all its processors, or from the host's meter in the lab file; " +
	"includes idle power"

// subjectDoc and generatorDoc say which metric includes the load generator.
const (
	subjectDoc   = energyDoc + " and a load generator on the same host"
	generatorDoc = energyDoc +
		"; absent if the load generator runs on the environment's own host, whose counter includes it"
)

// JoulesPerOp and JoulesPerRequest are the energy that the environment's host
// spent per unit of work; GeneratorJoulesPerOp and GeneratorJoulesPerRequest
// are that of a separate host of the load generator. A trial has no value if
// the host has no energy counter, or spent less than the counter's resolution.
var (
	JoulesPerOp = sample.Metric{Name: "joules-per-op", Unit: "J/op", Better: sample.Lower, Scale: sample.Ratio,
		Doc: "energy of the host per unit of work" + subjectDoc}
	JoulesPerRequest = sample.Metric{Name: "joules-per-request", Unit: "J/request", Better: sample.Lower,
		Scale: sample.Ratio,
		Doc:   "energy of the host per expected response" + subjectDoc}
	GeneratorJoulesPerOp = sample.Metric{Name: "generator-joules-per-op", Unit: "J/op", Better: sample.Lower,
		Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the load generator's own host per unit of work" + generatorDoc}
	GeneratorJoulesPerRequest = sample.Metric{Name: "generator-joules-per-request", Unit: "J/request",
		Better: sample.Lower, Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the load generator's own host per expected response" + generatorDoc}
)

// Energy returns the samples of these metrics, at most one each.
//
// A host's counters cover the whole trial. Work that took the time timed is
// charged with that share of the energy; with 0 it is charged with all of it.
func Energy(raw Raw, work float64, timed time.Duration, metrics ...sample.Metric) ([]sample.Value, error) {
	var out []sample.Value
	for _, m := range metrics {
		joules, err := joulesPer(raw, energyBlob(m), work, timed)
		if err != nil {
			return nil, err
		}
		if joules != nil {
			out = append(out, sample.Value{Metric: m.Name, Unit: m.Unit, Value: *joules})
		}
	}
	return out, nil
}

// energyBlob is the blob with the counters for a metric.
func energyBlob(m sample.Metric) string {
	if m.GeneratorHost {
		return GeneratorHost
	}
	return Host
}

// joulesPer is the energy that a host spent per unit of work, by the counters
// in a blob; nil if unknown.
func joulesPer(raw Raw, blob string, work float64, timed time.Duration) (*float64, error) {
	b, ok := raw[blob]
	if !ok || !positive(work) {
		return nil, nil
	}
	var host wire.Span
	if err := strictjson.Decode(b, &host); err != nil {
		return nil, fmt.Errorf("%s: %w", blob, err)
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
	return &joules, nil
}
