package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/publish/pagetest"
)

// seven judges a lab on seven machines, of which one does not count.
func seven(t *testing.T, change func([]history.Run)) fleet.Result {
	t.Helper()
	w := replay.World{Noise: noise.Reference, Runs: 7, Between: 0.01, Step: math.Log(1.05)}
	runs := w.Make(rand.New(rand.NewPCG(1, 2)))
	for i := range runs {
		runs[i].Labels[history.MachineLabel] = fmt.Sprintf("box-%d", i+1)
		runs[i].Results.Twin = nil
	}
	runs[3].Unplanned = []string{"a trial is missing"}
	if change != nil {
		change(runs)
	}
	r, err := fleet.Of(runs, fleet.Option{Unread: []history.Unread{{Folder: "runs/torn", Reason: "no results"}}})
	must(t, err)
	return r
}

func fleetFile(t *testing.T, r fleet.Result) string {
	return pageFile(t, "fleet.html", func(o RunsOption) ([]byte, error) { return Fleet(r, o) })
}

// pageFile is the file of a page about many runs.
func pageFile(t *testing.T, name string, write func(RunsOption) ([]byte, error)) string {
	t.Helper()
	page, err := write(RunsOption{Version: "0.1.0", Link: func(folder string) string {
		return filepath.Base(folder) + "/report/index.html"
	}})
	must(t, err)
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
	}
	file := filepath.Join(dir, name)
	must(t, os.WriteFile(file, page, 0o666))
	return file
}

func TestFleetPage(t *testing.T) {
	page, err := os.ReadFile(fleetFile(t, seven(t, nil)))
	must(t, err)
	doc := parse(t, string(page))
	policed(t, doc)
	text := strings.Join(strings.Fields(doc.text), " ")
	for _, want := range []string{"nightly over several machines", "7 machines: 1 worse.", "Scope: machines like these.",
		"crun, cell-1 time-per-op: worse", "6 machines, of which 6 differ in this direction",
		"box-4 does not count: the run is not as planned",
		"runs/torn no results", "Machines are replicates"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

func TestFleetPageInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	b.Check(t, fleetFile(t, seven(t, nil)), pagetest.Budget{Bytes: 60_000, Requests: 1, Shift: .02})
}

// Whatever the machines of strangers are called, it stays text.
func TestHostileFleet(t *testing.T) {
	const hostile = "<script>alert(1)</script>\x1b[31m\u202e\"'><img src=x>"
	r := seven(t, func(runs []history.Run) {
		for i := range runs {
			runs[i].Lab, runs[i].Results.Run = hostile, runs[i].Results.Run+hostile
			runs[i].Labels[history.MachineLabel] += hostile
			runs[i].Results.Contenders[1].Name = hostile
			runs[i].Results.Summaries[1].Contender = hostile
			runs[i].Results.Cells[0].Metrics[0].Unit = hostile
		}
	})
	page, err := Fleet(r, RunsOption{})
	must(t, err)
	doc := parse(t, string(page))
	policed(t, doc)
	if len(doc.all("img")) > 0 || len(doc.all("script")) > 0 {
		t.Error("a name became an element")
	}
	var out strings.Builder
	must(t, FleetText(&out, r, true, Terminal{Width: 100, ASCII: true}))
	for _, c := range out.String() {
		if c > 126 || c < ' ' && c != '\n' {
			t.Errorf("%q came through:\n%s", c, out.String())
			break
		}
	}
}
