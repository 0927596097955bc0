package boot

import (
	"path/filepath"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// The example boots every contender once by its profile ci: each has a figure, and nothing
// is decided by boots that were not repeated.
func TestExample(t *testing.T) {
	needs(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/boot")
	if err != nil {
		t.Fatal(err)
	}
	r, code := h.Example(t, lab, "--profile", "ci", "--seed", "3")
	if code != 0 || r.Blocks != 1 || len(r.Missing) != 0 {
		t.Errorf("exit code %d after %d blocks; missing: %v", code, r.Blocks, r.Missing)
	}
	values := map[string]float64{}
	for _, s := range r.Summaries {
		if s.Metric == "instructions" && s.Median != nil && s.N == 1 && !s.Deterministic {
			values[s.Contender] = *s.Median
		}
	}
	for _, c := range r.Contenders {
		if !(values[c.Name] > 1e8) {
			t.Errorf("%s has %v instructions", c.Name, values[c.Name])
		}
	}
	// What is left out of a boot makes it shorter, on every host.
	for _, less := range [][2]string{{"pvh", "microvm"}, {"microvm", "self-tests"}, {"no-acpi", "microvm"},
		{"tuned", "pvh"}, {"microvm", "q35"}} {
		if values[less[0]] >= values[less[1]] {
			t.Errorf("%s has %v instructions, %s %v", less[0], values[less[0]], less[1], values[less[1]])
		}
	}
	for _, c := range r.Comparisons {
		if c.Verdict != "" && c.Verdict != analysis.Inconclusive || c.Exact != nil {
			t.Errorf("%s at %s is %s after one boot", c.Contender, c.Metric, c.Verdict)
		}
	}
	if r.Twin == nil || values[r.Twin.Name] != values["microvm"] {
		t.Errorf("the twin has %v instructions, its contender %v", values[r.Twin.Name], values["microvm"])
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}
