package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload/http"
	"bakeoff/publish/chart/charttest"
	"bakeoff/reach/wire"
)

// Every part has a name of its own that stays the same, and leads to its place in the
// report.
func TestParts(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{}))
	parts, err := Parts(dir, Option{})
	must(t, err)
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	seen := map[string]bool{}
	claims := 0
	for _, x := range parts {
		if seen[x.Name] || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(x.Name) {
			t.Errorf("the name %q", x.Name)
		}
		seen[x.Name] = true
		alone := strings.HasPrefix(x.Name, "counters-") && len(x.Table.Rows) > 0
		if n := len(x.Claims); x.Figure == nil && n == 0 && !alone || x.Figure != nil && n > 0 {
			t.Errorf("%s has a figure: %v, and %d claims", x.Name, x.Figure != nil, n)
		}
		file, id, _ := strings.Cut(x.Href, "#")
		if file != store.ReportFile || !strings.Contains(string(page), `id="`+id+`"`) {
			t.Errorf("%s leads to %s", x.Name, x.Href)
		}
		if x.Name != "verdicts" {
			claims += len(x.Claims)
		}
	}
	for _, want := range []string{"verdicts", "verdict-http-50-throughput", "difference-syscall-rate",
		"values-files-create", "drift-files-create", "cost-http-50-cpu-per-request", "bottleneck-http-50", "twin", "cells"} {
		if !seen[want] {
			t.Errorf("no part %s", want)
		}
	}
	if parts[0].Name != "verdicts" || len(parts[0].Claims) != claims || claims != 15 {
		t.Errorf("%s has %d claims, its parts have %d", parts[0].Name, len(parts[0].Claims), claims)
	}
	if _, err := Parts(t.TempDir(), Option{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("of an empty folder: %v", err)
	}
}

// A page of more than 500 KB has pages of cells; nothing is lost, no link is dead, and a
// smaller report removes them again. A single page has everything, whatever its size.
func TestLargeReportsHavePagesOfCells(t *testing.T) {
	d, p := simulated(shape{contenders: append([]string{"host"}, numbered("c", 8)...), cells: numbered("cell", 6),
		blocks: 8, judged: 6})
	dir := folder(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{Files: true}))
	report := filepath.Join(dir, "report")
	pages, err := filepath.Glob(filepath.Join(report, "*.html"))
	must(t, err)
	if len(pages) != 7 {
		t.Fatalf("pages %q", pages)
	}
	var single bytes.Buffer
	must(t, Page.Folder(&single, dir, Option{}))
	if single.Len() < pageLimit || strings.Contains(single.String(), `href="../`) {
		t.Errorf("a single page of %d bytes, or with links to other files", single.Len())
	}
	drawn := regexp.MustCompile(`<figure class="chart" id="([^"]+)"`)
	all := map[string]int{}
	for _, m := range drawn.FindAllStringSubmatch(single.String(), -1) {
		all[m[1]]--
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		must(t, err)
		sound(t, dir, string(text))
		for _, m := range drawn.FindAllStringSubmatch(string(text), -1) {
			all[m[1]]++
		}
	}
	for id, n := range all {
		if n != 0 {
			t.Errorf("the figure %s is on %+d pages more than once", id, n)
		}
	}
	parts, err := Parts(dir, Option{})
	must(t, err)
	for _, x := range parts {
		file, id, _ := strings.Cut(x.Href, "#")
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), `id="`+id+`"`) {
			t.Errorf("%s leads to %s: %v", x.Name, x.Href, err)
		}
	}
	must(t, Write(dir, Option{Single: true}))
	left, err := fs.Glob(os.DirFS(report), "*/*")
	must(t, err)
	if pages, _ := filepath.Glob(filepath.Join(report, "*.html")); len(pages) != 1 || len(left) > 0 {
		t.Errorf("left: %q %q", pages, left)
	}
}

// Each figure can be downloaded as SVG, PNG and CSV.
func TestFilesOfFigures(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{Files: true}))
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	doc := sound(t, dir, string(page))
	figures := len(doc.all("figure"))
	for _, kind := range []string{"svg", "png", "csv"} {
		files, err := filepath.Glob(filepath.Join(dir, "report", figuresDir, "*."+kind))
		must(t, err)
		if len(files) != figures || figures < 20 {
			t.Errorf("%d files %s of %d figures", len(files), kind, figures)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			must(t, err)
			switch kind {
			case "svg":
				err = xml.Unmarshal(data, new(struct{ XMLName xml.Name }))
			case "png":
				_, err = png.Decode(bytes.NewReader(data))
			case "csv":
				var rows [][]string
				if rows, err = csv.NewReader(bytes.NewReader(data)).ReadAll(); err == nil && len(rows) < 2 {
					err = fmt.Errorf("%d rows", len(rows))
				}
			}
			if err != nil {
				t.Errorf("%s: %v", filepath.Base(name), err)
			}
		}
	}
}

