package report

import (
	"path/filepath"
	"testing"

	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/publish/pagetest"
)

// narrow and wide are views of pages that share their style with another one.
var (
	narrow = pagetest.View{Width: 360, Scheme: "dark"}
	wide   = pagetest.View{Width: 1440, Scheme: "light"}
)

// The pages as a browser shows them. What they may cost is what they cost, and a third
// more.
func TestPagesInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	d, p := example()
	dir, _ := written(t, d, p, analysis.Analyse(d))
	t.Run("report", func(t *testing.T) {
		b.Check(t, filepath.Join(dir, filepath.FromSlash(store.ReportFile)),
			pagetest.Budget{Bytes: 500_000, Requests: 1, Shift: .01})
	})
	// On a phone, the rows of the table of verdicts are blocks, so that nothing is cut off.
	phone := b.Evaluate(t, filepath.Join(dir, filepath.FromSlash(store.ReportFile)), `(() => {
		const table = document.querySelector('.glance'), cell = table.querySelector('td');
		return [table.scrollWidth <= table.parentElement.clientWidth, getComputedStyle(cell, '::before').content].join(' ');
	})()`, pagetest.View{Width: 420, Scheme: "light"})
	if phone != `true "chroot"` {
		t.Errorf("the table of verdicts on a phone: %s", phone)
	}
	// A large report has pages of cells.
	d, p = simulated(shape{contenders: append([]string{"host"}, numbered("c", 8)...), cells: numbered("cell", 6),
		blocks: 8, judged: 6})
	dir = folder(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{Files: true}))
	pages, err := filepath.Glob(filepath.Join(dir, filepath.Dir(filepath.FromSlash(store.ReportFile)), "*.html"))
	must(t, err)
	if len(pages) != 7 {
		t.Fatalf("pages %q", pages)
	}
	pagetest.Valid(t, pages...)
	for name, page := range map[string]string{"large": filepath.Join(dir, filepath.FromSlash(store.ReportFile)),
		"cell": pages[0]} {
		t.Run(name, func(t *testing.T) {
			b.Look(t, page, pagetest.Budget{Bytes: 500_000, Requests: 1, Shift: .02}, narrow, wide)
		})
	}
}
