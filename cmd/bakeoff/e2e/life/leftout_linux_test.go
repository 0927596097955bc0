package life

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// What plan says of cells that cannot run, a run shows as missing with the reason: in its
// results and on its page. No block tries them, and a contender without any other cell
// gets no environment.
func TestNoBlockTriesWhatCannotRun(t *testing.T) {
	e2e.NeedsRoot(t)
	h := e2e.New(t)
	lab := filepath.Join(h.Dir, "bakeoff.yaml")
	if err := os.WriteFile(lab, []byte(`schema: bakeoff/lab/v1
name: leftout
contenders:
  - {name: host, driver: host}
  - {name: some, driver: host, params: {one: {argv: [/no/such/tool]}}}
  - {name: none, driver: host, params: {one: {argv: [/no/such/tool]}, two: {argv: [/no/such/tool]}}}
baseline: host
cells:
  - {name: one, workload: command, params: {argv: ["true"], estimate: 5ms}, primary: true}
  - {name: two, workload: command, params: {argv: ["true"], estimate: 5ms}, primary: true}
design: {blocks: 3}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const reason = "argv: there is no file /no/such/tool"
	text, errs, code := h.Bakeoff(t, time.Minute, "plan", lab)
	// Host, some and the twin have two trials each at two; host and the twin at one.
	said := strings.Join(strings.Fields(text), " ")
	if code != exitMissing || !strings.Contains(said, "it can run no cell") ||
		!strings.Contains(said, "blocks of 10 trials") || !strings.Contains(said, "A run leaves out cells that cannot run") {
		t.Errorf("plan: exit code %d\n%s%s", code, text, errs)
	}
	r, code := h.Example(t, lab, "--seed", "3")
	if code != exitMissing || r.Blocks != 3 {
		t.Errorf("exit code %d after %d blocks", code, r.Blocks)
	}
	var missing []string
	for _, m := range r.Missing {
		missing = append(missing, m.Contender+" "+m.Cell)
		if m.Reason != reason || !m.Gone {
			t.Errorf("%+v", m)
		}
	}
	if !slices.Equal(missing, []string{"some one", "none one", "none two"}) {
		t.Errorf("missing: %v", missing)
	}
	other := func(c analysis.Comparison) bool { return c.Contender != "some" || c.Cell != "two" }
	if slices.ContainsFunc(r.Comparisons, other) {
		t.Errorf("comparisons: %+v", r.Comparisons)
	}
	run, err := store.Open(filepath.Join(h.Dir, r.Folder))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := run.Journal()
	if err != nil {
		t.Fatal(err)
	}
	trials := map[string]int{}
	for _, l := range lines {
		if l.Type == store.LineTrial {
			trials[l.Contender+" "+l.Cell]++
		}
		if l.Type == store.LineEnvironment && l.Contender == "none" && l.Instance != "" {
			t.Errorf("an environment was made: %+v", l)
		}
	}
	if trials["some two"] != 6 || trials["some one"]+trials["none one"]+trials["none two"] != 0 {
		t.Errorf("trials: %v", trials)
	}
	page, err := os.ReadFile(filepath.Join(h.Dir, r.Report))
	if err != nil || !strings.Contains(strings.Join(strings.Fields(string(page)), " "), reason) {
		t.Errorf("the page of %d bytes does not say why: %v", len(page), err)
	}
	h.Holds(t, r.Folder)
	h.LeavesNothing(t)
}