// What would change a verdict is computed from its interval: the margin that is named is
// the one at which the verdict changes.
func TestWhatWouldChange(t *testing.T) {
	d, p := example()
	r := analysis.Analyse(d)
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	if n := len(doc.ofClass("changes")); n != 5 {
		t.Errorf("%d boxes, want one for each cell and metric", n)
	}
	for _, want := range []string{"decided at the look after", "without ceiling, the interval would say equivalent",
		"more blocks would decide it with 80 % probability", "proves nothing"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	b := newBuilder(&contents{results: copied(t, r)})
	checked := 0
	for _, c := range b.results.Comparisons {
		nearest, farthest, ok := b.marginsReached(c)
		_, word := markAndWord(c)
		if !ok || !c.Primary || c.Scale != "ratio" || len(c.Gates) > 0 {
			continue
		}
		checked++
		inside := func(margin float64) bool {
			lo, hi := analysis.RatioRegion(margin).Ratios()
			return lo <= *c.CI[0] && *c.CI[1] <= hi
		}
		if !inside(farthest*1.0001) || inside(farthest*.9999) {
			t.Errorf("%s at %s: equivalent from %g on, %v", c.Contender, c.Cell, farthest, c.CI)
		}
		if crosses := *c.CI[0] <= 1 && *c.CI[1] >= 1; crosses != (nearest == 0) {
			t.Errorf("%s at %s (%s): nearest %g, %v", c.Contender, c.Cell, word, nearest, c.CI)
		}
	}
	if checked < 8 {
		t.Errorf("%d comparisons", checked)
	}
	for margin, want := range map[float64][2]string{.0123456: {"1.23 %", "1.24 %"}, .05: {"5 %", "5 %"}, 3.21987: {"321 %",
		"322 %"}} {
		if got := [2]string{marginText(margin, false), marginText(margin, true)}; got != want {
			t.Errorf("%g is %q, want %q", margin, got, want)
		}
	}
}

// The method is told from what was done: it has the numbers of the plan and the journal.
func TestProseAndCitation(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	for _, want := range []string{
		"bakeoff 0.1.0 compared chroot (chroot), crun (oci) and microvm (qemu) with the baseline host (host)",
		"The work was 4 cells: sha256-16k (crypto", "Each environment had 1 CPU and 512MiB of memory.",
		"drawn from the seed 42", "then in the mirrored order", "Every block had new environments.",
		"in 13 blocks that count and 1 void block", "at the looks after 8, 12 blocks, which spend alphas of 0.02, 0.03",
		"is ±2 %", "Cite this run", "Measured by bakeoff 0.1.0, 21 November 2026.", "@misc{bakeoff-",
		"year = {2026}", "month = nov"} {
		if !strings.Contains(strings.ReplaceAll(doc.text, "  ", " "), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if got := escapeTeX(`a_b{c}\d%`); got != `a\_b\{c\}\textbackslash d\%` {
		t.Errorf("in BibTeX: %s", got)
	}
}

// The latencies of all trials of a contender make one line.
func TestLatenciesOnThePage(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, analysis.Analyse(d))
	run, err := store.Resume(dir)
	must(t, err)
	for i, name := range []string{"host", "crun"} {
		h := http.NewHistogram()
		for k := range int64(5000) {
			http.Record(h, (k+1)*int64(i+1)*1000)
		}
		text, err := http.EncodeHistogram(h)
		must(t, err)
		data, err := json.Marshal(wire.Result{Schema: wire.WorkSchema, Histogram: text})
		must(t, err)
		slot := plan.Slot{Block: 100 + i, Contender: name, Cell: "http-50"}
		raw, err := run.WriteRaw(slot, map[string][]byte{"work.json": data})
		must(t, err)
		must(t, run.Append(store.Line{Type: store.LineTrial, Block: slot.Block, Contender: name, Status: store.OK,
			Trial: &store.Trial{Cell: "http-50", Raw: raw}}))
	}
	must(t, run.Close())
	must(t, Write(dir, Option{}))
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	doc := sound(t, dir, string(page))
	for _, want := range []string{"http-50, latency by quantile", "host 1 5000 2.50 ms 4.50 ms 4.95 ms",
		"crun 1 5000 5.00 ms 9.00 ms"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// A badge says in words what its color says, and a run that is not to be trusted says so.
func TestBadge(t *testing.T) {
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	for name, x := range map[string]struct {
		change func()
		want   []string
	}{
		"verdicts": {func() {}, []string{"1 better, 4 worse, 5 equivalent, 1 inconclusive", badgeColors["worse"]}},
		"hostile":  {func() { r.Ended = "" }, []string{"unfinished"}},
		"twin":     {func() { r.Twin.Different = true }, []string{"do not trust: the twin differs", badgeAlarm}},
		"none":     {func() { r.Twin, r.Comparisons, r.Missing = nil, nil, nil }, []string{"no verdict", badgePlain}},
	} {
		r = copied(t, analysis.Analyse(d))
		x.change()
		var out strings.Builder
		must(t, Badge.Folder(&out, folder(t, d, p, r), Option{}))
		svg := out.String()
		must(t, xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })))
		for _, want := range x.want {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: no %q in %s", name, want, svg)
			}
		}
	}
	svg := drawBadge("a", charttest.Hostile, badgePlain, Notice{Twin: charttest.Hostile})
	if strings.Contains(svg, "<script") {
		t.Errorf("unescaped: %s", svg)
	}
	for _, color := range append(slices.Collect(maps.Values(badgeColors)), badgeName, badgeAlarm, badgePlain) {
		if got := contrast(t, map[string]string{"a": "#ffffff", "b": color}, "a", "b"); got < 4.5 {
			t.Errorf("white on %s has a contrast of %.2f", color, got)
		}
	}
}

// The Markdown of a folder names the lab file and how the run differs from its plan.
func TestMarkdownOf(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, analysis.Analyse(d))
	var out strings.Builder
	must(t, Markdown.Folder(&out, dir, Option{}))
	if !strings.HasPrefix(out.String(), "**static-web**: 3 contenders against host") ||
		strings.Count(out.String(), "\n| ") < 15 {
		t.Errorf("%s", out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, store.PlanFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, store.PlanFile), append(text, '\n'), 0o666))
	out.Reset()
	must(t, Markdown.Folder(&out, dir, Option{}))
	if !strings.Contains(out.String(), "**Not as planned.**") {
		t.Errorf("%s", out.String())
	}
}
