package evidence

import (
	"encoding/json"
	"strings"

	"bakeoff/base/name"
	"bakeoff/measure/workload"
)

// programs is what workloads found out about the programs that they ran, by
// contender and by the name of the fact: every value that a trial gave.
type programs map[string]map[string]map[string]bool

// The bounds of what a trial may add: it may be a stranger's.
const (
	maxProgramFacts = 64
	maxProgramValue = 2 << 10 // bytes
	maxFactName     = 61
)

// note reads the blob workload.Facts of a trial. One that cannot be read adds
// nothing: Parse judges the trial. It returns the trial's caveat, "" if it has
// none.
func (p programs) note(program, contender string, raw workload.Raw) (caveat string) {
	var facts map[string]string
	if json.Unmarshal(raw[workload.Facts], &facts) != nil || len(facts) > maxProgramFacts {
		return ""
	}
	for fact, value := range facts {
		if !name.Valid(fact, maxFactName) || len(value) > maxProgramValue {
			continue
		}
		if fact == workload.Caveat {
			caveat = value
		}
		full := "program." + program + "." + fact
		if p[contender] == nil {
			p[contender] = map[string]map[string]bool{}
		}
		if p[contender][full] == nil {
			p[contender][full] = map[string]bool{}
		}
		p[contender][full][value] = true
	}
	return caveat
}

// join adds them to the facts of the contenders that came up. Cells with
// other parameters may give other values: then all of them are told.
func (p programs) join(facts map[string]map[string]string) {
	for contender, of := range p {
		if facts[contender] == nil {
			continue
		}
		for fact, values := range of {
			facts[contender][fact] = strings.Join(sorted(values), " | ")
		}
	}
}
