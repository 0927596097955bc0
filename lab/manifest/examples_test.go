package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/lab/manifest"
	"bakeoff/lab/preflight"
	workloads "bakeoff/measure/workload/all"
	drivers "bakeoff/provision/driver/all"
	guests "bakeoff/provision/vm/manifest"
)

// Every example is a lab file for the drivers and workloads that there are,
// under each of its profiles.
func TestEveryExampleParses(t *testing.T) {
	cat := preflight.CatalogueOf(drivers.Drivers(), workloads.Parsers())
	for _, name := range []string{"host", "chroot", "oci", "qemu"} {
		if !slices.ContainsFunc(cat.Drivers, func(d manifest.DriverEntry) bool { return d.Name == name }) {
			t.Skipf("this build has no driver %s, which the examples compare", name)
		}
	}
	for _, name := range []string{"crypto", "files", "http", "syscall"} {
		if !slices.ContainsFunc(cat.Workloads, func(w manifest.WorkloadEntry) bool { return w.Name == name }) {
			t.Skipf("this build has no workload %s, which the examples measure", name)
		}
	}
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "\nschema: bakeoff/published/") {
			continue // a table for bakeoff audit
		}
		if filepath.Base(filepath.Dir(file)) == "guests" { // guests for bakeoff vm
			if _, err := guests.ReadAll(file, src); err != nil {
				t.Error(err)
			}
			continue
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

// Every whole lab file that README.md and the pages under docs show is valid.
func TestDocumentedLabsParse(t *testing.T) {
	cat := preflight.CatalogueOf(drivers.Drivers(), workloads.Parsers())
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	pages = append(pages, "../../README.md")
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			lab, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(lab, "schema: bakeoff/lab/v1\n") {
				continue // a part of one
			}
			seen++
			if _, err := manifest.Parse(fmt.Sprintf("%s, block %d", page, i+1), []byte(lab), cat, ""); err != nil {
				t.Error(err)
			}
		}
	}
	if seen == 0 {
		t.Error("no page shows a lab file")
	}
}
