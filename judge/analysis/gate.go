package analysis

import (
	"maps"
	"slices"

	"bakeoff/base/sample"
)

// The shares of trials from which on a gate that disturbs single trials fails
// the comparison.
//
// A disturbance that meets both sides alike widens the interval and needs no
// gate, as long as it is rare enough for the scores to see past it: they take
// weight from disturbed trials, up to half of a side's. One that meets one
// side more often is not noise but a bias, and from a fifth on it could move
// the estimate, which stands up to 29 % of arbitrary blocks.
const (
	oneSided = 0.2 // more on one side than on the other
	mostly   = 0.5 // of either side
)

// total tells that one trial that failed this gate fails the comparison:
// then the number is not of what it claims to be, however few there are. A
// check of scaling is not among them: it compares two short times, which an
// unlucky moment stretches; a loop that was removed fails it in every trial.
func total(gate string) bool {
	switch gate {
	case "errors", "answer", "disk-full":
		return true
	}
	return false
}

// spares tells that a gate says nothing of a metric. Where the load generator
// or the way to it was at its end, what was asked for in a second is not the
// subject's doing; the CPU time that it spent on each answer is, and speaks.
func spares(gate string, m sample.Metric) bool {
	switch gate {
	case "ceiling", "lateness", "path", "starved":
		return m.CPUTime
	}
	return false
}

// failedGates returns the gates that the trials of two sides failed, by name,
// for what m says of them.
func failedGates(us, them series, m sample.Metric) []Gate {
	type tally struct {
		reason string
		sides  [2]int
	}
	seen := map[string]*tally{}
	for i, s := range [2]series{us, them} {
		for _, o := range s {
			for name, reason := range o.Gates {
				if spares(name, m) {
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
		if total(name) || disturbs(part(t.sides[0], len(us)), part(t.sides[1], len(them))) {
			out = append(out, Gate{Name: name, Reason: t.reason, Trials: t.sides[0] + t.sides[1], Of: len(us) + len(them)})
		}
	}
	return out
}

// disturbs tells whether the shares of disturbed trials on two sides are more
// than noise that meets both.
func disturbs(a, b float64) bool {
	return max(a, b) >= mostly || max(a, b)-min(a, b) >= oneSided
}

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
