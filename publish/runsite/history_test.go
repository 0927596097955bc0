package runsite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
)

// A lab file with several runs has a page of its history, to which its page links. Without
// changes it is not written again; with a run less it goes.
func TestHistoryOfALabFile(t *testing.T) {
	dir, names := folder(t)
	for _, again := range []string{"20261124T000001Z-again", "20261124T000002Z-again"} {
		must(t, os.CopyFS(filepath.Join(dir, again), os.DirFS(filepath.Join(dir, names[0]))))
	}
	text, err := os.ReadFile(filepath.Join(dir, names[0], "results.json"))
	must(t, err)
	var results analysis.Results
	must(t, json.Unmarshal(text, &results))
	sum, err := Build(dir, Option{})
	must(t, err)
	pages, err := filepath.Glob(filepath.Join(dir, PagesDir, "history-*.html"))
	must(t, err)
	if len(pages) != 1 {
		t.Fatalf("histories: %q of %+v", pages, sum)
	}
	of, err := os.ReadFile(strings.Replace(pages[0], "/history-", "/lab-", 1))
	must(t, err)
	if !strings.Contains(string(of), `href="`+filepath.Base(pages[0])+`"`) {
		t.Error("the page of the lab file does not link to its history")
	}
	page, err := os.ReadFile(pages[0])
	must(t, err)
	if !strings.Contains(string(page), "Content-Security-Policy") || !strings.Contains(string(page), results.Baseline) {
		t.Error("the history has no policy, or does not name the baseline")
	}
	if again, err := Build(dir, Option{}); err != nil || again.Written != 0 {
		t.Errorf("nothing changed, and %d pages were written: %v", again.Written, err)
	}
	for _, name := range []string{"20261124T000000Z-again", "20261124T000001Z-again"} {
		must(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	_, err = Build(dir, Option{})
	must(t, err)
	if _, err := os.Stat(pages[0]); !os.IsNotExist(err) {
		t.Errorf("the history stays: %v", err)
	}
}

// What is kept of runs gives the same page as the runs themselves, and goes with the page.
func TestHistoryFromWhatIsKept(t *testing.T) {
	dir, names := folder(t)
	again := filepath.Join(dir, "20261124T000001Z-again")
	must(t, os.CopyFS(again, os.DirFS(filepath.Join(dir, names[0]))))
	page := func() string {
		t.Helper()
		build(t, dir)
		pages, err := filepath.Glob(filepath.Join(dir, PagesDir, "history-*.html"))
		must(t, err)
		if len(pages) != 1 {
			t.Fatalf("histories: %q", pages)
		}
		text, err := os.ReadFile(pages[0])
		must(t, err)
		must(t, os.Remove(pages[0]))
		return string(text)
	}
	read := page()
	if kept, err := os.ReadDir(filepath.Join(dir, pastDir)); err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	if page() != read {
		t.Error("what is kept gives another page")
	}
	must(t, os.RemoveAll(filepath.Join(dir, pastDir)))
	if page() != read {
		t.Error("runs that are read again give another page")
	}
	must(t, os.RemoveAll(again))
	build(t, dir)
	if _, err := os.Stat(filepath.Join(dir, pastDir)); !os.IsNotExist(err) {
		t.Errorf("without a history, its numbers are kept: %v", err)
	}
}
