package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"bakeoff/base/facts"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/safetext"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/judge/calibrate"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/publish/chart/charttest"
)

// written is the page of a run.
func written(t testing.TB, d analysis.Data, p plan.Plan, r analysis.Results) (dir, page string) {
	t.Helper()
	dir = folder(t, d, p, r)
	must(t, Write(dir, Option{Version: "0.1.0"}))
	data, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	return dir, string(data)
}

// document is what a browser sees of a page.
type document struct {
	root  *html.Node
	text  string // of all that is shown
	nodes []*html.Node
}

func parse(t testing.TB, page string) document {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	d := document{root: root}
	var b strings.Builder
	for n := range root.Descendants() {
		d.nodes = append(d.nodes, n)
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			b.WriteString(n.Data + " ")
		}
	}
	d.text = strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "\u00a0", " ")), " ")
	return d
}

func (d document) all(name string) []*html.Node {
	var out []*html.Node
	for _, n := range d.nodes {
		if n.Type == html.ElementNode && n.Data == name {
			out = append(out, n)
		}
	}
	return out
}

func attr(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func child(n *html.Node, name string) *html.Node {
	for c := range n.ChildNodes() {
		if c.Data == name {
			return c
		}
	}
	return nil
}

// policed checks that a page has no script and that its policy permits nothing
// but its style sheet.
func policed(t testing.TB, d document) {
	t.Helper()
	if n := len(d.all("script")); n > 0 {
		t.Errorf("the page has %d scripts", n)
	}
	styles := d.all("style")
	if len(styles) != 1 {
		t.Fatalf("%d style sheets", len(styles))
	}
	policy := ""
	for _, n := range d.all("meta") {
		if name, _ := attr(n, "http-equiv"); name == "Content-Security-Policy" {
			policy, _ = attr(n, "content")
		}
	}
	sum := sha256.Sum256([]byte(styles[0].FirstChild.Data))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'"
	if policy != want {
		t.Errorf("policy %q, want %q", policy, want)
	}
}

// sound checks what holds of every page, whatever is in the run folder.
func sound(t testing.TB, dir, page string) document {
	t.Helper()
	d := parse(t, page)
	policed(t, d)
	ids, level := map[string]bool{}, 0
	for _, n := range d.nodes {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "img", "iframe", "object", "embed", "link", "base", "form", "image", "foreignObject", "foreignobject":
			t.Errorf("an element %s", n.Data)
		case "h1", "h2", "h3", "h4":
			l := int(n.Data[1] - '0')
			// The alarm is the one thing that stands before the title.
			if l > level+1 && !inside(n, "alarm") {
				t.Errorf("heading %s after level %d", n.Data, level)
			}
			if !inside(n, "alarm") {
				level = l
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "srcset" || a.Key == "ping" {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					t.Errorf("id %q is used twice", a.Val)
				}
				ids[a.Val] = true
			}
			if strings.Contains(a.Val, "://") && a.Val != "http://www.w3.org/2000/svg" {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, safetext.Clip(a.Val, 80))
			}
		}
	}
	for _, n := range d.all("svg") {
		role, _ := attr(n, "role")
		if _, box := attr(n, "viewBox"); role != "img" || !box || child(n, "title") == nil || child(n, "desc") == nil {
			t.Error("an svg without role, viewBox, title or desc")
		}
	}
	tables(t, d)
	links(t, d, ids, dir)
	return d
}

// tables checks that every table tells a screen reader what it is and what
// each cell belongs to, and that a keyboard can scroll it.
func tables(t testing.TB, d document) {
	t.Helper()
	for _, n := range d.all("th") {
		if scope, _ := attr(n, "scope"); scope != "col" && scope != "row" && scope != "rowgroup" {
			t.Errorf("a head of a table has scope %q", scope)
		}
	}
	for _, n := range d.all("table") {
		name, _ := attr(n.Parent, "aria-label")
		stop, _ := attr(n.Parent, "tabindex")
		if class, _ := attr(n.Parent, "class"); class != "scroll" || name == "" || stop != "0" {
			t.Errorf("a table is in <%s class=%q aria-label=%q tabindex=%q>", n.Parent.Data, class, name, stop)
		}
	}
}

