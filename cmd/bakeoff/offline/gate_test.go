package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/sample"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/compare"
	"bakeoff/lab/store"
)

// The gates of compare that docs/guides/ci.md recommends: a condition that can never be
// true would be a gate that passes always.
func TestGatesOfCompareCanFail(t *testing.T) {
	run := func(name string, crun float64, change func(*analysis.Results)) compare.Run {
		r := changed(name, crun)
		change(&r.Results)
		return r
	}
	nothing := func(*analysis.Results) {}
	alone := func(r *analysis.Results) { r.Contenders = r.Contenders[:1] }
	on := func(cpu string, crun float64) compare.Run {
		r := changed(cpu, crun)
		r.Facts["host"]["cpu.model"] = cpu
		return r
	}
	repeats := []compare.Run{changed("r1", 90.2), changed("r2", 89.9)}
	for name, x := range map[string]struct {
		old, new compare.Run
		by       compare.By
		failOn   string
		want     int
		says     string
	}{
		"a trial failed": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			for i := range r.Summaries {
				if r.Summaries[i].Contender == "crun" {
					r.Summaries[i].Failures = 1
				}
			}
		}), compare.Direct, "worse-than-margin,failed,missing", cli.ExitAsked,
			"--fail-on failed: crun at sha failed in 1 trial of NEW"},
		"trials failed in OLD": {run("6.1", 90, func(r *analysis.Results) { r.Summaries[0].Failures = 3 }),
			changed("6.2", 90), compare.Relative, "failed", cli.ExitAsked, "failed in 3 trials of OLD"},
		"the twin differs": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			r.Twin = &analysis.Twin{Name: "host~twin", Different: true}
		}), compare.Direct, "twin", cli.ExitAsked, "--fail-on twin: the twin differs from the baseline in NEW"},
		"the twin was not tested": {run("6.1", 90, func(r *analysis.Results) {
			r.Twin = &analysis.Twin{Name: "host~twin", Comparisons: []analysis.Comparison{
				{Primary: true, Exact: &analysis.Exact{}}}}
		}), run("6.2", 90, func(r *analysis.Results) {
			r.Run, r.Twin = "new", &analysis.Twin{Name: "host~twin"}
		}), compare.Direct, "twin", cli.ExitUndecided, "no test compared host~twin in run new with the baseline"},
		"OLD has no twin": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			r.Twin = &analysis.Twin{Name: "host~twin", Different: true}
		}), compare.Direct, "twin", cli.ExitAsked, "--fail-on twin: the twin differs from the baseline in NEW"},
		"no twin": {changed("6.1", 90), changed("6.2", 90), compare.Direct, "twin", cli.ExitUndecided,
			"--fail-on twin is not decided: the results have no twin"},
		"trials of NEW failed": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			failTrials(r, "crun", 20)
		}), compare.Direct, "worse,missing", cli.ExitUndecided, "check complete failed: 20 trials of crun failed in NEW"},
		"trials of NEW failed, with a tolerance": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			failTrials(r, "crun", 20)
		}), compare.Direct, "throughput<-20%", cli.ExitUndecided, "20 trials of crun failed in NEW"},
		"trials of the baseline failed": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			failTrials(r, "host", 20)
		}), compare.Relative, "worse-than-margin", cli.ExitUndecided, "20 trials of host failed in NEW"},
		"values of NEW are zero": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) {
			zeroTrials(r, "crun", 5)
		}), compare.Direct, "worse-than-margin", cli.ExitUndecided,
			"after 15 blocks: check complete failed: 5 of 20 blocks of NEW lack a value of throughput"},
		"NEW has a block less": {changed("6.1", 90), run("6.2", 90, func(r *analysis.Results) { r.Blocks = 21 }),
			compare.Direct, "worse", cli.ExitUndecided, "1 of 21 blocks of NEW lack a value of throughput"},
		"a check of the baseline failed": {run("6.1", 90, alone), run("6.2", 90, func(r *analysis.Results) {
			alone(r)
			r.Twin = &analysis.Twin{Name: "host~twin", Comparisons: []analysis.Comparison{{Contender: "host~twin", Cell: "sha",
				Metric: "throughput", Gates: []analysis.Gate{{Name: "errors", Reason: "every operation failed"}}}}}
		}), compare.Direct, "worse", cli.ExitUndecided, "check errors failed: NEW: every operation failed"},
		"NEW lost a primary metric": {changed("6.1", 90), run("6.2", 60, func(r *analysis.Results) {
			r.Cells[0].Metrics[0].Primary = false
		}), compare.Direct, "worse,missing", cli.ExitAsked,
			"--fail-on missing: primary metric throughput at sha is missing"},
		"a primary metric is missing": {changed("6.1", 90), run("6.2", 60, func(r *analysis.Results) {
			r.Cells[0].Metrics = r.Cells[0].Metrics[1:]
		}), compare.Direct, "worse-than-margin", cli.ExitMissing, ""},
		"a wrong name while a part is missing": {changed("6.1", 90), run("6.2", 60, func(r *analysis.Results) {
			r.Cells[0].Metrics = r.Cells[0].Metrics[1:]
		}), compare.Direct, "troughput<-5%", cli.ExitInvalid, `no comparison has the metric, cell or workload "troughput"`},
		"a metric that is not primary": {changed("6.1", 90), run("6.2", 60, nothing), compare.Direct, "cpu-per-op>+5%",
			cli.ExitInvalid, `no comparison has the metric, cell or workload "cpu-per-op"; there are sha, throughput`},
		"a metric that is not primary while a part is missing": {changed("6.1", 90), run("6.2", 60,
			func(r *analysis.Results) { r.Cells[0].Metrics = r.Cells[0].Metrics[1:] }), compare.Direct, "cpu-per-op>+5%",
			cli.ExitInvalid, `no comparison has the metric, cell or workload "cpu-per-op"`},
		"the name of the missing part": {changed("6.1", 90), run("6.2", 60, func(r *analysis.Results) {
			r.Cells[0].Metrics = r.Cells[0].Metrics[1:]
		}), compare.Direct, "throughput<-5%", cli.ExitMissing, ""},
		"only the baseline": {run("6.1", 90, alone), run("6.2", 60, alone), compare.Relative, "worse", cli.ExitInvalid,
			"--fail-on worse needs a verdict, but the comparison contains no primary metric; add --by direct"},
		"no primary metric": {run("6.1", 90, func(r *analysis.Results) { r.Cells[0].Metrics[0].Primary = false }),
			changed("6.2", 60), compare.Direct, "worse", cli.ExitInvalid, "write primary: true into a cell"},
		"only what needs no verdict": {run("6.1", 90, alone), run("6.2", 60, alone), compare.Relative, "missing",
			cli.ExitDone, ""},
		"inconclusive passes": {changed("6.1", 90), run("6.2", 90.1, func(r *analysis.Results) {
			for i := range r.Summaries {
				for k := range r.Summaries[i].Samples {
					r.Summaries[i].Samples[k].Value *= 0.9 + 0.05*float64(k*7%5)
				}
			}
		}), compare.Direct, "worse,failed", cli.ExitDone,
			"bakeoff: note: 2 of 2 comparisons are inconclusive; --fail-on worse ignores this"},
		"another machine": {on("a", 90), on("b", 60), compare.Direct, "worse", cli.ExitUndecided,
			`check machine failed: OLD and NEW were made on different machines, and a direct change includes their ` +
				`difference: cpu.model of host is "a" in OLD and "b" in NEW`},
		"the remedy of another machine": {on("a", 90), on("b", 60), compare.Direct, "worse", cli.ExitUndecided,
			"measure OLD and NEW on one machine"},
		"another machine, relative": {on("a", 90), on("b", 60), compare.Relative, "worse", cli.ExitAsked,
			"--fail-on worse: crun"},
		"a machine that is not known": {on("a", 90), changed("6.2", 60), compare.Direct, "worse", cli.ExitAsked,
			"--fail-on worse: crun"},
		"equivalent passes": {changed("6.1", 90), changed("6.2", 90), compare.Direct, "worse", cli.ExitDone, ""},
		"nothing is asked":  {run("6.1", 90, nothing), run("6.2", 60, nothing), compare.Relative, "", cli.ExitDone, ""},
	} {
		res, err := compare.Two(x.old, x.new, compare.Option{Repeats: repeats, By: x.by})
		if err != nil {
			t.Fatal(name, err)
		}
		var errs bytes.Buffer
		a := reader{Streams: cli.NewStreams(nil, &bytes.Buffer{}, &errs, func(string) string { return "" })}
		var failOn []string
		if x.failOn != "" {
			failOn = strings.Split(x.failOn, ",")
		}
		end := a.canJudge(a.compare(), res, failOn)
		if end == nil {
			end = a.failIfAsked(res, failOn)
		}
		says := errs.String()
		if end != nil {
			says += end.Error()
		}
		if cli.ExitCode(end) != x.want || !strings.Contains(says, x.says) || x.says == "" && says != "" {
			t.Errorf("%s: exit code %d, want %d: %s", name, cli.ExitCode(end), x.want, says)
		}
	}
}

