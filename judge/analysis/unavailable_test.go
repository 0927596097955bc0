package analysis

import (
	"testing"

	"bakeoff/base/sample"
)

// A metric of energy that a machine cannot tell is named with its reason, and
// has no summary; one that was told, or that belongs to a cell without any
// value, is not.
func TestEnergyThatNobodyCounts(t *testing.T) {
	joules := sample.Metric{Name: "joules-per-op", Unit: "J/op", Better: sample.Lower, Scale: sample.Ratio}
	wall := sample.Metric{Name: "wall", Unit: "s", Better: sample.Lower, Scale: sample.Ratio}
	d := Data{
		Baseline:   "a",
		Contenders: []Contender{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Cells:      []Cell{{Name: "one", Metrics: []sample.Metric{wall, joules}}},
		NoEnergy:   map[string]string{"a": "no counter", "b": "its grain"},
		Observations: []Observation{
			{Contender: "a", Cell: "one", Values: []sample.Value{{Metric: "wall", Unit: "s", Value: 2}}},
			{Contender: "b", Cell: "one", Position: 1, Values: []sample.Value{{Metric: "wall", Unit: "s", Value: 2},
				{Metric: "joules-per-op", Unit: "J/op", Value: 3}}},
			{Contender: "c", Cell: "one", Position: 2, Failed: true},
		},
	}
	r := Analyse(d)
	if len(r.Unavailable) != 1 || r.Unavailable[0] != (Unavailable{Contender: "a", Cell: "one",
		Metric: "joules-per-op", Reason: "no counter"}) {
		t.Errorf("unavailable: %+v", r.Unavailable)
	}
	// Of another host that load comes from it is said only where there is one.
	joules.Name, joules.GeneratorHost = "generator-joules-per-op", true
	d.Cells[0].Metrics = []sample.Metric{wall, joules}
	if r := Analyse(d); len(r.Unavailable) != 0 {
		t.Errorf("without another host: %+v", r.Unavailable)
	}
	d.NoGeneratorEnergy = map[string]string{"a": "no meter there"}
	if r := Analyse(d); len(r.Unavailable) != 1 ||
		r.Unavailable[0] != (Unavailable{Contender: "a", Cell: "one", Metric: "generator-joules-per-op",
			Reason: "no meter there"}) {
		t.Errorf("of another host: %+v", r.Unavailable)
	}
	for _, s := range r.Summaries {
		if s.Contender == "a" && s.Metric == "joules-per-op" {
			t.Errorf("it has the summary %+v", s)
		}
	}
}