func inside(n *html.Node, class string) bool {
	for p := range n.Ancestors() {
		if c, _ := attr(p, "class"); c == class {
			return true
		}
	}
	return false
}

// links checks that every reference leads somewhere.
func links(t testing.TB, d document, ids map[string]bool, dir string) {
	t.Helper()
	for _, n := range d.nodes {
		for _, name := range []string{"aria-labelledby", "aria-describedby"} {
			refs, _ := attr(n, name)
			for _, r := range strings.Fields(refs) {
				if !ids[r] {
					t.Errorf("%s=%q leads nowhere", name, r)
				}
			}
		}
		href, ok := attr(n, "href")
		if !ok {
			continue
		}
		if id, ok := strings.CutPrefix(href, "#"); ok {
			if !ids[id] {
				t.Errorf("link to %q leads nowhere", href)
			}
			continue
		}
		file, _, _ := strings.Cut(href, "#")
		if _, err := os.Stat(filepath.Join(dir, "report", file)); err != nil {
			t.Errorf("link: %v", err)
		}
	}
}

func TestPage(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	t.Logf("%s: %d bytes", dir, len(page))
	for _, want := range []string{
		"crun is equivalent to host at sha256-16k throughput on this machine: " +
			"host 1.84 GB/s, crun 1.83 GB/s, 0.01 % slower (95 % CI 0.5 % slower to 0.5 % faster), 12 blocks.",
		"microvm is worse than host by more than 2 % at sha256-16k throughput on this machine: " +
			"host 1841 MB/s, microvm 95.5 MB/s, 5.19 % of the throughput (95 % CI 5.15–5.24 %), 12 blocks.",
		"crun is better than host by more than 2 % at files create on this machine",
		"chroot against host is inconclusive at files create on this machine",
		"more blocks would decide it with 80 % probability",
		"crun against host is inconclusive at http-50 throughput on this machine, " +
			"because a check failed: ceiling (the load generator was",
		"the load generator was 97 % busy: its ceiling was measured; 24 of 48 trials); host 31.8 krequest/s, " +
			"crun 31.9 krequest/s, 0.2 % faster",
		"microvm has no result at http-50: the server answered 404",
		"trials of microvm failed",
		"host~twin is equivalent to host at syscall",
		"the host's clock stepped by 2.1 s",
		"host: memory: a bare host has no group of its own",
		"tcg (no /dev/kvm)",
		"bakeoff run bakeoff.yaml --seed 42",
		"unavailable",
		"priority of the load generator: real-time <b>",
		"21 November 2026, 20:00 to 20:08 UTC",
	} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(doc.text, "Do not trust") {
		t.Error("an alarm without a reason")
	}
	// A verdict for each contender on each primary metric, in the open.
	if n := len(primaryItems(doc)); n != 3*5 {
		t.Errorf("%d sentences, want 15", n)
	}
	// Two drawings a figure, each figure with its numbers.
	figures := doc.all("figure")
	if len(doc.all("svg")) != 2*len(figures) || len(figures) < 20 {
		t.Errorf("%d figures with %d drawings", len(figures), len(doc.all("svg")))
	}
	for _, f := range figures {
		if table := child(f, "details"); table == nil {
			t.Error("a figure without its numbers")
		}
	}
	must(t, Write(dir, Option{Version: "0.1.0"}))
	if again, _ := os.ReadFile(filepath.Join(dir, store.ReportFile)); string(again) != page {
		t.Error("the same folder gave another page")
	}
}

func primaryItems(d document) []*html.Node {
	var out []*html.Node
	for _, n := range d.all("li") {
		if inside(n, "group") {
			out = append(out, n)
		}
	}
	return out
}

