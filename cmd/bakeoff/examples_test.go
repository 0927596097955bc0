package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bakeoff/lab/dryrun"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/session"
)

// Every look that an example names has enough blocks to decide, and its budget reaches one.
func TestExamplesCanDecide(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	labs := 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(src, []byte("schema: bakeoff/lab/v1")) {
			continue
		}
		lab, err := manifest.Parse(file, src, session.Catalogue(), "")
		if err != nil {
			t.Error(err)
			continue
		}
		if err := lab.Keep(nil); err != nil {
			t.Error(err)
		}
		lab.Files = nil
		for i := range lab.Contenders {
			lab.Contenders[i].Files = nil // a plan has their hashes, which take no time
		}
		p, err := plan.Expand(lab, session.Catalogue(), 1, "test")
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		// How long a boot takes is known after the first one.
		if slices.ContainsFunc(p.Cells, func(c plan.Cell) bool { return c.Workload == "boot" }) {
			continue
		}
		labs++
		decides := func(l dryrun.Look) bool { return l.Possible && l.Reached }
		looks := dryrun.EstimateOf(p, dryrun.Options{}, plan.AssumedNoise).Looks
		if len(looks) > 0 && !slices.ContainsFunc(looks, decides) {
			t.Errorf("%s: no look within the budget can decide: %+v", file, looks)
		}
		for _, l := range looks {
			if bytes.Contains(src, []byte("looks:")) && !l.Possible {
				t.Errorf("%s: %d blocks are too few for its comparisons", file, l.Blocks)
			}
		}
	}
	if labs < 20 {
		t.Errorf("only %d examples", labs)
	}
}
