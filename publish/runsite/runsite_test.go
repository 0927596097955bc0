package runsite

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
	"bakeoff/lab/store/storetest"
	"bakeoff/publish/chart/charttest"
	"bakeoff/publish/report"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder holds two runs that the program made, and a copy of the first under another name.
func folder(t testing.TB) (dir string, names []string) {
	t.Helper()
	dir = t.TempDir()
	archives, err := filepath.Glob("../../lab/evidence/testdata/*.tar.gz")
	must(t, err)
	for _, a := range archives {
		storetest.Unpack(t, a, dir)
		names = append(names, strings.TrimSuffix(filepath.Base(a), ".tar.gz"))
	}
	if len(names) < 2 {
		t.Fatal(names)
	}
	must(t, os.CopyFS(filepath.Join(dir, "20261124T000000Z-again"), os.DirFS(filepath.Join(dir, names[0]))))
	return dir, append(names, "20261124T000000Z-again")
}

// page reads a page and checks what holds of every page: one script at most, ours; the
// policy; links that lead to files inside of the folder.
func page(t testing.TB, dir, name string) (*html.Node, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	root, err := html.Parse(strings.NewReader(string(data)))
	must(t, err)
	var text strings.Builder
	got := ""
	for n := range root.Descendants() {
		switch n.Type {
		case html.TextNode:
			if n.Parent.Data != "style" && n.Parent.Data != "script" {
				text.WriteString(n.Data + " ")
			}
		case html.ElementNode:
			if n.Data == "script" && n.FirstChild.Data != filterJS || n.Data == "img" || n.Data == "iframe" {
				t.Errorf("%s: an element %s", name, n.Data)
			}
			for _, a := range n.Attr {
				if a.Key == "content" && strings.HasPrefix(a.Val, "default-src") {
					got = a.Val
				}
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
					t.Errorf("%s: an attribute %s=%q", name, a.Key, a.Val)
				}
				if a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
					leads(t, dir, name, a.Val)
				}
			}
		}
	}
	if got != policy {
		t.Errorf("%s: the policy is %q", name, got)
	}
	return root, strings.Join(strings.Fields(text.String()), " ")
}

// leads checks that a link of a page leads to a file of the folder.
func leads(t testing.TB, dir, page, href string) {
	t.Helper()
	u, err := url.Parse(href)
	must(t, err)
	path := filepath.Join(dir, filepath.Dir(page), u.Path)
	if rel, err := filepath.Rel(dir, path); err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(rel, "..") {
		t.Errorf("%s: a link to %q", page, href)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("%s: %v", page, err)
	}
}

// pagesIn are the pages of a site.
func pagesIn(t testing.TB, dir string) []string {
	t.Helper()
	out := []string{IndexFile}
	entries, err := os.ReadDir(filepath.Join(dir, PagesDir))
	must(t, err)
	for _, e := range entries {
		out = append(out, PagesDir+"/"+e.Name())
	}
	return out
}

func build(t testing.TB, dir string) Summary {
	t.Helper()
	sum, err := Build(dir, Option{Report: report.Option{Version: "0.1.0"}})
	must(t, err)
	return sum
}

// A folder of runs becomes an index, a page for each thing to browse by, and a report of
// each run.
func TestBuild(t *testing.T) {
	dir, names := folder(t)
	sum := build(t, dir)
	if sum.Runs != 3 || sum.Read != 3 || sum.Reports != 3 || sum.Pages != sum.Written || sum.Pages < 8 {
		t.Errorf("%+v", sum)
	}
	for _, name := range pagesIn(t, dir) {
		page(t, dir, name)
	}
	_, text := page(t, dir, IndexFile)
	for _, want := range []string{"3 runs, the newest first.", "By workload", "By contender", "By machine", "By verdict",
		"quick", "failures"} {
		if !strings.Contains(text, want) {
			t.Errorf("the index does not say %q:\n%s", want, text)
		}
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name, filepath.FromSlash(store.ReportFile))); err != nil {
			t.Error(err)
		}
	}
	e, _, err := report.Describe(filepath.Join(dir, names[0]))
	must(t, err)
	_, text = page(t, dir, PagesDir+"/contender-"+report.Slug(e.Decisions[0].Contender)+".html")
	if d := e.Decisions[0]; !strings.Contains(text, d.Cell+" "+d.Metric+" "+d.Contender+" "+e.Baseline) {
		t.Errorf("the page of a contender lacks the verdict %+v:\n%s", d, text)
	}
}