// What was known of the machine is on the page of whoever has the folder: that
// nothing was, what was, and that it does not hold any longer.
func TestMachineIsOnThePage(t *testing.T) {
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	if want := "the machine was not calibrated"; !strings.Contains(page, want) {
		t.Errorf("the page does not say %q", want)
	}
	ratio, lo, hi := 0.953, 0.948, 0.958
	fp := facts.Fingerprint{Facts: map[string]string{"kernel": "6.18"}}
	m := calibrate.Measured{Run: "c", At: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), Noise: 0.02, CPUNoise: 0.01,
		Visits: 2, Of: 24, Alarms: 1,
		Length: 50 * time.Millisecond, PerTrial: 200 * time.Millisecond,
		Injected: []calibrate.Injected{{Extra: .05, True: 1 / 1.05, Ratio: &ratio, CI: analysis.Interval{&lo, &hi},
			Blocks: 144, Found: true}}}
	c := calibrate.Calibration{}.Add(fp, m)
	for _, x := range []struct {
		now      facts.Fingerprint
		wants    []string
		outdated bool
	}{
		{fp, []string{"1 calibration, the last on 20 November 2026, 08:00 UTC",
			"Of 24 comparisons of identical contenders, one was called different",
			"a false alarm rate of 4.2 % (95 % CI 0.11 % to 21 %)", "The nominal rate of the test is 3.1 %",
			"0.15 % in 20 minutes (0.074 % of CPU time)",
			"An injected slowdown of 4.8 % was found by wall time in 144 blocks: it was measured as 4.7 % (CI 4.2 % to 5.2 %)",
			"trials of 50 ms"}, false},
		{facts.Fingerprint{Facts: map[string]string{"kernel": "6.19"}},
			[]string{"Outdated: since the calibration, the machine changed in kernel"}, true},
	} {
		dir, _ = written(t, d, p, analysis.Analyse(d))
		text, err := c.Kept(x.now)
		must(t, err)
		keepCalibration(t, dir, text)
		must(t, Write(dir, Option{}))
		data, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
		must(t, err)
		doc := sound(t, dir, string(data))
		for _, want := range x.wants {
			if !strings.Contains(doc.text, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
		if strings.Contains(doc.text, "Outdated") != x.outdated {
			t.Errorf("outdated, for %v", x.now.Facts)
		}
	}
	// A file that the journal does not name is never shown.
	must(t, os.WriteFile(filepath.Join(dir, store.CalibrationFile), []byte(`{"schema":"bakeoff/calibration/v1"}`), 0o600))
	must(t, Write(dir, Option{}))
	data, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	for _, want := range []string{"The calibration file is not the one that the journal names", "was not calibrated"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("with a changed file the page does not say %q", want)
		}
	}
}

// The page says what other programs used of the CPUs before the first trial, and that it
// disturbed the run if it did. Names are foreign text.
func TestOtherProgramsOnThePage(t *testing.T) {
	d, p := example()
	for _, x := range []struct {
		others store.Others
		want   string
	}{
		{store.Others{CPUs: 2, Used: 1.4, Programs: []store.Program{{Name: "<b>cc1\x1b[2J", Used: .9}}},
			"Before the first trial, other programs used 1.4 of 2 CPUs (<b>cc1\ufffd[2J 0.9): intervals may be wider"},
		{store.Others{CPUs: 2, Used: .1}, "Before the first trial, other programs used 0.1 of 2 CPUs."},
	} {
		dir, _ := written(t, d, p, analysis.Analyse(d))
		run, err := store.Resume(dir)
		must(t, err)
		must(t, run.Append(store.Line{Type: store.LineOthers, Others: &x.others}))
		must(t, run.Close())
		must(t, Write(dir, Option{}))
		data, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
		must(t, err)
		if doc := sound(t, dir, string(data)); !strings.Contains(doc.text, x.want) {
			t.Errorf("the page does not say %q", x.want)
		}
	}
}

func keepCalibration(t *testing.T, dir string, text []byte) {
	t.Helper()
	run, err := store.Resume(dir)
	must(t, err)
	defer run.Close()
	must(t, run.KeepCalibration(time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC), text))
}

// If the plan is not the one that the run registered, nothing comes before saying so,
// not even an alarm. The entry of an index says it too.
func TestUnplannedComesFirst(t *testing.T) {
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	r.Twin.Different = true
	r.Twin.Comparisons[0].Verdict = analysis.Worse
	dir := folder(t, d, p, r)
	text, err := os.ReadFile(filepath.Join(dir, store.PlanFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, store.PlanFile), append(text, '\n'), 0o666))
	must(t, Write(dir, Option{}))
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	doc := sound(t, dir, string(page))
	first, alarm := strings.Index(doc.text, "Not as planned"), strings.Index(doc.text, "Do not trust this run")
	if first < 0 || alarm < first || !strings.Contains(doc.text, "the journal was begun with a plan of sha256") {
		t.Errorf("not as planned at %d, alarm at %d", first, alarm)
	}
	if e, _, _ := Describe(dir); !strings.Contains(strings.Join(e.Notice.Alarms, " "), "the journal was begun") {
		t.Errorf("the entry says %q", e.Notice.Alarms)
	}
}

