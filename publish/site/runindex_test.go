package site

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmcdole/gofeed"

	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/publish/chart/charttest"
)

const failuresRun = "20261123T030347Z-failures"

// A site has an index of all its runs. Posts and runs link to each other, and one build
// makes both.
func TestRunsAndPostsInOneSite(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": "---\ntitle: Quick & easy\ndate: 2025-01-01\n---\n![Verdicts](run:" +
		quickRun + ")\n", "config.sh.local": "SITE_URL=https://example.com/blog\n"})
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	unpackRun(t, filepath.Join(dir, "runs"), failuresRun)
	if r := buildSite(t, dir, Option{}); r.Runs != 2 || r.Posts != 1 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	got := tree(t, filepath.Join(dir, "output"))
	for name, wants := range map[string][]string{
		"runs/index.html": {`href="` + quickRun + `/report/index.html"`, `href="` + failuresRun + `/report/index.html"`,
			`<a href="../2025/01/01/quick-and-easy/">Quick &amp; easy</a>`, `<a href="../">My Journal</a>`, `href="rss.xml"`},
		"index.html":                           {`<a href="runs/">Runs</a>`},
		"2025/01/01/quick-and-easy/index.html": {`href="../../../../runs/` + quickRun + `/report/index.html#verdicts"`},
		"sitemap.xml": {"<loc>https://example.com/blog/runs/</loc>",
			"<loc>https://example.com/blog/runs/" + failuresRun + "/report/</loc>"},
		"runs/" + failuresRun + "/report/index.html": {"Verdicts", `<a href="../../index.html">All runs</a>`},
		"search/index.html": {"All posts, Runs",
			`href="../runs/` + quickRun + `/report/index.html">quick</a>`},
		"search/index.json": {`"runs/` + failuresRun + `/report/index.html","failures"`, "crypto"},
		"runs/index/lab-quick.html": {`<a href="../../2025/01/01/quick-and-easy/">Quick &amp; easy</a>`,
			`<a href="../../">My Journal</a>`},
	} {
		for _, want := range wants {
			if !strings.Contains(got[name], want) {
				t.Errorf("%s lacks %s:\n%s", name, want, got[name])
			}
		}
	}
	f, err := gofeed.NewParser().ParseString(got["runs/rss.xml"])
	if err != nil || len(f.Items) != 2 || f.Items[0].Link != "https://example.com/blog/runs/"+failuresRun+"/report/" {
		t.Errorf("the feed of runs: %+v, %v", f, err)
	}
	checkLinks(t, dir)
}

// A damaged run is in the index, and the build warns about it each time.
func TestADamagedRunGivesAWarning(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": "---\ntitle: A\ndate: 2025-01-01\n---\ntext\n"})
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	if err := os.WriteFile(filepath.Join(dir, "runs", quickRun, "results.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := buildSite(t, dir, Option{})
		if len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "runs/"+quickRun+" cannot be read: results.json") {
			t.Errorf("%q", r.Warnings)
		}
	}
}

// What did not change is not made again. With one run more, neither the posts nor the
// reports of the other runs are.
func TestRunsAreBuiltIncrementally(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": "---\ntitle: A\ndate: 2025-01-01\n---\n[Run](run:" + quickRun + ")\n"})
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	first := buildSite(t, dir, Option{})
	if r := buildSite(t, dir, Option{}); r.Files.Written+r.Files.Removed != 0 {
		t.Errorf("nothing changed, and %+v", r.Files)
	}
	unpackRun(t, filepath.Join(dir, "runs"), failuresRun)
	report := filepath.Join(dir, "output", "runs", quickRun, "report", "index.html")
	before, err := os.Stat(report)
	if err != nil {
		t.Fatal(err)
	}
	r := buildSite(t, dir, Option{})
	if after, err := os.Stat(report); err != nil || !after.ModTime().Equal(before.ModTime()) || r.Files.Kept == 0 {
		t.Errorf("with one run more, the report of another was written again: %+v, %v", r.Files, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "runs", failuresRun)); err != nil {
		t.Fatal(err)
	}
	buildSite(t, dir, Option{})
	if r := buildSite(t, dir, Option{}); r.Files.Kept != first.Files.Kept+first.Files.Written {
		t.Errorf("a run was removed, and there are %+v files; before it came there were %+v", r.Files, first.Files)
	}
	write(t, dir, "config.sh.local", "ENABLE_RUN_INDEX=false\n")
	buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	if page := got["runs/"+quickRun+"/report/index.html"]; got["runs/index.html"] != "" || page == "" ||
		strings.Contains(got["index.html"], `href="runs/"`) || strings.Contains(page, "All runs") ||
		strings.Contains(got["search/index.html"], quickRun) {
		t.Error("without an index, something links to it, or the run of a post is not there")
	}
}

// A run whose results cannot be read, and one that says what it likes, do no harm.
func TestHostileRunsInASite(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": "---\ntitle: <script>alert(1)</script>\ndate: 2025-01-01\n---\n" +
		"[Run](run:" + quickRun + ")\n"})
	for _, id := range []string{quickRun, failuresRun} {
		unpackRun(t, filepath.Join(dir, "runs"), id)
	}
	change := func(id string, f func(*analysis.Results)) {
		name := filepath.Join(dir, "runs", id, store.ResultsFile)
		text, err := os.ReadFile(name)
		var r analysis.Results
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		f(&r)
		if text, err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "runs/"+id+"/"+store.ResultsFile, string(text))
	}
	change(quickRun, func(r *analysis.Results) {
		r.Baseline = charttest.Hostile
		r.Contenders[0].Name, r.Cells[0].Workload = "../../"+charttest.Hostile, "../../../x\x1b[2J"
	})
	write(t, dir, "runs/"+failuresRun+"/"+store.ResultsFile, `{"summaries":["<script>alert(1)</script>"]}`)
	buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	if text := got["runs/index.html"]; !strings.Contains(text, "This run cannot be read") ||
		got["runs/"+failuresRun+"/report/index.html"] != "" {
		t.Errorf("a damaged run is not in the index, or has a page:\n%s", text)
	}
	for name, text := range tree(t, filepath.Join(dir, "output")) {
		if strings.HasSuffix(name, ".html") && (strings.Contains(text, "<script>alert") || strings.Contains(text, "\x1b")) {
			t.Errorf("%s: foreign text is not escaped", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a file outside of the output")
	}
	checkLinks(t, dir)
}

func checkLinks(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if broken, checked, err := s.Check(); err != nil || len(broken) > 0 || checked < 50 {
		t.Errorf("%d links checked, broken: %+v, %v", checked, broken, err)
	}
}