// failTrials makes the first trials of a contender failed ones, without a value.
func failTrials(r *analysis.Results, contender string, n int) {
	for i := range r.Summaries {
		if s := &r.Summaries[i]; s.Contender == contender && s.Metric == "throughput" {
			s.Failures, s.Samples = n, s.Samples[min(n, len(s.Samples)-10):]
		}
	}
}

// zeroTrials makes the first values of a contender zero, which is no ratio.
func zeroTrials(r *analysis.Results, contender string, n int) {
	for i := range r.Summaries {
		for k := range r.Summaries[i].Samples[:n] {
			if r.Summaries[i].Contender == contender {
				r.Summaries[i].Samples[k].Value = 0
			}
		}
	}
}

// A run of the baseline alone has no relative change: with --fail-on worse it would pass
// always.
func TestCompareRefusesAGateWithoutAComparison(t *testing.T) {
	dir := earlier(t)
	file := filepath.Join(dir, store.ResultsFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	contenders := r["contenders"].([]any)
	r["contenders"] = contenders[:1]
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := called(t, "compare", dir, dir, "--fail-on", "worse-than-margin")
	if code != cli.ExitInvalid || out != "" || !strings.Contains(stderr, "add --by direct") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
}

// A gate that nothing can fail does not pass, and neither does a comparison that no test
// decided.
func TestWhatNoTestDecidedDoesNotPass(t *testing.T) {
	of := func(c analysis.Comparison) analysis.Results {
		c.Primary = true
		return analysis.Results{Looks: []int{8, 10}, Comparisons: []analysis.Comparison{c}}
	}
	twin := func(c analysis.Comparison, different bool) analysis.Results {
		c.Primary = true
		return analysis.Results{Looks: []int{8, 10}, Twin: &analysis.Twin{Name: "host~twin", Different: different,
			Comparisons: []analysis.Comparison{c}}}
	}
	both := analysis.Interval{new(float64), new(float64)}
	gate := []analysis.Gate{{Name: "order", Reason: "one side ran first"}}
	open, tested := analysis.Inconclusive, 1
	for name, x := range map[string]struct {
		failOn FailOn
		r      analysis.Results
		want   string
		code   int
	}{
		"nothing is compared": {FailOn{"worse", "twin"}, analysis.Results{}, "--fail-on worse is not decided: there is no",
			cli.ExitUndecided},
		"nothing is inconclusive": {FailOn{"inconclusive", "gated"}, analysis.Results{},
			"--fail-on inconclusive,gated is not decided: there is no primary comparison", cli.ExitUndecided},
		"a cell without a name": {FailOn{"missing"}, analysis.Results{Missing: []analysis.Missing{{Contender: "b"}}},
			"--fail-on missing: b is missing", cli.ExitAsked},
		"one failed trial": {FailOn{"failed"}, analysis.Results{Summaries: []analysis.Summary{
			{Contender: "b", Cell: "sort", Failures: 1}}}, "b at sort failed in 1 trial", cli.ExitAsked},
		"not primary": {FailOn{"better"}, analysis.Results{Comparisons: []analysis.Comparison{{}}}, "--fail-on better is not",
			cli.ExitUndecided},
		"a missing cell":       {FailOn{"worse"}, analysis.Results{Missing: []analysis.Missing{{}}}, "", cli.ExitMissing},
		"no verdict is needed": {FailOn{"failed", "missing"}, analysis.Results{}, "", cli.ExitDone},
		"no twin": {FailOn{"twin"}, analysis.Results{}, "--fail-on twin is not decided: the results have no twin",
			cli.ExitUndecided},
		"a look without an interval": {FailOn{"worse"}, of(analysis.Comparison{Verdict: open, Blocks: 8, Look: 8}),
			"8 blocks give no interval", cli.ExitUndecided},
		"no gate": {nil, analysis.Results{}, "", cli.ExitDone},
		"a check withheld it": {FailOn{"worse"}, of(analysis.Comparison{Verdict: open, Gates: gate, Look: tested}),
			"check order failed: one side ran first", cli.ExitUndecided},
		"before the first look": {FailOn{"worse"}, of(analysis.Comparison{Verdict: open, Blocks: 3}),
			"after 3 blocks: the first look is after 8", cli.ExitUndecided},
		"asked for": {FailOn{"worse", "inconclusive"}, of(analysis.Comparison{Verdict: open}),
			"inconclusive", cli.ExitAsked},
		"two runs that are too short": {FailOn{"worse"}, analysis.Results{Comparisons: []analysis.Comparison{
			{Primary: true, Verdict: open, Blocks: 2}}}, "2 blocks give no interval", cli.ExitUndecided},
		"a wide interval": {FailOn{"worse"}, of(analysis.Comparison{Verdict: open, Look: tested, CI: both}), "",
			cli.ExitDone},
		"exact": {FailOn{"worse"}, of(analysis.Comparison{Verdict: open, Exact: &analysis.Exact{}}),
			"", cli.ExitDone},
		"a verdict stands": {FailOn{"worse"}, of(analysis.Comparison{Verdict: analysis.Better}), "", cli.ExitDone},
		"a wrong name beside a missing cell": {FailOn{"tme>+5%"}, analysis.Results{Missing: []analysis.Missing{{}},
			Cells: []analysis.Cell{{Name: "sort", Metrics: []sample.Metric{{Name: "time"}}}}}, `there are sort, time`,
			cli.ExitInvalid},
		"an untested twin": {FailOn{"twin"}, twin(analysis.Comparison{Verdict: open, Blocks: 3}, false),
			"after 3 blocks: the first look is after 8", cli.ExitUndecided},
		"a twin whose check failed": {FailOn{"twin"}, twin(analysis.Comparison{Verdict: open, Gates: gate}, false),
			"check order failed", cli.ExitUndecided},
		"a twin without an interval": {FailOn{"twin"}, twin(analysis.Comparison{Verdict: open, Look: tested}, false),
			"0 blocks give no interval", cli.ExitUndecided},
		"a tested twin": {FailOn{"twin"}, twin(analysis.Comparison{Verdict: open, Look: tested, CI: both}, false),
			"", cli.ExitDone},
		"a different twin": {FailOn{"twin"}, twin(analysis.Comparison{Verdict: open}, true), "differs", cli.ExitAsked},
		"a right name beside a missing cell": {FailOn{"time>+5%"}, analysis.Results{
			Missing: []analysis.Missing{{Cell: "sort"}},
			Cells:   []analysis.Cell{{Name: "sort", Metrics: []sample.Metric{{Name: "time"}}}}}, "", cli.ExitMissing},
	} {
		err := x.failOn.End(x.r, "")
		if cli.ExitCode(err) != x.code || x.want != "" && !strings.Contains(fmt.Sprint(err), x.want) {
			t.Errorf("%s: exit code %d, want %d: %v", name, cli.ExitCode(err), x.code, err)
		}
	}
}

// A gate that passes because nothing is decided says so: 0 does not mean equal.
func TestInconclusiveComparisonsThatPassAreNoted(t *testing.T) {
	of := func(verdicts ...analysis.Verdict) (r analysis.Results) {
		for _, v := range verdicts {
			r.Comparisons = append(r.Comparisons, analysis.Comparison{Primary: true, Verdict: v,
				CI: analysis.Interval{new(float64), new(float64)}})
		}
		r.Comparisons = append(r.Comparisons, analysis.Comparison{Verdict: analysis.Inconclusive}) // not primary
		return r
	}
	for name, x := range map[string]struct {
		failOn FailOn
		r      analysis.Results
		want   string
	}{
		"one of one": {FailOn{"worse", "failed"}, of(analysis.Inconclusive),
			"1 of 1 comparison is inconclusive; --fail-on worse ignores this (--fail-on inconclusive does not); measure longer"},
		"one of two": {FailOn{"better"}, of(analysis.Inconclusive, analysis.Equivalent),
			"1 of 2 comparisons are"},
		"a tolerance fails":    {FailOn{"worse-than-margin", "wall>+3%"}, of(analysis.Inconclusive), ""},
		"all decided":          {FailOn{"worse"}, of(analysis.Equivalent, analysis.Worse), ""},
		"they fail":            {FailOn{"worse", "inconclusive"}, of(analysis.Inconclusive), ""},
		"no verdict is needed": {FailOn{"failed", "twin"}, of(analysis.Inconclusive), ""},
		"no gate":              {nil, of(analysis.Inconclusive), ""},
	} {
		if got := x.failOn.Open(x.r, "measure longer"); !strings.HasPrefix(got, x.want) || (got == "") != (x.want == "") {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