// If the twin differs, nothing comes before saying so.
func TestAlarmComesFirst(t *testing.T) {
	worlds["syscall"].effects[twin] = effect{.9, .006, 0}
	defer func() { worlds["syscall"].effects[twin] = effect{1, .006, 0} }()
	d, p := example()
	dir, page := written(t, d, p, analysis.Analyse(d))
	doc := sound(t, dir, page)
	body := strings.Index(doc.text, "Do not trust this run")
	title := strings.Index(doc.text, "static-web 3 contenders")
	if body < 0 || title < body {
		t.Errorf("alarm at %d, title at %d", body, title)
	}
	if !strings.Contains(doc.text, "host~twin is worse than host by more than 2 % at syscall") {
		t.Error("the alarm does not say where")
	}
}

// A machine whose processor was a program is named before the verdicts, on the
// page and in the text; one that was not is not.
func TestEmulationIsToldBeforeTheVerdicts(t *testing.T) {
	for accelerator, told := range map[string]bool{"tcg": true, "kvm": false} {
		d, p := example()
		for i, c := range d.Contenders {
			if c.Name == "microvm" {
				d.Contenders[i].Facts = map[string]string{"accelerator": accelerator}
			}
		}
		r := analysis.Analyse(d)
		dir, page := written(t, d, p, r)
		doc := sound(t, dir, page)
		at, verdicts := strings.Index(doc.text, "microvm: the CPU was emulated"), strings.Index(doc.text,
			"Scope: this machine")
		if told != (at >= 0) || at > verdicts {
			t.Errorf("accelerator %s: told at %d, verdicts end at %d", accelerator, at, verdicts)
		}
		if said := strings.Contains(text(t, r, Terminal{}), "warning: microvm: the CPU was emulated"); said != told {
			t.Errorf("accelerator %s: the text says so: %v", accelerator, said)
		}
	}
}

// A run that ended before its first look says so: otherwise readers must guess
// from a number of blocks why nothing is decided.
func TestARunBeforeItsFirstLookSaysSo(t *testing.T) {
	d, _ := example()
	r := analysis.Analyse(d)
	r.Ended, r.Blocks, r.Looks = "budget", 3, []int{8, 12}
	const want = "no room for another block; nothing is decided before the first look, after 8 blocks"
	if out := strings.Join(strings.Fields(text(t, r, Terminal{})), " "); !strings.Contains(out, want) {
		t.Errorf("the text is\n%s", out)
	}
	r.Looks = nil
	if out := strings.Join(strings.Fields(text(t, r, Terminal{})), " "); !strings.Contains(out,
		"the design has too few blocks for a look, so nothing is decided") {
		t.Errorf("without a look the text is\n%s", out)
	}
	r.Comparisons[0].Primary, r.Comparisons[0].Exact = true, &analysis.Exact{Trials: 4}
	if out := text(t, r, Terminal{}); strings.Contains(out, "nothing is decided") {
		t.Errorf("with a metric that is exact the text is\n%s", out)
	}
	r.Comparisons[0].Exact = nil
	r.Blocks, r.Looks = 8, []int{8, 12}
	if out := text(t, r, Terminal{}); strings.Contains(out, "nothing is decided") {
		t.Errorf("after a look the text is\n%s", out)
	}
}

