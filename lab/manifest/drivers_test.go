package manifest_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/lab/preflight"
	"bakeoff/measure/workload"
	workloads "bakeoff/measure/workload/all"
	drivers "bakeoff/provision/driver/all"
)

// drivers.json has the drivers of this program, without what only describes
// them. `make docs` writes it.
func TestDriversAreWritten(t *testing.T) {
	const file = "drivers.json"
	entries := preflight.CatalogueOf(drivers.Drivers(), []workload.Parser{}).Drivers
	for i := range entries {
		e := &entries[i]
		e.Summary, e.Also, e.Options = "", nil, slices.Clone(e.Options)
		for k := range e.Options {
			e.Options[k].Doc = ""
		}
	}
	want, err := json.MarshalIndent(entries, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("%s is not that of these drivers (%v): run make docs", file, err)
	}
}

// A lab file gives the same lab by the written catalogue as by the drivers.
func TestWrittenCatalogue(t *testing.T) {
	written, err := manifest.Written(workloads.Parsers())
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("../../examples/quick/bakeoff.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := manifest.Parse("bakeoff.yaml", src, written, "ci")
	if err != nil {
		t.Fatal(err)
	}
	b, err := manifest.Parse("bakeoff.yaml", src, preflight.CatalogueOf(drivers.Drivers(), workloads.Parsers()), "ci")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	if string(one) != string(other) {
		t.Errorf("the written catalogue gives %s, the drivers %s", one, other)
	}
}

// Options of drivers are keys of a contender, so none has the name of a key that all
// contenders have: a lab file could not set it.
func TestOptionsAreNoKeysOfContenders(t *testing.T) {
	cat := preflight.CatalogueOf(drivers.Drivers(), workloads.Parsers())
	for _, d := range cat.Drivers {
		for _, o := range d.Options {
			// The driver host has no options.
			text := "schema: bakeoff/lab/v1\nname: a\ncontenders: [{name: a, driver: host, " + o.Name + ": x}]\n"
			_, err := manifest.Parse("bakeoff.yaml", []byte(text), cat, "")
			if err == nil || !strings.Contains(err.Error(), "unknown key \""+o.Name+"\" in contenders") {
				t.Errorf("driver %s: its option %s is a key that all contenders have: %v", d.Name, o.Name, err)
			}
		}
	}
}
