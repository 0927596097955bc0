package runsite

import (
	"path/filepath"
	"testing"

	"bakeoff/publish/pagetest"
)

// The pages as a browser shows them, and what the filters do.
func TestPagesInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	dir, _ := folder(t)
	build(t, dir)
	index := filepath.Join(dir, IndexFile)
	for name, x := range map[string]string{"index": index, "workload": first(t, dir, "workload"),
		"contender": first(t, dir, "contender")} {
		t.Run(name, func(t *testing.T) { b.Check(t, x, pagetest.Budget{Bytes: 60_000, Requests: 1, Shift: .02}) })
	}
	var all []string
	for _, name := range pagesIn(t, dir) {
		all = append(all, filepath.Join(dir, name))
	}
	pagetest.Valid(t, all...)
	for _, kind := range []string{"machine", "lab", "verdict", "month"} {
		t.Run(kind, func(t *testing.T) {
			b.Look(t, first(t, dir, kind), pagetest.Budget{Bytes: 60_000, Requests: 1, Shift: .02},
				pagetest.View{Width: 360, Scheme: "dark"})
		})
	}
	const shown = `String([...document.querySelectorAll('.list > li')].filter(r => !r.hidden).length)`
	set := func(id, value string) string {
		return `document.getElementById('` + id + `').value = ` + value + `;
			document.getElementById('filters').dispatchEvent(new Event('input'));` + shown
	}
	for name, x := range map[string]struct{ script, want string }{
		"nothing": {shown, "3"},
		"words":   {set("search", `'FAIL ures'`), "1"},
		"no word": {set("search", `'nosuchword'`), "0"},
		"a value": {set("by-lab",
			`[...document.getElementById('by-lab').options].find(o => o.text == 'failures').value`), "1"},
		"from": {set("from", `'2099-01-01'`), "0"},
		"to":   {set("to", `'2099-01-01'`), "3"},
		"reset": {set("search", `'nosuchword'`) + `; document.getElementById('filters').reset();
			new Promise(done => setTimeout(() => done(` + shown + `)))`, "3"},
	} {
		if got := b.Evaluate(t, index, x.script); got != x.want {
			t.Errorf("%s: %s runs are shown, want %s", name, got, x.want)
		}
	}
}

// first is the first page of a kind.
func first(t *testing.T, dir, kind string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, PagesDir, kind+"-*.html"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no page of a %s: %v", kind, err)
	}
	return names[0]
}
