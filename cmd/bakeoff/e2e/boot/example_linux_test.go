package boot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
)

// short are the contenders of the example that run without BAKEOFF_TEST_LONG: each takes
// two boots.
var short = []string{"microvm", "no-acpi"}

// example is the lab file of the example, in a folder of its own, with the contenders of
// short only.
func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../examples/boot/bakeoff.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), "contenders:\n")
	contenders, rest, found := strings.Cut(rest, "baseline:")
	if !ok || !found {
		t.Fatal("the example has no contenders before its baseline")
	}
	for _, one := range strings.SplitAfter(contenders, "}\n") {
		if slices.ContainsFunc(short, func(name string) bool { return strings.Contains(one, "{name: "+name+",") }) {
			head += one
		}
	}
	file := filepath.Join(t.TempDir(), "bakeoff.yaml")
	text = []byte(strings.Replace(head, "  - ", "contenders:\n  - ", 1) + "baseline:" + rest)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The example boots contenders once by its profile ci: each has a figure, and nothing is
// decided by boots that were not repeated.
func TestExample(t *testing.T) {
	needs(t)
	h := e2e.New(t)
	lab, err := filepath.Abs("../../../../examples/boot")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("BAKEOFF_TEST_LONG") == "" {
		lab = example(t)
		t.Run("all contenders", func(t *testing.T) { t.Skip("takes more than a minute: set BAKEOFF_TEST_LONG=1") })
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
		if values[less[0]] > 0 && values[less[1]] > 0 && values[less[0]] >= values[less[1]] {
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
