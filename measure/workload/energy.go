package workload

import (
	"fmt"
	"time"

	"bakeoff/base/sample"
	"bakeoff/base/strictjson"
	"bakeoff/reach/wire"
)

const energyDoc = ": of all its processors (RAPL), or what the meter counts that the lab file names for the host; idle power included"

// subjectDoc and generatorDoc say in what the load generator is counted.
const (
	subjectDoc   = energyDoc + ", and the load generator's where it is on the same host"
	generatorDoc = energyDoc + "; without a value where load comes from the environment's own host, whose counter includes it"
)

// JoulesPerOp and JoulesPerRequest are what the environment's host spent of
// energy for one unit of work; GeneratorJoulesPerOp and
// GeneratorJoulesPerRequest what the host of the load generator did, where that
// is another. A trial has no value of them where that host has no counter of
// energy, or where it spent less than the counter's grain.
var (
	JoulesPerOp = sample.Metric{Name: "joules-per-op", Unit: "J/op", Better: sample.Lower, Scale: sample.Ratio,
		Doc: "energy of the host for one unit of work" + subjectDoc}
	JoulesPerRequest = sample.Metric{Name: "joules-per-request", Unit: "J/request", Better: sample.Lower, Scale: sample.Ratio,
		Doc: "energy of the host for each expected response" + subjectDoc}
	GeneratorJoulesPerOp = sample.Metric{Name: "generator-joules-per-op", Unit: "J/op", Better: sample.Lower, Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the other host that load comes from, for one unit of work" + generatorDoc}
	GeneratorJoulesPerRequest = sample.Metric{Name: "generator-joules-per-request", Unit: "J/request", Better: sample.Lower, Scale: sample.Ratio, GeneratorHost: true,
		Doc: "energy of the other host that load comes from, for each expected response" + generatorDoc}
)

// Energy returns the samples of metrics, which are of the above: at most one of
// each.
//
// A host's counters bracket the whole trial. Work that took the time timed of
// it is charged with that share of the energy; with 0 all of it is the work's.
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

// energyBlob is where the counters are of which a metric is told.
func energyBlob(m sample.Metric) string {
	if m.GeneratorHost {
		return GeneratorHost
	}
	return Host
}

// joulesPer is what a host spent for each unit of work by the counters in a
// blob; nil where that cannot be told.
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
