package report

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

func TestIndex(t *testing.T) {
	runs := t.TempDir()
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	dir := folder(t, d, p, r)
	must(t, Write(dir, Option{}))
	must(t, os.Rename(dir, filepath.Join(runs, "20260101T000000Z-static-web")))

	r.Twin.Different = true
	must(t, os.Rename(folder(t, d, p, r), filepath.Join(runs, "20260102T000000Z-static-web")))

	odd := folder(t, d, p, r)
	must(t, Write(odd, Option{}))
	must(t, os.Rename(odd, filepath.Join(runs, `20260101T000001Z-50%25 #1?:x`)))
	hostile := folder(t, d, p, r)
	must(t, os.WriteFile(filepath.Join(hostile, store.ResultsFile), []byte(`{"schema":"<script>"}`), 0o666))
	must(t, os.Rename(hostile, filepath.Join(runs, `20260103T000000Z-<img src=x>&"#?`)))

	must(t, os.Mkdir(filepath.Join(runs, "notes"), 0o777))
	must(t, os.Symlink("/etc", filepath.Join(runs, "etc")))

	must(t, Index(runs, Option{Version: "0.1.0"}))
	must(t, Index(runs, Option{Version: "0.1.0"})) // a second time replaces it
	data, err := os.ReadFile(filepath.Join(runs, IndexFile))
	must(t, err)
	doc := parse(t, string(data))
	for _, want := range []string{"20260101T000000Z-static-web 3 contenders against host", "5 equivalent",
		"20260102T000000Z-static-web Do not trust this run",
		`<img src=x>&"#? This run is incomplete: results.json: schema is "<script>"`, "It has no page yet"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the index does not say %q:\n%s", want, doc.text)
		}
	}
	if strings.Contains(doc.text, "notes") || strings.Contains(doc.text, "etc") {
		t.Error("the index lists a folder that is not a run")
	}
	policed(t, doc)
	if len(doc.all("img")) > 0 {
		t.Error("a name came through unescaped")
	}
	for _, a := range doc.all("a") {
		href, _ := attr(a, "href")
		u, err := url.Parse(href)
		must(t, err)
		if _, err := os.Stat(filepath.Join(runs, u.Path)); err != nil {
			t.Error(err)
		}
	}
	if strings.Index(doc.text, "20260102T") > strings.Index(doc.text, "20260101T") {
		t.Error("the newest run is not first")
	}
	if err := Index(t.TempDir(), Option{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a folder without runs: %v", err)
	}
}