// A cell that gave nothing and has no verdict is told among the verdicts, not
// only where one looks for it.
func TestMissingCellsWithoutAVerdictAreToldEarly(t *testing.T) {
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	quiet := &r.Cells[len(r.Cells)-1]
	for i := range quiet.Metrics {
		quiet.Metrics[i].Primary = false
	}
	r.Comparisons = slices.DeleteFunc(r.Comparisons, func(c analysis.Comparison) bool { return c.Cell == quiet.Name })
	r.Missing = []analysis.Missing{{Contender: "crun", Cell: quiet.Name, Reason: "it ended with exit code 3"}}
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	at := strings.Index(doc.text, "crun has no result at "+quiet.Name+": it ended with exit code 3")
	if at < 0 || at > strings.Index(doc.text, "Differences from the baseline") {
		t.Errorf("told at %d of\n%s", at, doc.text[:3000])
	}
}

// copied is r with nothing shared: results hold the cells of their data.
func copied(t testing.TB, r analysis.Results) (out analysis.Results) {
	t.Helper()
	data, err := json.Marshal(r)
	must(t, err)
	must(t, json.Unmarshal(data, &out))
	return out
}

// A stranger's folder says what it likes; the page shows it and does nothing.
func TestHostileFolder(t *testing.T) {
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	nasty := charttest.Hostile
	long := strings.Repeat("界<b>", 1<<12)
	infinite := math.MaxFloat64
	r.Run, r.Ended, r.Baseline, r.PlanSHA256 = nasty, nasty, nasty, nasty
	for i := range r.Contenders {
		r.Contenders[i] = analysis.Contender{Name: nasty + fmt.Sprint(i), Driver: long, Host: nasty,
			Facts: map[string]string{nasty: long, "": "\x1b[2J\u202e"}, Env: map[string]string{nasty: long},
			Params: map[string]param.Values{nasty: {nasty: long + fmt.Sprint(i)}},
			Sweep:  &analysis.Sweep{Of: long, Name: nasty, Value: long + nasty + fmt.Sprint(i)}}
	}
	for i := range r.Cells {
		r.Cells[i].Name, r.Cells[i].Workload = nasty, nasty
		r.Cells[i].Params = param.Values{nasty: long}
		r.Cells[i].Metrics = append([]sample.Metric{{Name: nasty, Unit: nasty, Better: sample.Lower, Primary: true,
			Scale: sample.Ratio, Doc: long}}, r.Cells[i].Metrics...)
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Contender, c.Cell, c.Metric, c.Unit = nasty+"1", nasty, nasty, nasty
		c.Ratio, c.CI = &infinite, analysis.Interval{nil, &infinite}
		c.Gates = append(c.Gates, analysis.Gate{Name: nasty, Reason: long})
		c.Warnings = []string{nasty}
		c.Factors = []analysis.Factor{{Name: nasty, Baseline: long, Contender: nasty}, {Name: long}}
	}
	for i := range r.Summaries {
		s := &r.Summaries[i]
		s.Contender, s.Cell, s.Metric, s.Unit, s.Median = nasty+"1", nasty, nasty, nasty, &infinite
		s.Samples = append(s.Samples, analysis.Point{Block: math.MinInt, Position: math.MaxInt, Value: -infinite})
	}
	r.Missing = append(r.Missing, analysis.Missing{Contender: nasty, Cell: nasty, Reason: long})
	r.Warnings = []string{nasty, long}
	p.Lab, p.Version, p.Profile = nasty, nasty, nasty+"' $(reboot)"
	p.Blocks[0].Visits[0].Cell = nasty
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	if !strings.Contains(doc.text, "<script>alert(1)</script>") {
		t.Error("the name is not shown as it is")
	}
	if strings.ContainsAny(page, "\x1b\u202e") {
		t.Error("control characters came through")
	}
	if !strings.Contains(doc.text, `'"'\''><script>`) {
		t.Error("the command that a reader would paste is not quoted for a shell")
	}
	if len(page) > 8<<20 {
		t.Errorf("%d bytes", len(page))
	}
}

