package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/store"
)

// ofClass are the elements of one class.
func (d document) ofClass(class string) []*html.Node {
	return slices.DeleteFunc(slices.Clone(d.nodes), func(n *html.Node) bool {
		c, _ := attr(n, "class")
		return !slices.Contains(strings.Fields(c), class)
	})
}

// textOf is what is shown of an element.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "\u00a0", " ")), " ")
}

// texts are what is shown of elements.
func texts(ns []*html.Node) (out []string) {
	for _, n := range ns {
		out = append(out, textOf(n))
	}
	return out
}

// A run in which everything is missing has no comparison of the baseline with itself.
func TestTheBaselineIsNotCountedAgainstItself(t *testing.T) {
	d, _ := example()
	d.Observations, d.Missing, d.Cells = nil, nil, d.Cells[:1]
	for _, c := range d.Contenders {
		d.Missing = append(d.Missing, analysis.Missing{Contender: c.Name, Cell: d.Cells[0].Name, Reason: "no disk"})
	}
	var out strings.Builder
	if err := Text.Results(&out, analysis.Analyse(d), nil, Option{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 comparisons: 3 missing.", "host, host~twin have no result at sha256-16k: no disk."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
}

// The header counts every comparison once, in one order, whatever the run.
func TestTheHeaderCountsTheVerdicts(t *testing.T) {
	d, p := example()
	r := analysis.Analyse(d)
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	got := textOf(doc.ofClass("tally")[0])
	want := "15 comparisons: ▲ 1 better ▼ 4 worse = 5 equivalent " +
		"? 1 inconclusive ? 2 inconclusive (check failed) ∅ 2 missing"
	if got != want {
		t.Errorf("the header says %q, want %q", got, want)
	}
	want = "Margin ±2 % is equivalent; the chance of any false better or worse is at most 5 %"
	if !strings.Contains(doc.text, want) {
		t.Errorf("the header does not say %q", want)
	}
	if strings.Index(page, `class="tally"`) > strings.Index(page, "<main") {
		t.Error("the counts are not in the header")
	}
	flat := strings.Join(strings.Fields(text(t, r, Terminal{})), " ")
	want = "15 comparisons: 1 better, 4 worse, 5 equivalent, 1 inconclusive, 2 inconclusive (check failed), 2 missing."
	if !strings.Contains(flat, want) {
		t.Errorf("the text does not say %q", want)
	}
}

// One table has every verdict, with its difference, and leads to the sentences.
func TestVerdictsAtAGlance(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	tables := doc.ofClass("glance")
	if len(tables) != 1 {
		t.Fatalf("%d tables", len(tables))
	}
	got := textOf(tables[0])
	for _, want := range []string{
		"cell chroot crun microvm",
		"syscall rate, higher is better = equivalent, −0.2 % ▼ worse, −4.4 % ▼ worse, 30.9 % of the rate",
		"files create, lower is better ? inconclusive ▲ better, −11.1 % ▼ worse, ≥ 1.78×",
		"http-50 throughput, higher is better = equivalent, −0.2 % ? check failed ∅ missing",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table does not say %q:\n%s", want, got)
		}
	}
}

// Two metrics of one cell have links to two places: a list of links, as screen
// readers make it, tells them apart.
func TestLinksOfTheGlanceHaveNames(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	leads := map[string]string{}
	for _, a := range sound(t, dir, page).all("a") {
		href, _ := attr(a, "href")
		name, _ := attr(a, "aria-label")
		if !strings.HasPrefix(href, "#verdict-") {
			continue
		}
		if other, ok := leads[name]; ok || !strings.HasPrefix(name, textOf(a)+", ") {
			t.Errorf("the link %q to %s is called %q, as that to %q", textOf(a), href, name, other)
		}
		leads[name] = href
	}
	if len(leads) != 5 {
		t.Errorf("%d links", len(leads))
	}
}

// What there is more of stands below each other, and a table of three is none.
func TestGlanceIsAsNarrowAsCanBe(t *testing.T) {
	for _, x := range []struct {
		contenders, cells int
		corner            string // "": no table
	}{{2, 4, "cell"}, {5, 1, "contender"}, {3, 1, ""}, {1, 4, "cell"}} {
		d, p := simulated(shape{contenders: append([]string{"host"}, numbered("c", x.contenders)...),
			cells: numbered("cell", x.cells), blocks: 8, judged: x.cells})
		dir, page := written(t, d, p, analysis.Analyse(d))
		tables := sound(t, dir, page).ofClass("glance")
		switch {
		case x.corner == "" && len(tables) > 0:
			t.Errorf("%d × %d: a table", x.contenders, x.cells)
		case x.corner != "" &&
			(len(tables) != 1 || !strings.HasPrefix(textOf(tables[0]), "Verdicts at a glance "+x.corner+" ")):
			t.Errorf("%d × %d: %q, want a table by %s", x.contenders, x.cells, texts(tables), x.corner)
		}
	}
}

// Cells that have no verdict by design are counted: nothing was forgotten.
func TestCellsWithoutAVerdictAreCounted(t *testing.T) {
	d, p := simulated(shape{contenders: []string{"host", "crun"}, cells: numbered("cell", 6), blocks: 8, judged: 2})
	r := analysis.Analyse(d)
	dir, page := written(t, d, p, r)
	want := "4 of 6 cells have no primary metric and no verdict: see all cells"
	if !strings.Contains(sound(t, dir, page).text, want) {
		t.Errorf("the page does not say %q", want)
	}
	jumps := 0
	for _, n := range parse(t, page).ofClass("jump") {
		jumps += strings.Count(textOf(n), "cell-")
	}
	if jumps != 6 {
		t.Errorf("the raw values of %d of 6 cells are led to", jumps)
	}
	want = "4 of 6 cells have no primary metric and no verdict; see the page"
	if !strings.Contains(strings.Join(strings.Fields(text(t, r, Terminal{})), " "), want) {
		t.Errorf("the text does not say %q", want)
	}
}

// A verdict that a check took away says so in words and leads to the check,
// which says what it means once, however many comparisons failed it.
func TestFailedChecksAreExplained(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	if n := strings.Count(doc.text, "lower is better; check failed: crun"); n != 1 {
		t.Errorf("%d figures of the cost say whose check failed", n)
	}
	if strings.Contains(doc.text, "gated") {
		t.Error("a word of the program's own")
	}
	led := 0
	for _, a := range doc.all("a") {
		if href, _ := attr(a, "href"); href == "#check-1" {
			led++
		}
	}
	if led < 3 { // two sentences, and an entry of the table
		t.Errorf("%d links to the check", led)
	}
	for _, h := range doc.all("h4") {
		if id, _ := attr(h, "id"); id == "check-1" && textOf(h) != "ceiling" {
			t.Errorf("the check is called %q", textOf(h))
		}
	}
	if n := strings.Count(doc.text, "Meaning: "); n != 1 {
		t.Errorf("%d explanations of one check", n)
	}
}

// What a person chose, or varied, is beside a cell's name; what the workload
// has by default is folded away.
func TestDefaultsAreFolded(t *testing.T) {
	d, p := example()
	d.Cells = append(slices.Clone(d.Cells), analysis.Cell{Name: "sha256-1m", Workload: "crypto",
		Params: param.Values{"algorithm": "sha256", "block": "1MiB", "time": "2s"}, Metrics: d.Cells[0].Metrics})
	dir := folder(t, d, p, analysis.Analyse(d))
	must(t, Write(dir, Option{Defaults: map[string]param.Values{
		"crypto": {"algorithm": "sha256", "block": "16KiB", "time": "1s"},
		"files":  {"count": "2000", "size": "4KiB"},
	}}))
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	doc := sound(t, dir, string(page))
	shown, folded := map[string]bool{}, map[string]bool{}
	for _, n := range doc.all("code") {
		if inside(n, "defaults") {
			folded[textOf(n)] = true
		} else {
			shown[textOf(n)] = true
		}
	}
	for _, want := range []string{"crypto block=16KiB time=2s", "files", "http connections=50 server=nginx time=5s"} {
		if !shown[want] {
			t.Errorf("not shown: %q; there are %v", want, shown)
		}
	}
	for _, want := range []string{"algorithm=sha256", "count=2000 size=4KiB"} {
		if !folded[want] {
			t.Errorf("not folded: %q; there are %v", want, folded)
		}
	}
}

// A twin without a difference is good news only if a difference could have been found.
func TestTheTwinSaysWhetherItWasTested(t *testing.T) {
	d, _ := example()
	r := analysis.Analyse(d)
	if r.Twin == nil || r.Twin.Different {
		t.Fatalf("the example has no quiet twin: %+v", r.Twin)
	}
	says := func() string { return NoticeOf(r, nil).Twin }
	if got := says(); !strings.Contains(got, ": no difference found, as it should be (") {
		t.Errorf("a quiet twin: %q", got)
	}
	r.Blocks = 3
	for i := range r.Twin.Comparisons { // so few blocks have no interval
		r.Twin.Comparisons[i].CI = analysis.Interval{}
	}
	if got := says(); !strings.HasSuffix(got, "It was not tested: 3 blocks cannot show a difference.") {
		t.Errorf("a twin of three blocks: %q", got)
	}
	for i := range r.Twin.Comparisons {
		r.Twin.Comparisons[i].Gates = []analysis.Gate{{Name: "cpu-wait"}}
	}
	if got := says(); !strings.HasSuffix(got, "It was not tested: a check failed, or no look was reached.") {
		t.Errorf("a twin whose checks failed: %q", got)
	}
}
