package offline

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/base/lists"
	"bakeoff/base/param"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/fleet"
	"bakeoff/judge/history"
	"bakeoff/judge/history/replay"
	"bakeoff/judge/noise"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/store"
)

// A gate of history passes only what it judged.
func TestGatesOfHistoryCanFail(t *testing.T) {
	each := func(from int, change func(*history.Run)) func([]history.Run) {
		return func(runs []history.Run) {
			for i := from; i < len(runs); i++ {
				change(&runs[i])
			}
		}
	}
	newest := func(u history.Unread) []history.Unread { return []history.Unread{u} }
	night := func(n int) time.Time { return time.Date(2026, 1, n, 2, 0, 0, 0, time.UTC) }
	rename := func(r *history.Run) {
		r.Results.Cells[0].Name = "other"
		for i := range r.Results.Summaries {
			r.Results.Summaries[i].Cell = "other"
		}
	}
	stopped := func(ended string) func(*history.Run) {
		return func(r *history.Run) {
			r.Results.Blocks, r.Results.Ended = 1, ended
			for i, s := range r.Results.Summaries {
				r.Results.Summaries[i].Samples = lists.Filter(s.Samples, func(p analysis.Point) bool { return p.Block == 0 })
			}
		}
	}
	for name, x := range map[string]struct {
		runs   int
		cells  int
		newest int
		step   float64
		change func([]history.Run)
		unread []history.Unread
		want   int
		says   string
	}{
		"nothing changed": {runs: 8},
		"a step":          {runs: 8, step: 1, want: cli.ExitAsked, says: "changed at run"},
		"too few runs":    {runs: 3},
		"the newest run has no contender": {runs: 8, change: each(7, func(r *history.Run) {
			r.Results.Contenders = r.Results.Contenders[:1]
		}), want: cli.ExitUndecided, says: "of lab nightly has no contender crun; 20260107T020000Z-nightly is the last"},
		"the cell has another name": {runs: 8, change: each(6, rename), want: cli.ExitUndecided,
			says: "the newest run 20260108T020000Z-nightly of lab nightly has no cell cell-1; 20260106T"},
		"the cell had another name before the newest runs": {runs: 8, newest: 3, change: each(4, rename),
			want: cli.ExitUndecided,
			says: "no comparison of the newest run 20260108T020000Z-nightly of lab nightly is in enough earlier runs"},
		"a long time ago": {runs: 12, newest: 3, change: each(4, rename)},
		"a metric is no longer primary": {runs: 8, cells: 2, newest: 3, change: each(5, func(r *history.Run) {
			r.Results.Cells[1].Metrics[0].Primary = false
		}), want: cli.ExitUndecided, says: "has no primary metric time-per-op of cell cell-2; 20260105T"},
		"a cell is gone": {runs: 8, cells: 2, change: each(5, func(r *history.Run) {
			r.Results.Cells, r.Results.Summaries = r.Results.Cells[:1], r.Results.Summaries[:2]
		}), want: cli.ExitUndecided, says: "has no cell cell-2; 20260105T"},
		"other work": {runs: 8, change: each(7, func(r *history.Run) {
			r.Results.Cells[0].Params = param.Values{"size": "1"}
		}), want: cli.ExitUndecided, says: "1 run of 8 can be used, and 6 are needed: other work"},
		"blocks without a value": {runs: 8, change: each(7, func(r *history.Run) { r.Results.Blocks = 9 }),
			want: cli.ExitUndecided, says: "1 of 9 blocks lack a value"},
		"the newest run was interrupted after a block": {runs: 8, change: each(7, stopped(analysis.EndedInterrupted)),
			want: cli.ExitUndecided, says: "the run is unfinished, and 1 block cannot give an interval"},
		"all runs have the one planned block": {runs: 8, change: each(0, stopped(analysis.EndedBlocks))},
		"an older run cannot be read":         {runs: 8, unread: newest(history.Unread{Lab: "nightly", At: night(7)})},
		"a run of unknown time": {runs: 8, unread: newest(history.Unread{}), want: cli.ExitUndecided,
			says: "could not be read"},
		"an older run of an unknown lab": {runs: 8, unread: newest(history.Unread{At: night(7)})},
		"the newest run of its lab": {runs: 8, change: each(4, func(r *history.Run) {
			r.Lab, r.At = "another", r.At.AddDate(0, 0, 9)
		}), unread: newest(history.Unread{Folder: "runs/x", Lab: "nightly", At: night(5)}), want: cli.ExitUndecided,
			says: "the newest run runs/x could not be read"},
		"the only run of a lab": {runs: 8, unread: newest(history.Unread{Lab: "new", At: night(1)}), want: cli.ExitUndecided,
			says: "not be read"},
	} {
		runs := replay.World{Noise: noise.Reference, Runs: x.runs, Between: 0.002, Step: x.step, At: 5, Cells: x.cells}.Make(
			rand.New(rand.NewPCG(1, 1)))
		if x.change != nil {
			x.change(runs)
		}
		res, err := history.Of(runs, history.Option{Unread: x.unread})
		if err != nil {
			t.Fatal(name, err)
		}
		f := historyFlags{judgeFlags: judgeFlags{failOn: []string{"worse"}}, newest: x.newest}
		end := stepsFound(res, runs, f)
		says := ""
		if end != nil {
			says = end.Error()
		}
		if cli.ExitCode(end) != x.want || !strings.Contains(says, x.says) || x.says == "" && says != "" {
			t.Errorf("%s: exit code %d, want %d: %s", name, cli.ExitCode(end), x.want, says)
		}
	}
}