// What did not change is neither read nor written again, and a run that is removed leaves
// no page.
func TestBuildAgain(t *testing.T) {
	dir, names := folder(t)
	first := build(t, dir)
	if sum := build(t, dir); sum.Read != 0 || sum.Written != 0 || sum.Reports != 0 {
		t.Errorf("nothing changed, and %+v", sum)
	}
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(dir, names[1], store.ResultsFile), later, later))
	if sum := build(t, dir); sum.Read != 1 || sum.Reports != 0 || sum.Written == 0 || sum.Written >= first.Pages {
		t.Errorf("one run changed, and %+v of %d pages", sum, first.Pages)
	}
	must(t, os.RemoveAll(filepath.Join(dir, names[1])))
	sum := build(t, dir)
	if sum.Runs != 2 || sum.Removed == 0 || len(pagesIn(t, dir))+sum.Runs != sum.Pages { // each run has a page
		t.Errorf("a run was removed, and %+v; there are %q", sum, pagesIn(t, dir))
	}
	must(t, os.WriteFile(filepath.Join(dir, cacheFile), []byte("{"), 0o666))
	if sum := build(t, dir); sum.Read != 2 {
		t.Errorf("without a cache: %+v", sum)
	}
	if _, err := Build(t.TempDir(), Option{}); !fault.Is(err, fault.NotFound) || fault.Fix(err) == "" {
		t.Errorf("a folder without runs: %v", err)
	}
}

// Runs of strangers say what they like, and bring reports of their own.
func TestHostileRuns(t *testing.T) {
	dir, names := folder(t)
	must(t, report.Write(filepath.Join(dir, names[0]), report.Option{}))
	nasty := charttest.Hostile
	results := filepath.Join(dir, names[0], store.ResultsFile)
	data, err := os.ReadFile(results)
	must(t, err)
	var r analysis.Results
	must(t, json.Unmarshal(data, &r))
	r.Baseline = nasty
	for i := range r.Contenders {
		r.Contenders[i].Name = strings.Repeat("../", i) + nasty
	}
	for i := range r.Cells {
		r.Cells[i].Name, r.Cells[i].Workload = nasty+"\x1b[2J", "../../../../tmp/"+nasty
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Contender, c.Cell, c.Verdict = "../"+nasty, nasty+"\x1b[2J", analysis.Verdict(nasty)
	}
	data, err = json.Marshal(r)
	must(t, err)
	must(t, os.WriteFile(results, data, 0o666))
	odd := filepath.Join(dir, `20261125T000000Z-50%25 #1?:<img src=x onerror=alert(1)>`)
	must(t, os.Rename(filepath.Join(dir, names[2]), odd))
	foreign := filepath.Join(odd, filepath.FromSlash(store.ReportFile))
	must(t, os.MkdirAll(filepath.Dir(foreign), 0o777))
	must(t, os.WriteFile(foreign, []byte("<!doctype html><script>alert(1)</script>"), 0o666))
	refresh := filepath.Join(dir, names[1], filepath.FromSlash(store.ReportFile))
	must(t, os.MkdirAll(filepath.Dir(refresh), 0o777))
	written, err := os.ReadFile(filepath.Join(dir, names[0], filepath.FromSlash(store.ReportFile)))
	must(t, err)
	elsewhere := string(written) + `<meta HTTP-equiv=refresh content="0;url=https://example.com">`
	must(t, os.WriteFile(refresh, []byte(elsewhere), 0o666))
	must(t, os.Symlink("/etc", filepath.Join(dir, "20261126T000000Z-etc")))
	build(t, dir)
	for _, name := range pagesIn(t, dir) {
		_, text := page(t, dir, name)
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%s: control characters", name)
		}
	}
	if _, text := page(t, dir, IndexFile); !strings.Contains(text, "<script>alert(1)</script>") {
		t.Errorf("a name is not shown as it is:\n%s", text)
	}
	for _, name := range []string{foreign, refresh} {
		if data, _ := os.ReadFile(name); strings.Contains(string(data), "<script>alert(1)") ||
			strings.Contains(string(data), "example.com") {
			t.Errorf("%s is still a stranger's", name)
		}
	}
	outside, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*.html"))
	if err != nil || len(outside) > 0 {
		t.Errorf("outside of the folder: %q %v", outside, err)
	}
}

// A link in place of the report does not lead the writer out of the folder.
func TestLinksOutOfTheFolder(t *testing.T) {
	dir, _ := folder(t)
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(dir, PagesDir)))
	if _, err := Build(dir, Option{}); err == nil {
		t.Error("the pages were written through a link")
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%d files outside of the folder", len(left))
	}
}
