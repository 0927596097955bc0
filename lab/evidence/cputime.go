package evidence

import (
	"strings"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
)

// noteCPUSources adds them to the facts of each contender: two sources do not
// count the same. Within a run whose journal is of before there was more than
// one, they say nothing.
func (s *story) noteCPUSources(facts map[string]map[string]string) {
	sources, told := s.cpuSources()
	for contender, by := range sources {
		if told && facts[contender] != nil {
			facts[contender][analysis.FactCPUTime] = by
		}
	}
}

// cpuSources says for each contender of a run what told for how long its CPUs
// were busy in the trials that count: the names of probe.Source…, joined by
// "and" where there were several. Contenders of which nothing did are absent.
// told is whether the journal says any.
func (s *story) cpuSources() (sources map[string]string, told bool) {
	seen := map[string]map[string]bool{}
	for _, l := range s.trials {
		if !s.counts[l.Block] || l.Trial == nil || l.Before == nil || l.After == nil {
			continue
		}
		told = told || l.After.CPUSource != ""
		if d := l.After.Since(*l.Before); d.CPUSource != "" {
			lists.Inner(seen, l.Contender)[d.CPUSource] = true
		}
	}
	sources = map[string]string{}
	for contender, by := range seen {
		sources[contender] = strings.Join(sorted(by), " and ")
	}
	return sources, told
}
