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
	write(t, dir, "src/a.md", embedding["src/a.md"]+"[figure](run:"+quickRun+"/difference-http-50-throughput)\n\n"+
		"![Few](run:"+quickRun+"/verdict-http-50-throughput)\n")
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	// The page of a stranger's run may hold anything; it is written again.
	write(t, dir, "runs/"+quickRun+"/report/index.html", "<script>alert(1)</script>")
	r := buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	post := got["2025/01/01/a/index.html"]
	for _, want := range []string{`<a href="../../../../runs/` + quickRun + `/report/">it</a>`,
		`<ul class="run-claims"><li>`,
		`<svg`, "<th scope=\"col\">", `report/index.html#`,
		`<td data-label="cell">http-50</td><td data-label="metric">throughput</td><td data-label="contender">crun</td>`,
		`report/index.html#figure-difference-http-50-throughput">figure</a>`} {
		if !strings.Contains(post, want) {
			t.Errorf("the post lacks %s:\n%s", want, post)
		}
	}
	if len(r.Warnings) != 0 {
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

// A reference to what no run has fails the build, with its place and the names that there
// are. A draft may have one.
func TestAnUnknownFigureFailsTheBuild(t *testing.T) {
	dir := blog(t, map[string]string{"src/a.md": "---\ntitle: A\ndate: 2025-01-01\n---\n\n![x](run:" + quickRun +
		"/speed)\n[y](run:missing/x) [z](run:../../../etc/passwd)\n\n![w](run:" + quickRun + "/wrong/table)\n",
		"src/b.md": "---\ntitle: B\ndate: 2025-01-01\ndraft: true\n---\n![x](run:none/x)\n"})
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	_, err := tryBuild(dir, Option{})
	if err == nil {
		t.Fatal("it builds")
	}
	for _, want := range []string{"src/a.md:6: run:" + quickRun + "/speed: the run has no such figure; use verdicts,",
		"difference-http-50-throughput", "src/a.md:7: run:missing/x: runs has no such run",
		"src/a.md:7: run:../../../etc/passwd", "src/a.md:9: run:" + quickRun + "/wrong/table"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "b.md") {
		t.Errorf("a draft fails the build: %v", err)
	}
}
