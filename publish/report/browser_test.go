package report

import (
	"path/filepath"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/publish/pagetest"
)

// The pages as a browser shows them. What they may cost is what they cost, and a third
// more.
func TestPagesInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	d, p := example()
	dir, _ := written(t, d, p, analysis.Analyse(d))
	for name, x := range map[string]struct {
		page   string
		budget pagetest.Budget
	}{
		"report": {filepath.Join(dir, filepath.FromSlash(store.ReportFile)),
			pagetest.Budget{Bytes: 500_000, Requests: 1, Shift: .01}},
	} {
		t.Run(name, func(t *testing.T) { b.Check(t, x.page, x.budget) })
	}
}
