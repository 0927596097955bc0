package site

import (
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/lab/store/storetest"
)

const quickRun = "20261123T030217Z-quick"

// unpackRun puts a run that bakeoff made into a folder.
func unpackRun(t *testing.T, to, id string) {
	t.Helper()
	storetest.Unpack(t, "../../lab/evidence/testdata/"+id+".tar.gz", to)
}

// embedding is a site whose post shows a run.
var embedding = map[string]string{"src/a.md": "---\ntitle: A\ndate: 2025-01-01\n---\nSee [it](run:" + quickRun +
	").\n\n![Verdicts](run:" + quickRun + ")\n\n![Speed](run:" + quickRun + "/difference-http-50-throughput)\n\n" +
	"![Numbers](run:" + quickRun + "/difference-http-50-throughput/table)\n\n"}

func TestAPostEmbedsARun(t *testing.T) {
	dir := blog(t, embedding)
	write(t, dir, "src/a.md", embedding["src/a.md"]+"![None](run:missing/x)\n[nothing](run:"+quickRun+
		"/nothing) [figure](run:"+quickRun+"/difference-http-50-throughput)\n")
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	// The page of a stranger's run may hold anything; it is written again.
	write(t, dir, "runs/"+quickRun+"/report/index.html", "<script>alert(1)</script>")
	r := buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	post := got["2025/01/01/a/index.html"]
	for _, want := range []string{`<a href="../../../../runs/` + quickRun + `/report/">it</a>`,
		`<ul class="run-claims"><li>`,
		`<svg`, "<th scope=\"col\">", `report/index.html#`, "None (run:missing/x)", "<a>nothing</a>",
		`report/index.html#figure-difference-http-50-throughput">figure</a>`} {
		if !strings.Contains(post, want) {
			t.Errorf("the post lacks %s:\n%s", want, post)
		}
	}
	if all := strings.Join(r.Warnings, "\n"); len(r.Warnings) != 2 || !strings.Contains(all, "run:missing/x") ||
		!strings.Contains(all, "the run has no such figure") {
		t.Errorf("warnings %q", r.Warnings)
	}
	page := got["runs/"+quickRun+"/report/index.html"]
	if !strings.Contains(page, "Verdicts") || strings.Contains(page, "alert(1)") {
		t.Error("the copy of the run's page is not the one that bakeoff writes")
	}
	if got["runs/"+quickRun+"/results.json"] == "" || !strings.Contains(got["css/style.css"], ".run-figure") {
		t.Error("the evidence or the style of figures is missing")
	}
	for name := range got {
		if strings.Contains(name, "/raw/") {
			t.Errorf("raw output is published: %s", name)
		}
	}
	checkLinks(t, dir)
}
