package evidence

import (
	"strings"

	"bakeoff/analysis"
)

// noteCPUSources adds to the facts of each contender what said for how long its
// CPUs were busy in the trials that count: two sources do not count the same.
// Journals of before there was more than one say nothing.
func (s *story) noteCPUSources(facts map[string]map[string]string) {
	sources, told := map[string]map[string]bool{}, false
	for _, l := range s.trials {
		if !s.counts[l.Block] || l.Trial == nil || l.Before == nil || l.After == nil {
			continue
		}
		told = told || l.After.CPUSource != ""
		if d := l.After.Since(*l.Before); d.CPUSource != "" {
			if sources[l.Contender] == nil {
				sources[l.Contender] = map[string]bool{}
			}
			sources[l.Contender][d.CPUSource] = true
		}
	}
	for contender, by := range sources {
		if told && facts[contender] != nil {
			facts[contender][analysis.FactCPUTime] = strings.Join(sorted(by), " and ")
		}
	}
}
