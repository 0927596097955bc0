package runsite

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
)

// A first build that ends early can be repeated in its folder.
func TestBuildStoreAfterABuildThatEndedEarly(t *testing.T) {
	place, dir := filepath.Join(t.TempDir(), "index.sqlite"), filepath.Join(t.TempDir(), "site")
	x, err := index.Open(t.Context(), place)
	must(t, err)
	defer x.Close()
	must(t, x.Add(t.Context(), storedRun(t, true)))
	db, err := driver.Open("file:" + place)
	must(t, err)
	defer db.Close()
	_, err = db.Exec("ALTER TABLE label RENAME TO away")
	must(t, err)
	if _, err := BuildStore(t.Context(), x, dir, Option{}); err == nil {
		t.Fatal("an index without labels has a search")
	}
	if _, err := os.Stat(filepath.Join(dir, IndexFile)); err != nil {
		t.Fatal("the build wrote nothing: ", err)
	}
	_, err = db.Exec("ALTER TABLE away RENAME TO label")
	must(t, err)
	if _, err := BuildStore(t.Context(), x, dir, Option{}); err != nil {
		t.Error(err)
	}
}

// storedRun is a run of an index; full says that the index has its results.
func storedRun(t *testing.T, full bool) index.Entry {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := index.Entry{Bundle: "sha256:" + strings.Repeat("a1", 32), Record: bundle.Record{Run: "one", Lab: "quick",
		Began: at, Ended: at, Baseline: "host", Machine: map[string]string{"machine": "box"}}}
	if full {
		var err error
		e.Past = &history.Run{}
		e.Page, e.Past.Cautions, err = Describe(e.Record, analysis.Results{Schema: analysis.ResultsSchema, Run: "one",
			Baseline: "host", Contenders: []analysis.Contender{{Name: "host"}}})
		must(t, err)
	}
	return e
}

// A rebuild of the index gives a run its results, and the next build its page.
func TestBuildStoreAfterARebuild(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	x, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.sqlite"))
	must(t, err)
	defer x.Close()
	e := storedRun(t, false)
	must(t, x.Add(t.Context(), e))
	files := []string{StoredPage("2026-01-02T03:04:05Z", e.Bundle), IndexFile, PagesDir + "/lab-quick.html"}
	for _, full := range []bool{false, true} {
		if full {
			n := 0
			must(t, x.Replace(t.Context(), nil, func() (index.Entry, bool, error) {
				n++
				return storedRun(t, true), n == 1, nil
			}))
		}
		_, err := BuildStore(t.Context(), x, dir, Option{})
		must(t, err)
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(dir, name))
			must(t, err)
			if strings.Contains(string(text), "the index lacks its results") == full {
				t.Errorf("%s, results in the index: %v\n%s", name, full, text)
			}
		}
	}
}

// second is what second runs say of a bundle.
type second struct{ digest, key, text string }

func (a second) Replicated() (map[string]string, error) {
	return map[string]string{a.digest: a.key}, nil
}

func (a second) Tell(context.Context, string) ([]string, error) { return []string{a.text}, nil }

// The page of a run says what second runs say of it, and is written again when that changes.
func TestBuildStoreWithReplications(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	x, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.sqlite"))
	must(t, err)
	defer x.Close()
	e := storedRun(t, true)
	must(t, x.Add(t.Context(), e))
	for _, tt := range []struct {
		again    index.Again
		want     string
		unwanted string
	}{
		{nil, "<h2 id=\"runs\">", "Replications"},
		{second{e.Bundle, "1", "holds on <b>1 of 1"}, "<li>holds on &lt;b&gt;1 of 1</li>", "<b>"},
		{second{e.Bundle, "1", "not read, as the key did not change"}, "holds on &lt;b&gt;1", "not read"},
		{second{e.Bundle, "2", "holds on 14 of 17 machines"}, "<li>holds on 14 of 17 machines</li>", "1 of 1"},
		{nil, "<h2 id=\"runs\">", "Replications"},
	} {
		x.Again = tt.again
		_, err := BuildStore(t.Context(), x, dir, Option{})
		must(t, err)
		text, err := os.ReadFile(filepath.Join(dir, StoredPage("2026-01-02T03:04:05Z", e.Bundle)))
		must(t, err)
		if !strings.Contains(string(text), tt.want) || strings.Contains(string(text), tt.unwanted) {
			t.Errorf("%+v: no %q, or %q:\n%s", tt.again, tt.want, tt.unwanted, text)
		}
	}
}

// A page of a lab file keeps its name: pages of months that are over have links to it.
func TestPagesKeepTheirNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	x, err := index.Open(t.Context(), filepath.Join(t.TempDir(), "index.sqlite"))
	must(t, err)
	defer x.Close()
	want := map[string]string{"a.b": "lab-a-b.html", "a b": "lab-a-b-2.html", "a-b-2": "lab-a-b-2-2.html"}
	for n, lab := range []string{"a.b", "a b", "a-b-2"} { // "a b" sorts before "a.b"
		e := storedRun(t, true)
		e.Bundle, e.Record.Lab = "sha256:"+strings.Repeat(string(rune('a'+n)), 64), lab
		must(t, x.Add(t.Context(), e))
		for _, force := range []bool{false, true} {
			_, err := BuildStore(t.Context(), x, dir, Option{Force: force})
			must(t, err)
			for _, old := range []string{"a.b", "a b", "a-b-2"}[:n+1] {
				text, err := os.ReadFile(filepath.Join(dir, PagesDir, want[old]))
				must(t, err)
				if !strings.Contains(string(text), "<h1>"+old+"</h1>") {
					t.Errorf("with %d lab files, forced %v: %s is not about %q", n+1, force, want[old], old)
				}
			}
		}
	}
}

func TestKeptSlugs(t *testing.T) {
	got := keptSlugs(map[string]string{"a b": "a-b-2", "a.b": "a-b", "c": "../x", "d": "d-x", "e": "e-02", "f": "f-2",
		"f!": "f-2", "g": ""})
	if want := map[string]string{"a b": "a-b-2", "a.b": "a-b", "f": "f-2"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// Text that a person wrote into the index is harmless, and a wrong time no reason to panic.
func TestBuildStoreWithWrongTimes(t *testing.T) {
	place, dir := filepath.Join(t.TempDir(), "index.sqlite"), filepath.Join(t.TempDir(), "site")
	x, err := index.Open(t.Context(), place)
	must(t, err)
	defer x.Close()
	e := storedRun(t, true)
	e.Record.Lab, e.Record.Labels = `<i>"lab`, map[string]string{"x": "<i>'label"}
	must(t, x.Add(t.Context(), e))
	db, err := driver.Open("file:" + place)
	must(t, err)
	defer db.Close()
	for _, began := range []string{"", "x", "2026-1", "<b>\x1b[1m"} {
		_, err = db.Exec("UPDATE run SET began = ?", began)
		must(t, err)
		if _, err := BuildStore(t.Context(), x, dir, Option{Force: true}); err != nil {
			t.Errorf("%q: %v", began, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, searchFile))
		must(t, err)
		if strings.Contains(string(text), "<i>") || strings.Contains(string(text), "<b>") ||
			!strings.Contains(string(text), "x &lt;i&gt;&#39;label") {
			t.Errorf("%q: the search is not escaped", began)
		}
	}
}
