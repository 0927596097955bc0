package analysis

import (
	"maps"
	"slices"
	"strings"

	"bakeoff/base/sample"
)

// The shares of failed trials from which on a gate of single trials fails the
// comparison.
//
// A disturbance that affects both sides equally widens the interval. It needs no
// gate while it is rare enough for the scores, which take weight from disturbed
// trials, up to half of those of a side. A disturbance that affects one side more
// often is not noise but a bias. From a fifth of the trials on it could move the
// estimate, which withstands up to 29 % of arbitrary blocks.
const (
	oneSided = 0.2 // more on one side than on the other
	mostly   = 0.5 // of either side
)

// failsComparison reports whether a single trial that fails the gate fails the comparison,
// because its number does not measure what it claims to. The check of scaling is
// not among these gates: it compares two short times, which chance can stretch; a
// loop that the compiler removed fails it in every trial.
func (g Gate) failsComparison() bool {
	return slices.Contains([]string{"errors", "answer", "disk-full"}, g.Name)
}

// SharedGate is the gate of CPUs that other programs used most of.
const SharedGate = "cpu-shared"

// gateSpares reports that a gate does not apply to a metric. If the load generator or
// the network reached its limit, the rate of requests does not describe the
// subject; the CPU time per request still does.
//
// What disturbs time does not change an exact count.
//
// The metrics "cpu-per-…" are the busy time of the environment's CPUs, and SharedGate concerns
// nothing else.
func gateSpares(gate string, m sample.Metric) bool {
	if m.Exact {
		return !(Gate{Name: gate}).failsComparison()
	}
	if gate == SharedGate {
		return !m.CPUTime || !strings.HasPrefix(m.Name, "cpu-per-")
	}
	return m.CPUTime && slices.Contains([]string{"ceiling", "cpu-wait", "lateness", "path", "stall", "starved"}, gate)
}

// failedGates returns the gates that the trials of two sides failed for metric m,
// by name.
func failedGates(us, them series, m sample.Metric) []Gate {
	type tally struct {
		reason string
		sides  [2]int
	}
	seen := map[string]*tally{}
	for i, s := range [2]series{us, them} {
		for _, o := range s {
			for name, reason := range o.Gates {
				if gateSpares(name, m) {
					continue
				}
				if seen[name] == nil {
					seen[name] = &tally{reason: reason}
				}
				seen[name].sides[i]++
			}
		}
	}
	var out []Gate
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		g := Gate{Name: name, Reason: t.reason, Trials: t.sides[0] + t.sides[1], Of: len(us) + len(them)}
		if g.failsComparison() || disturbs(shareOf(t.sides[0], len(us)), shareOf(t.sides[1], len(them))) {
			out = append(out, g)
		}
	}
	return out
}

// disturbs reports whether the shares of disturbed trials of the two sides are
// more than noise that affects both.
func disturbs(a, b float64) bool {
	return max(a, b) >= mostly || max(a, b)-min(a, b) >= oneSided
}

func shareOf(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
