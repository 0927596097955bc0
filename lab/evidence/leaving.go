package evidence

import (
	"maps"
	"slices"

	"bakeoff/base/lists"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// leaving proves that nobody was taken out early: a contender that took no
// part in a block that counts had been decided by the blocks before it, or
// could not be created.
func (v *verifier) leaving(data analysis.Data) {
	part := map[int]map[string]bool{}
	for _, l := range v.story.trials {
		lists.Inner(part, l.Block)[l.Contender] = true
	}
	gone := map[string]bool{}
	for _, l := range v.story.lines {
		if l.Type == store.LineEnvironment && l.Status != store.OK {
			gone[l.Contender] = true
		}
	}
	blocks := slices.Sorted(maps.Keys(part))
	for _, b := range blocks {
		if !v.story.counts[b] {
			continue
		}
		var absent []string
		for _, c := range v.story.plan.Contenders {
			if !part[b][c.Name] && !gone[c.Name] {
				absent = append(absent, c.Name)
			}
		}
		if len(absent) == 0 {
			continue
		}
		decided := analysis.Analyse(dataBefore(data, b)).Decided()
		for _, c := range absent {
			if !decided[c] {
				v.find(NotAsPlanned, store.JournalFile, "contender %s is missing from block %d, but its comparisons were not "+
					"decided before that block", c, b)
			}
		}
	}
	ended := v.story.ended
	early := []string{analysis.EndedDecided, analysis.EndedStuck, analysis.EndedFailed}
	if slices.Contains(early, ended) && !analysis.Analyse(data).AllDecided() {
		v.find(NotAsPlanned, store.JournalFile,
			"the run ended because everything was decided, but not every primary comparison is")
	}
}

// dataBefore returns the data as they were when block b began.
func dataBefore(d analysis.Data, b int) analysis.Data {
	earlier := lists.Filter(d.Observations, func(o analysis.Observation) bool { return o.Block < b })
	d.Observations = earlier
	return d
}
