package report

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/lab/store"
	"bakeoff/publish/pagetest"
)

// past is a history with a step of 3 % at run 40 of 60 and a run that does not count.
func past(t *testing.T, change func([]history.Run)) history.Result {
	t.Helper()
	w := replay.World{Noise: noise.Reference, Runs: 60, Between: 0.005, Step: math.Log(1.03), At: 39}
	runs := w.Make(rand.New(rand.NewPCG(1, 2)))
	runs[20].Results.Twin = &analysis.Twin{Different: true}
	if change != nil {
		change(runs)
	}
	r, err := history.Of(runs, history.Option{Unread: []history.Unread{{Folder: "runs/torn", Reason: "no results"}}})
	must(t, err)
	return r
}

func historyFile(t *testing.T, r history.Result) string {
	return pageFile(t, "history.html", func(o RunsOption) ([]byte, error) { return History(r, o) })
}

func TestHistoryPage(t *testing.T) {
	page, err := os.ReadFile(historyFile(t, past(t, nil)))
	must(t, err)
	doc := parse(t, string(page))
	policed(t, doc)
	for _, want := range []string{"History of nightly", "60 runs, 1 primary series: 1 step found.",
		"nightly on simulated, amd64",
		"crun, cell-1 time-per-op: worse, possibly by less than 2 %: +", "from 20260209T020000Z-nightly on (commit c0fff07)",
		"commit: c0fff06 → c0fff07", "kernel: Linux 6.1.0 → Linux 6.2.0",
		"the twin differs from the baseline", "runs/torn no results", "Now +2."} {
		if !strings.Contains(strings.Join(strings.Fields(doc.text), " "), want) {
			t.Errorf("the page does not say %q:\n%s", want, doc.text)
		}
	}
	links := 0
	for _, a := range doc.all("a") {
		if href, _ := attr(a, "href"); strings.HasSuffix(href, "/report/index.html") {
			links++
		}
	}
	if links != 61 { // every run, and the step
		t.Errorf("%d links to runs", links)
	}
}

func TestHistoryPageInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	b.Check(t, historyFile(t, past(t, nil)), pagetest.Budget{Bytes: 200_000, Requests: 1, Shift: .02})
}

// Whatever the runs of strangers are called, it stays text.
func TestHostileHistory(t *testing.T) {
	const hostile = "<script>alert(1)</script>\x1b[31m\u202e\"'><img src=x>"
	r := past(t, func(runs []history.Run) {
		for i := range runs {
			runs[i].Lab, runs[i].Results.Run = hostile, runs[i].Results.Run+hostile
			runs[i].Labels = map[string]string{hostile: hostile, "commit": hostile}
			runs[i].Facts["host"]["cpu.model"] = hostile
			runs[i].Results.Contenders[1].Name = hostile
			runs[i].Results.Summaries[1].Contender = hostile
			runs[i].Results.Cells[0].Metrics[0].Unit = hostile
		}
	})
	page, err := History(r, RunsOption{Link: func(folder string) string { return "javascript:alert(1)//" + folder }})
	must(t, err)
	doc := parse(t, string(page))
	policed(t, doc)
	if len(doc.all("img")) > 0 || len(doc.all("script")) > 0 {
		t.Error("a name became an element")
	}
	for _, a := range doc.all("a") {
		if href, _ := attr(a, "href"); strings.HasPrefix(href, "javascript:") {
			t.Errorf("a link to %q", href)
		}
	}
	var out strings.Builder
	must(t, HistoryText(&out, r, true, Terminal{Width: 100}))
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(string(page), "\x1b") {
		t.Error("a control character came through")
	}
}

func TestHistoryText(t *testing.T) {
	r := past(t, nil)
	before, _ := json.Marshal(r)
	var out, plain strings.Builder
	must(t, HistoryText(&out, r, false, Terminal{Width: 100}))
	must(t, HistoryText(&plain, r, false, Terminal{Width: 100, ASCII: true}))
	flat := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"▼ worse, possibly by less than 2 %: +",
		"from 20260209T020000Z-nightly on (commit c0fff07)",
		"evidence: runs/20260209T020000Z-nightly", "1 run not counted", "● run, │ step, · margin",
		"2026-01-01", "2026-03-01", "0 % │", "Not read: runs/torn: no results"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, r := range plain.String() {
		if r > 126 {
			t.Errorf("%q is not ASCII:\n%s", r, plain.String())
			break
		}
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if n := len([]rune(line)); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if after, _ := json.Marshal(r); string(before) != string(after) {
		t.Error("writing the text changed the history")
	}
}

// A step in a metric that is not shown is named.
func TestHistoryNamesHiddenSteps(t *testing.T) {
	r := past(t, nil)
	l := &r.Labs[0]
	other := l.Series[0]
	other.Primary, other.Metric = false, "cpu"
	level := other
	level.Metric, level.Steps = "memory", nil
	l.Series = append(l.Series, other, level)
	var out strings.Builder
	must(t, HistoryText(&out, r, false, Terminal{Width: 200}))
	page, err := History(r, RunsOption{})
	must(t, err)
	want := "2 other metrics not shown; bakeoff history --all shows all. There are steps in " + seriesName(other) +
		", but the error rate does not cover them."
	for _, text := range []string{out.String(), string(page)} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in\n%.3000s", want, text)
		}
	}
}

func TestReadHistory(t *testing.T) {
	d, p := example()
	dir := folder(t, d, p, copied(t, analysis.Analyse(d)))
	if _, err := ReadHistory(dir); !fault.Is(err, fault.Invalid) {
		t.Errorf("a plan without cells: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, store.ResultsFile)))
	if _, err := ReadHistory(dir); !fault.Is(err, fault.NotFound) {
		t.Errorf("a run without results: %v", err)
	}
}

// A history carries what a reader must know about each run.
func TestAHistoryCarriesCautions(t *testing.T) {
	const caution = "The CPU frequency changed."
	w := replay.World{Noise: noise.Reference, Runs: 3, Between: 0.005}
	runs := w.Make(rand.New(rand.NewPCG(1, 1)))
	runs[2].Cautions = []string{caution}
	res, err := history.Of(runs, history.Option{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := History(res, RunsOption{})
	if err != nil || !strings.Contains(string(page), caution) {
		t.Errorf("the page does not say %q: %v", caution, err)
	}
	var text strings.Builder
	err = HistoryText(&text, res, false, Terminal{Width: 80})
	if err != nil || !strings.Contains(text.String(), caution) {
		t.Errorf("the text does not say %q: %v", caution, err)
	}
	res.Labs[0].Runs[2].Cautions = nil
	if page, _ := History(res, RunsOption{}); strings.Contains(string(page), caution) {
		t.Error("the caution does not come from the run")
	}
}