// What is missing beside the results is said on the page; a folder without
// results has none.
func TestDamagedFolder(t *testing.T) {
	d, p := example()
	r := analysis.Analyse(d)
	dir := folder(t, d, p, r)
	must(t, os.WriteFile(filepath.Join(dir, store.PlanFile), []byte("{"), 0o666))
	must(t, os.Remove(filepath.Join(dir, store.LabFile)))
	must(t, os.WriteFile(filepath.Join(dir, store.FingerprintDir, "crun.json"), []byte("[]"), 0o666))
	data, err := os.ReadFile(filepath.Join(dir, store.JournalFile))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, store.JournalFile), append(data[:len(data)/2], "\n{}\n"...), 0o666))
	must(t, Write(dir, Option{}))
	page, err := os.ReadFile(filepath.Join(dir, store.ReportFile))
	must(t, err)
	doc := sound(t, dir, string(page))
	for _, want := range []string{"This page is incomplete", "The plan cannot be read", "The lab file cannot be read",
		"The fingerprint of crun cannot be read", "The journal cannot be read to its end"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	must(t, os.Remove(filepath.Join(dir, store.ResultsFile)))
	if err := Write(dir, Option{}); !fault.Is(err, fault.NotFound) || fault.Fix(err) == "" {
		t.Errorf("without results: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, store.ResultsFile), []byte(`{"schema":"other/v9"}`), 0o666))
	if err := Write(dir, Option{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("another schema: %v", err)
	}
}

// The report never leaves the folder, whatever links lie in it.
func TestLinksOutOfTheFolder(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, analysis.Analyse(d))
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(dir, "report")))
	if err := Write(dir, Option{}); err == nil {
		t.Error("a report was written through a link")
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%d files outside of the folder", len(left))
	}
}

// Nothing known is null in the results and never 0 on the page.
func TestNulls(t *testing.T) {
	d, p := example()
	r := analysis.Analyse(d)
	for i := range r.Summaries {
		r.Summaries[i].Median, r.Summaries[i].CI, r.Summaries[i].Samples = nil, analysis.Interval{}, nil
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Ratio, c.CI, c.Interim, c.Alpha, c.MoreBlocks = nil, analysis.Interval{}, analysis.Interval{}, nil, nil
		c.Verdict = analysis.Inconclusive
	}
	r.Twin = nil
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	if strings.Contains(doc.text, "0 B/s") || !strings.Contains(doc.text, "no estimate yet") ||
		!strings.Contains(doc.text, "No twin: nothing shows") {
		t.Error("unknown values are not said to be so")
	}
}

// A million samples are drawn in seconds, on a page that a browser opens.
func TestManySamples(t *testing.T) {
	if testing.Short() {
		t.Skip("a million samples: run without -short")
	}
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range r.Summaries {
		s := &r.Summaries[i]
		for n := len(s.Samples); n < 1_000_000/len(r.Summaries); n++ {
			s.Samples = append(s.Samples, analysis.Point{Block: n / 20, Position: n % 20,
				Value: *s.Median * (1 + 0.01*rng.NormFloat64())})
		}
	}
	dir, page := written(t, d, p, r)
	sound(t, dir, page)
	if len(page) > 12<<20 {
		t.Errorf("%d bytes", len(page))
	}
	t.Logf("%d bytes", len(page))
}

func FuzzPage(f *testing.F) {
	d, _ := example()
	r := copied(f, analysis.Analyse(d))
	r.Cells, r.Summaries = r.Cells[:1], r.Summaries[:2]
	r.Comparisons, r.Twin.Comparisons = r.Comparisons[:2], r.Twin.Comparisons[:1]
	for i := range r.Summaries {
		r.Summaries[i].Samples = r.Summaries[i].Samples[:2]
	}
	seed, err := json.Marshal(r)
	must(f, err)
	f.Add(seed)
	f.Add([]byte(`{"schema":"bakeoff/results/v1","cells":[{"metrics":[{"primary":true}]}],` +
		`"comparisons":[{"primary":true,"ci":[null,1e-320],"ratio":1e308}],"contenders":[{}],"twin":{}}`))
	f.Add([]byte(`{"schema":"bakeoff/results/v1","margin":-1,"cells":[{"metrics":[{}]}],"contenders":[{}],` +
		`"summaries":[{"median":-1e308,"samples":[{"value":0},{"value":1e308}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := analysis.ParseResults(data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		e := &contents{base: "run", results: r}
		e.makeHarmless()
		var b bytes.Buffer
		must(t, renderPage(&b, buildPage(e, Option{}).page))
		sound(t, "", b.String())
		if out := b.String(); strings.Contains(out, "NaN") && !bytes.Contains(data, []byte("NaN")) {
			t.Error("NaN on the page")
		}
	})
}
