package site

import (
	"path/filepath"
	"testing"

	"bakeoff/publish/pagetest"
)

// The pages as a browser shows them, at two widths, light and dark.
func TestPagesInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	dir := t.TempDir()
	if _, err := Preview(filepath.Join(dir, "all"), "", now, "test"); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "all", "default")
	for name, page := range map[string]string{"home": "index.html", "post": "2026/01/20/elements/index.html",
		"tags": "tags/index.html", "search": "search/index.html"} {
		t.Run(name, func(t *testing.T) {
			b.Check(t, filepath.Join(out, page), pagetest.Budget{Bytes: 60_000, Requests: 4, Shift: .02})
		})
	}
	const search = `const f = document.getElementById('search-text'); f.value = 'tide';
		f.dispatchEvent(new Event('input'));
		new Promise(done => setTimeout(() => done(
			String([...document.querySelectorAll('#search-list > li')].filter(r => !r.hidden).length)), 500))`
	if got := b.Evaluate(t, filepath.Join(out, "search/index.html"), search); got != "1" {
		t.Errorf("the search shows %s posts, want 1", got)
	}
}