// A step has two runs after it, so a condition about steps is never true for one run.
func TestHistoryRefusesAGateOfOneRun(t *testing.T) {
	for conditions, want := range map[string]int{"suspect": cli.ExitDone, "suspect,step": cli.ExitInvalid,
		"worse": cli.ExitInvalid} {
		_, stderr, code := called(t, "history", earlier(t), "--fail-on", conditions, "--newest", "1")
		if code != want || want == cli.ExitInvalid && !strings.Contains(stderr, "write --newest 2 or more") {
			t.Errorf("%s: exit code %d, want %d: %s", conditions, code, want, stderr)
		}
	}
}

// A run folder that lost its files, one after another, is still the newest run, by its name.
func TestHistorySeesARunWithoutItsFiles(t *testing.T) {
	dir := earlier(t)
	damaged := filepath.Join(filepath.Dir(dir), "20261124T030217Z-quick")
	if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{store.JournalFile, store.PlanFile, store.ResultsFile, store.RawDir,
		store.FingerprintDir} {
		if err := os.RemoveAll(filepath.Join(damaged, name)); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"history", "fleet"} {
			_, stderr, code := called(t, command, filepath.Dir(dir), "--fail-on", "worse")
			if code != cli.ExitUndecided || !strings.Contains(stderr, "20261124T030217Z-quick could not be read") {
				t.Errorf("%s without %s: exit code %d: %s", command, name, code, stderr)
			}
		}
	}
}

// With --fail-on, history and fleet compute the numbers of the runs that they judge again.
func TestHistoryRefusesDamagedRuns(t *testing.T) {
	damaged, intact := earlier(t), another(t)
	if err := os.RemoveAll(filepath.Join(damaged, store.RawDir)); err != nil {
		t.Fatal(err)
	}
	const says = "because the run folder is damaged"
	for _, x := range []struct {
		args    []string
		refused bool
	}{
		{[]string{"history", damaged, intact, "--fail-on", "worse"}, true},
		{[]string{"history", damaged, intact, "--fail-on", "worse", "--newest", "2"}, true},
		{[]string{"history", damaged, intact, "--fail-on", "suspect", "--newest", "1"}, false},
		{[]string{"history", damaged, intact}, false},
		{[]string{"fleet", damaged, intact, "--fail-on", "worse"}, true},
		{[]string{"fleet", damaged, intact}, false},
	} {
		out, stderr, code := called(t, x.args...)
		if refused := code == cli.ExitFailed && strings.Contains(stderr, says) && out == ""; refused != x.refused {
			t.Errorf("%q: exit code %d: %s", x.args, code, stderr)
		}
	}
}

// A gate refuses runs of a store that are damaged, or of which the index does not say it.
func TestGateNeedsWholeBundles(t *testing.T) {
	stored := func(lacking int) history.Run {
		return bundle.Record{Run: "night", Lacking: lacking}.Past(analysis.Results{}, "sha256:1")
	}
	unknown := stored(0)
	unknown.Damage = nil
	for says, run := range map[string]history.Run{
		"": stored(0),
		"the run night of the store, because its bundle sha256:1 is damaged: 2 raw files": stored(2),
		"an earlier version of bakeoff wrote the index; run bakeoff store rebuild":        unknown,
	} {
		err := mustBeWhole([]history.Run{stored(0), run})
		if (err == nil) != (says == "") || err != nil &&
			(cli.ExitCode(err) != cli.ExitFailed || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// A gate of fleet passes only what it judged.
func TestGatesOfFleetCanFail(t *testing.T) {
	for name, x := range map[string]struct {
		machines int
		step     float64
		failOn   string
		unread   []history.Unread
		want     int
		says     string
	}{
		"worse": {machines: 6, step: 0.3, failOn: "worse-than-margin", want: cli.ExitAsked,
			says: "--fail-on worse-than-margin: crun cell-1 time-per-op in lab nightly"},
		"no difference": {machines: 6, failOn: "worse-than-margin"},
		"a difference like the margin": {machines: 6, step: 0.02, failOn: "worse-than-margin", want: cli.ExitUndecided,
			says: "cell-1 time-per-op in lab nightly: the interval contains the limit"},
		"an improvement": {machines: 6, step: -0.3, failOn: "worse-than-margin"},
		"decided":        {machines: 6, step: 0.3, failOn: "inconclusive"},
		"too few machines": {machines: 4, step: 0.3, failOn: "worse", want: cli.ExitUndecided,
			says: "4 machines counted; a verdict needs 5 machines"},
		"too few machines, asked for": {machines: 4, step: 0.3, failOn: "inconclusive", want: cli.ExitAsked,
			says: "--fail-on inconclusive: crun cell-1 time-per-op"},
		"a run that cannot be read": {machines: 6, step: 0.3, failOn: "inconclusive",
			unread: []history.Unread{{Folder: "runs/torn"}}, want: cli.ExitUndecided, says: "runs/torn could not be read"},
	} {
		runs := replay.World{Noise: noise.Reference, Runs: x.machines, Between: 0.002, Step: x.step}.Make(
			rand.New(rand.NewPCG(1, 1)))
		for i := range runs {
			runs[i].Labels = map[string]string{history.MachineLabel: strconv.Itoa(i)}
		}
		res, err := fleet.Of(runs, fleet.Option{Unread: x.unread})
		if err != nil {
			t.Fatal(name, err)
		}
		end := fleetFailed(res, []string{x.failOn})
		says := ""
		if end != nil {
			says = end.Error()
		}
		if cli.ExitCode(end) != x.want || !strings.Contains(says, x.says) || x.says == "" && says != "" {
			t.Errorf("%s: exit code %d, want %d: %s", name, cli.ExitCode(end), x.want, says)
		}
	}
}
