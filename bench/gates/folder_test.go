package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/all"

	driverall "bakeoff/provision/driver/all"
)

const labText = `schema: bakeoff/lab/v1
name: gates
contenders: [{name: a, driver: host}, {name: b, driver: host}]
baseline: a
cells: [{name: sha, workload: crypto, params: {algorithm: sha256}}]
design: {blocks: 1, mirror: false}
`

// The trials of a run that fail are counted, and separately those that fail by the
// generator's host alone.
func TestFolder(t *testing.T) {
	cat := preflight.CatalogueOf(driverall.Drivers(), all.Parsers())
	run, p := storetest.Create(t, labText, cat)
	heat := func(events float64) *facts.Counters { return &facts.Counters{ThermalThrottles: &events} }
	ends := []store.Trial{{Before: heat(0), After: heat(1)}, {GeneratorBefore: heat(0), GeneratorAfter: heat(2)},
		{GeneratorBefore: heat(0), GeneratorAfter: heat(0)}}
	for i, s := range p.Blocks[0].Slots() {
		storetest.AppendTrial(t, run, s, ends[i], workload.Raw{"facts.json": []byte("{}")})
	}
	var out strings.Builder
	if err := (study{out: &out}).printFolder(run.Dir()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got,
		"sha crypto 3 throttled 66.7 (9.4–99.2) 2 throttled 50.0 (1.3–98.7)") {
		t.Error(out.String())
	}
	if err := os.Remove(filepath.Join(run.Dir(), store.PlanFile)); err != nil {
		t.Fatal(err)
	}
	if err := (study{out: &out}).printFolder(run.Dir()); err == nil {
		t.Error("a folder without a plan was accepted")
	}
}
