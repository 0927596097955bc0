package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/facts"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/lab/store"
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
	lab, err := manifest.Parse("bakeoff.yaml", []byte(labText), cat, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(lab, cat, 1, "test")
	if err != nil {
		t.Fatal(err)
	}
	text, err := plan.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	run, err := store.Create(dir, time.Now(), []byte(labText), text)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	heat := func(events float64) *facts.Counters { return &facts.Counters{ThermalThrottles: &events} }
	ends := []*store.Trial{{Before: heat(0), After: heat(1)}, {GeneratorBefore: heat(0), GeneratorAfter: heat(2)},
		{GeneratorBefore: heat(0), GeneratorAfter: heat(0)}}
	for i, s := range p.Blocks[0].Slots() {
		l := store.Line{Type: store.LineTrial, Contender: s.Contender, Status: store.OK, Trial: ends[i]}
		l.Position, l.Cell = s.Position, s.Cell
		b, err := json.Marshal(map[string]string{})
		if err != nil {
			t.Fatal(err)
		}
		if l.Raw, err = run.WriteRaw(s, workload.Raw{"facts.json": b}); err != nil {
			t.Fatal(err)
		}
		if err := run.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := (study{out: &out}).printFolder(dir); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got,
		"sha crypto 3 throttled 66.7 (9.4–99.2) 2 throttled 50.0 (1.3–98.7)") {
		t.Error(out.String())
	}
	if err := os.Remove(filepath.Join(dir, store.PlanFile)); err != nil {
		t.Fatal(err)
	}
	if err := (study{out: &out}).printFolder(dir); err == nil {
		t.Error("a folder without a plan was accepted")
	}
}
