package all

import (
	"slices"
	"testing"

	workloads "bakeoff/measure/workload/all"
)

// Every workload has one runner, with the same description.
func TestEveryWorkloadHasARunner(t *testing.T) {
	var parsers, runners []string
	for _, p := range workloads.Parsers() {
		parsers = append(parsers, p.Doc().Version())
	}
	for _, r := range Runners() {
		runners = append(runners, r.Doc().Version())
	}
	if !slices.Equal(parsers, runners) {
		t.Errorf("there are the workloads %v and runners of %v", parsers, runners)
	}
}
