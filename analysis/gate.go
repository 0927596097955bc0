package analysis

import (
	"maps"
	"slices"
)

// share is the part of one side's trials from which on a gate that disturbs
// single trials fails the comparison. The Hodges–Lehmann estimate stands up
// to 29 % of arbitrary blocks; a fifth leaves room below that. A disturbance
// that meets both sides alike widens the interval and needs no gate; one that
// meets one side more often reaches its fifth there, so sides are counted
// apart.
const share = 0.2

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

// failedGates returns the gates that the trials of two sides failed, by name.
func failedGates(us, them series) []Gate {
	type tally struct {
		reason string
		sides  [2]int
	}
	seen := map[string]*tally{}
	for i, s := range [2]series{us, them} {
		for _, o := range s {
			for name, reason := range o.Gates {
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
		if total(name) || reaches(t.sides[0], len(us)) || reaches(t.sides[1], len(them)) {
			out = append(out, Gate{Name: name, Reason: t.reason, Trials: t.sides[0] + t.sides[1], Of: len(us) + len(them)})
		}
	}
	return out
}

func reaches(n, of int) bool { return n > 0 && float64(n) >= share*float64(of) }
