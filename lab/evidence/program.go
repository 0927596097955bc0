package evidence

import (
	"encoding/json"
	"fmt"
	"strings"

	"bakeoff/base/lists"
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
	maxExecutables  = 8 // listed; a program that each environment builds can have any number
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
		lists.Inner(lists.Inner(p, contender), full)[value] = true
	}
	return caveat
}

// samePrograms adds to meant the paths of files that are the same in a contender and in
// the baseline: the same file at another path is not a confounder.
func samePrograms(meant map[string][]string, facts map[string]map[string]string, baseline string) {
	for file, path := range map[string]string{workload.FactExecutable: workload.FactPath,
		workload.FactInterpreter: workload.FactInterpreterPath} {
		file, path = commandFacts+file, commandFacts+path
		for contender, of := range facts {
			if of[path] != facts[baseline][path] && of[file] == facts[baseline][file] {
				meant[contender] = append(meant[contender], path)
			}
		}
	}
}

// addFacts adds them to the facts of the contenders that came up. Cells with
// other parameters may give other values: the fact then lists all of them.
func (p programs) addFacts(facts map[string]map[string]string) {
	for contender, of := range p {
		if facts[contender] == nil {
			continue
		}
		for fact, values := range of {
			all := sorted(values)
			if more := len(all) - maxExecutables; more > 0 && strings.HasPrefix(fact, commandFacts) {
				all = append(all[:maxExecutables], fmt.Sprintf("%d others", more))
			}
			facts[contender][fact] = strings.Join(all, " | ")
		}
	}
}
