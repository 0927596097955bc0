package dryrun

import (
	"reflect"
	"testing"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// Factors are listed once for all cells at which they are the same, and a cell at
// which a variant does not vary is named.
func TestFactors(t *testing.T) {
	contender := func(name, driver string, params map[string]param.Values) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver, CPUs: 1, Params: params}}
	}
	cell := func(name string) plan.Cell { return plan.Cell{Cell: manifest.Cell{Name: name}} }
	p := &plan.Plan{Baseline: "a", Twin: "a~twin", Cells: []plan.Cell{cell("one"), cell("two")}}
	p.Contenders = []plan.Contender{
		contender("a", "host", nil), contender("b", "host", map[string]param.Values{"one": {"argv": "gzip"}}),
		contender("c", "chroot", nil), contender("same", "host", nil)}
	p.Contenders = append(p.Contenders, plan.Contender{Contender: p.Contenders[0].Contender, TwinOf: "a"})
	want := []Factored{
		{"b", []string{"one"}, []analysis.Factor{{Name: "params.argv", Contender: "gzip"}}},
		{"b", []string{"two"}, []analysis.Factor{}},
		{"c", []string{"one", "two"}, []analysis.Factor{{Name: "driver", Baseline: "host", Contender: "chroot"}}},
		{"same", []string{"one", "two"}, []analysis.Factor{}},
	}
	got := FactorsOf(p)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	notes := unvaried(got)
	if len(notes) != 1 || notes[0] !=
		"b does not differ from the baseline on purpose at two; leave these cells to another lab file" {
		t.Errorf("notes %q", notes)
	}
}
