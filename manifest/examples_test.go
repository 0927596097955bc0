package manifest_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	drivers "bakeoff/driver/all"
	"bakeoff/manifest"
	"bakeoff/trial"
	workloads "bakeoff/workload/all"
)

// Every example is a lab file for the drivers and workloads that there are,
// under each of its profiles.
func TestEveryExampleParses(t *testing.T) {
	cat := trial.CatalogueOf(drivers.Drivers(), workloads.Workloads())
	if !slices.ContainsFunc(cat.Drivers, func(d manifest.DriverEntry) bool { return d.Name == "host" }) {
		t.Skip("needs the driver host, the baseline of the examples")
	}
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lab, err := manifest.Parse(file, src, cat, "")
		if err != nil {
			t.Error(err)
			continue
		}
		for _, profile := range lab.Profiles {
			if _, err := manifest.Parse(file, src, cat, profile); err != nil {
				t.Errorf("profile %s: %v", profile, err)
			}
		}
	}
}
