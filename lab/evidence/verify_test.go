package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/loops"
	"bakeoff/reach/agent"
)

// decided is a finished run: eight blocks decide everything. The caller gets
// a copy of its own.
func decided(t *testing.T) (*recorder, analysis.Results) {
	t.Helper()
	if finished.dir == "" {
		finish(t)
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(finished.dir))
	if err := os.CopyFS(copied, os.DirFS(finished.dir)); err != nil {
		t.Fatal(err)
	}
	run, err := store.Resume(copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	p, _ := encoded(t)
	return &recorder{t: t, plan: p, run: run}, finished.results
}

// finished is recorded once: a run on a real disk takes its time.
var finished struct {
	dir     string
	results analysis.Results
}

// TestMain makes the test binary an agent where it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, loops.All()))
	}
	code := m.Run()
	if finished.dir != "" {
		os.RemoveAll(filepath.Dir(finished.dir))
	}
	os.Exit(code)
}

func finish(t *testing.T) {
	t.Helper()
	r := record(t)
	for i := range 8 {
		r.block(i)
	}
	results := r.finish("decided")
	dir, err := os.MkdirTemp("", "evidence")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, filepath.Base(r.run.Dir()))
	if err := os.CopyFS(dir, os.DirFS(r.run.Dir())); err != nil {
		t.Fatal(err)
	}
	for _, c := range results.Comparisons {
		if want := map[string]analysis.Verdict{"crun": analysis.Equivalent, "slow": analysis.Worse}[c.Contender]; c.Primary &&
			c.Verdict != want {
			t.Fatalf("%s is %s", c.Contender, c.Verdict)
		}
	}
	finished.dir, finished.results = dir, results
}

func TestVerifyAcceptsWhatHolds(t *testing.T) {
	r, results := decided(t)
	report := r.verify(today)
	if !report.OK() || len(report.Notes) != 0 || report.Trials != 128 || report.Files != 128 || report.Numbers < 128 {
		t.Errorf("%+v", report)
	}
	if results.Run != "20261121T120000Z-fixture" {
		t.Errorf("the run is called %q", results.Run)
	}
	// A copy under another name is the same run.
	r.run.Close()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(r.run.Dir())); err != nil {
		t.Fatal(err)
	}
	run, err := store.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	again, err := Verify(run, today, nil)
	if err != nil || !again.OK() {
		t.Errorf("copied: %s, %v", findings(again), err)
	}
}

// After one changed digit in raw/ the file is named, and every number of the
// results that is made from it.
func TestVerifyNamesTheNumberOfAChangedDigit(t *testing.T) {
	r, _ := decided(t)
	var slot plan.Slot
	for _, s := range r.plan.Blocks[2].Slots() {
		if s.Contender == "crun" && s.Cell == "fast" {
			slot = s
			break
		}
	}
	file := "raw/" + store.RawName(slot) + "/work.json"
	r.edit(file, func(b []byte) []byte {
		i := bytes.Index(b, []byte(`"value":`)) + len(`"value":`)
		b[i] = '7'
		return b
	})
	report := r.verify(today)
	f := report.Findings[0]
	if f.Kind != Tampered || f.Where != file || !strings.Contains(f.Problem, "sha256") {
		t.Errorf("first finding: %v", f)
	}
	numbers := strings.Join(f.Numbers, "\n")
	for _, want := range []string{"summaries[crun, fast, speed].samples[block 2, position ",
		"summaries[crun, fast, speed].median = ", "comparisons[crun, fast, speed].ratio = "} {
		if !strings.Contains(numbers, want) {
			t.Errorf("numbers lack %q: %s", want, numbers)
		}
	}
	sample := false
	for _, f := range report.Findings[1:] {
		if f.Kind != Tampered {
			t.Errorf("blames something else: %v", f)
		}
		sample = sample || strings.Contains(f.Where, "results.json summaries[crun, fast, speed].samples[block 2") &&
			strings.HasPrefix(f.Recomputed, "7")
	}
	if !sample {
		t.Errorf("does not show the sample's two values: %s", findings(report))
	}
}

// A sample that is not there any more is named, and those behind it, which are
// what they were, are not.
func TestVerifyNamesWhatIsMissingAlone(t *testing.T) {
	r, _ := decided(t)
	slot := r.plan.Blocks[0].Slots()[0]
	if err := os.Remove(filepath.Join(r.run.Dir(), "raw", store.RawName(slot), "work.json")); err != nil {
		t.Fatal(err)
	}
	gone := fmt.Sprintf("samples[block %d, position %d]", slot.Block, slot.Position)
	found := false
	for _, f := range r.verify(today).Findings {
		if !strings.Contains(f.Where, ".samples") {
			continue
		}
		found = found || strings.HasSuffix(f.Where, gone) && f.Recomputed == "null"
		if !strings.Contains(f.Where, gone) {
			t.Errorf("%s: %s", f.Where, f.Problem)
		}
	}
	if !found {
		t.Errorf("%s is not named", gone)
	}
}

// Whatever is done to a file of the evidence is a finding, not an error: verify then
// ends with the same exit code for all of them.
func TestVerifyFindsTheSameDamageEverywhere(t *testing.T) {
	base, _ := decided(t)
	raw := "raw/" + store.RawName(base.plan.Blocks[0].Slots()[0]) + "/work.json"
	base.append(store.Line{Type: store.LineEnvironment, At: noon, Contender: "crun", Status: store.OK,
		Fingerprint: fingerprintOf(t, base.run, "crun")})
	for _, name := range []string{store.LabFile, store.PlanFile, store.JournalFile, store.ResultsFile, raw, store.RawDir,
		"fingerprint/crun.json"} {
		for how, damage := range map[string]func(path string) error{
			"removed": os.RemoveAll,
			"emptied": func(path string) error { return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o666)) },
			"a folder": func(path string) error {
				return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o777))
			},
		} {
			dir := filepath.Join(t.TempDir(), "run")
			if err := errors.Join(os.CopyFS(dir, os.DirFS(base.run.Dir())), damage(filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
			run, err := store.Open(dir)
			if damage, ok := errors.AsType[*store.Tampered](err); ok {
				if report := Damaged("run", damage); report.OK() || report.Findings[0].Where != name {
					t.Errorf("%s %s: %s", name, how, findings(report))
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", name, how, err)
				continue
			}
			report, err := Verify(run, today, nil)
			run.Close()
			if err != nil || report.OK() || !strings.HasPrefix(report.Findings[0].Where, name) {
				t.Errorf("%s %s: %v, %s", name, how, err, findings(report))
			}
		}
	}
}

func fingerprintOf(t *testing.T, run *store.Run, contender string) *store.File {
	t.Helper()
	f, err := run.FingerprintFile(contender)
	if err != nil {
		t.Fatal(err)
	}
	return &f
}

func TestVerifyTellsTheCasesApart(t *testing.T) {
	raw := func(r *recorder) string {
		return filepath.Join(r.run.Dir(), "raw", store.RawName(r.plan.Blocks[0].Slots()[0]))
	}
	// rewrite edits the plan and begins the journal with its hash, as
	// somebody who covers his traces would.
	rewrite := func(r *recorder, change func(*plan.Plan)) {
		text, err := r.run.Plan()
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		changed, err := plan.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		r.edit(store.PlanFile, func([]byte) []byte { return changed })
		r.replace(store.JournalFile, plan.Hash(text), plan.Hash(changed))
	}
	for name, x := range map[string]struct {
		change func(*recorder)
		kind   Kind
		want   string
	}{
		"a raw file that is gone": {func(r *recorder) { os.Remove(raw(r) + "/work.json") },
			Tampered, "the file is missing"},
		"a raw file cut short": {func(r *recorder) { os.Truncate(raw(r)+"/work.json", 10) },
			Tampered, "it has 10 bytes"},
		"a damaged journal": {func(r *recorder) { r.replace(store.JournalFile, `"type":"trial"`, `"type":"trail"`) },
			Tampered, "journal.ndjson:2"},
		"a lab file changed": {func(r *recorder) { r.replace(store.LabFile, "name: fixture", "name: other") },
			Tampered, "bakeoff.yaml"},
		"a plan changed": {func(r *recorder) { r.replace(store.PlanFile, `"margin": 0.02`, `"margin": 0.03`) },
			NotAsPlanned, "the journal was begun with"},
		"a margin picked": {func(r *recorder) { rewrite(r, func(p *plan.Plan) { p.Design.Margin = .1 }) },
			NotAsPlanned, "design.margin"},
		"a seed picked": {func(r *recorder) { rewrite(r, func(p *plan.Plan) { p.Seed = 6 }) }, NotAsPlanned,
			"block 0 differs from the block that seed 6 produces"},
		"a trial left out": {func(r *recorder) { r.edit(store.JournalFile, withoutLine(3)) },
			NotAsPlanned, "is not in the journal"},
		"an environment left out": {func(r *recorder) {
			r.edit(store.JournalFile, func(b []byte) []byte {
				first, rest, _ := bytes.Cut(b, []byte("\n"))
				return slices.Concat(first, []byte("\n"+`{"type":"environment","at":"2026-01-01T00:00:00Z","block":0,`+
					`"contender":"host","instance":"host-0","status":"ok"}`+"\n"), rest)
			})
		}, Tampered, `has no line for the environment "crun-0"`},
		"trials in another order": {func(r *recorder) { r.edit(store.JournalFile, swapLines(3, 4)) },
			NotAsPlanned, "after a later one"},
		"a block's end twice": {func(r *recorder) { r.append(store.Line{Type: store.LineBlock, Status: store.OK}) },
			NotAsPlanned, "a second time"},
		"a verdict changed": {func(r *recorder) {
			r.replace(store.ResultsFile, `"verdict": "worse"`,
				`"verdict": "better"`)
		}, Results, `comparisons[slow, fast, speed].verdict: stored "better", recomputed "worse"`},
		"a number changed": {func(r *recorder) { r.replace(store.ResultsFile, `"n": 16`, `"n": 18`) }, Results,
			`summaries[host, fast, speed].n: stored 18, recomputed 16`},
		"verdicts in another order": {func(r *recorder) { r.edit(store.ResultsFile, swapComparisons(t)) }, Results,
			"results.json comparisons order"},
		"a field left out": {func(r *recorder) { r.replace(store.ResultsFile, `"missing": [],`, ``) },
			Results, "results.json missing"},
		"a journal cut short": {func(r *recorder) { r.edit(store.JournalFile, withoutLastLine) }, Results,
			`journal.ndjson: it has no line for the end of the run, but results.json says that the run ended ("decided")`},
		"a plan of another time": {func(r *recorder) { r.replace(store.PlanFile, plan.Schema, "bakeoff/plan/v9") },
			Tampered, "bakeoff/plan/v9"},
		"results that are no JSON": {func(r *recorder) { r.edit(store.ResultsFile, func(b []byte) []byte { return b[:30] }) },
			Results, "cannot be read"},
	} {
		r, _ := decided(t)
		x.change(r)
		report := r.verify(today)
		if report.OK() || report.Findings[0].Kind != x.kind || !strings.Contains(findings(report), x.want) {
			t.Errorf("%s: want %s, %q:\n%s", name, x.kind, x.want, findings(report))
		}
		// What takes the lab file's meaning or the raw outputs, only Verify finds.
		seen := x.kind == NotAsPlanned && name != "a margin picked" || name == "a lab file changed" ||
			name == "a plan of another time"
		if got := ReadOutline(r.run).Unplanned; (len(got) > 0) != seen {
			t.Errorf("%s: unplanned %q", name, got)
		}
	}
}

// A run that a later program made is told from one that somebody changed: its
// plan is the one that its journal began with, whatever is in it.
func TestVerifyAccusesNobodyOfALaterProgramsPlan(t *testing.T) {
	r, _ := decided(t)
	text, err := r.run.Plan()
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Replace(text, []byte(plan.Schema), []byte("bakeoff/plan/v9"), 1)
	r.edit(store.PlanFile, func([]byte) []byte { return later })
	r.replace(store.JournalFile, plan.Hash(text), plan.Hash(later))
	report, err := Verify(r.run, today, nil)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "another version of bakeoff made this run") ||
		len(report.Findings) != 0 {
		t.Errorf("%v, %s", err, findings(report))
	}
}

// swapComparisons exchanges the first two comparisons of results.json.
func swapComparisons(t *testing.T) func([]byte) []byte {
	return func(b []byte) []byte {
		v, err := decodeAny(b)
		if err != nil {
			t.Fatal(err)
		}
		of := v.(map[string]any)["comparisons"].([]any)
		of[0], of[1] = of[1], of[0]
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

func withoutLastLine(b []byte) []byte {
	return b[:bytes.LastIndexByte(bytes.TrimRight(b, "\n"), '\n')+1]
}

func withoutLine(n int) func([]byte) []byte {
	return func(b []byte) []byte {
		rows := bytes.SplitAfter(b, []byte("\n"))
		return bytes.Join(append(rows[:n:n], rows[n+1:]...), nil)
	}
}

func swapLines(i, j int) func([]byte) []byte {
	return func(b []byte) []byte {
		rows := bytes.SplitAfter(b, []byte("\n"))
		rows[i], rows[j] = rows[j], rows[i]
		return bytes.Join(rows, nil)
	}
}

func TestVerifyKnowsAParserThatHasChanged(t *testing.T) {
	r, _ := decided(t)
	same := r.verify([]workload.Parser{fixture{version: 2, factor: 1}})
	if !same.OK() || len(same.Notes) == 0 {
		t.Errorf("a new parser with the same numbers: %s", findings(same))
	}
	if want := "during the run, another version of the parser read fast on crun"; !slices.Contains(same.Notes, want) {
		t.Errorf("%q is not noted: %q", want, same.Notes)
	}
	mended := r.verify([]workload.Parser{fixture{version: 2, factor: 2}})
	if mended.OK() {
		t.Fatal("twice the numbers, and it holds")
	}
	for _, f := range mended.Findings {
		if f.Kind != Parser {
			t.Fatalf("blames something else: %v", f)
		}
	}
	// The same numbers without another version: then the results are wrong.
	if wrong := r.verify([]workload.Parser{fixture{version: 1, factor: 2}}); wrong.Findings[0].Kind != Results {
		t.Errorf("%v", wrong.Findings[0])
	}
}

func TestVerifyFindsWhoLeftEarly(t *testing.T) {
	// At the look at 8 blocks slow is decided: it leaves by the rules.
	r := record(t)
	r.speed["crun"] = 1020 // at the margin: inconclusive
	for i := range 8 {
		r.block(i)
	}
	r.block(8, "slow")
	r.finish("budget")
	if report := r.verify(today); !report.OK() {
		t.Errorf("left after its verdict: %s", findings(report))
	}
	r = record(t)
	// That its environment came up is no reason for its absence.
	r.append(store.Line{Type: store.LineEnvironment, At: noon, Contender: "slow", Status: store.OK})
	for i := range 4 {
		r.block(i)
	}
	r.block(4, "slow")
	r.finish("budget")
	if report := r.verify(today); report.OK() || report.Findings[0].Kind != NotAsPlanned ||
		!strings.Contains(report.Findings[0].Problem, "slow is missing from block 4") {
		t.Errorf("left before: %s", findings(report))
	}
	r = record(t)
	r.block(0)
	r.finish("decided")
	if report := r.verify(today); report.OK() ||
		!strings.Contains(findings(report), "because everything was decided, but not") {
		t.Errorf("called decided after one block: %s", findings(report))
	}
}

// A program that knows more than the one that drew the plan says so, and finds
// what it would find otherwise.
func TestVerifyByALaterProgram(t *testing.T) {
	r, _ := decided(t)
	cat := catalogue()
	w := &cat.Workloads[0]
	w.Params = append(slices.Clone(w.Params), param.Spec{Name: "threads", Kind: param.Int, Default: "1"})
	w.Metrics = append(slices.Clone(w.Metrics), sample.Metric{Name: "joules", Unit: "J",
		Better: sample.Lower, Scale: sample.Ratio})
	w.Metrics[0].CPUTime = true
	cat.Drivers = slices.Clone(cat.Drivers)
	cat.Drivers[2].Options = []param.Spec{{Name: "exec", Kind: param.Text, Default: "init"}}
	report, err := Verify(r.run, today, &cat)
	if err != nil || !report.OK() {
		t.Fatalf("%v: %s", err, findings(report))
	}
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"threads of fast", "metric joules of other",
		"cpu_time of metric speed", "exec of crun"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not noted: %s", want, notes)
		}
	}
	// A changed comparison of a metric is not an addition.
	w.Metrics[0].Better = sample.Lower
	if report, err := Verify(r.run, today, &cat); err != nil || report.OK() || report.Findings[0].Kind != NotAsPlanned {
		t.Errorf("another direction: %v, %s", err, findings(report))
	}
}

func TestVerifyNotesWhatIsHarmless(t *testing.T) {
	r, _ := decided(t)
	if err := os.Mkdir(filepath.Join(r.run.Dir(), "raw", "8-0-x-y"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.run.Dir(), store.ResultsFile)); err != nil {
		t.Fatal(err)
	}
	r.edit(store.JournalFile, withoutLastLine)
	report := r.verify(today)
	if !report.OK() || len(report.Notes) != 2 {
		t.Errorf("%s", findings(report))
	}
	if _, err := json.Marshal(report); err != nil {
		t.Error(err)
	}
}

// Results from before a rule was added stay good where they would be the same
// today, and are told from tampering where they would not.
func TestVerifyTellsEarlierRules(t *testing.T) {
	rules := `"rules": ` + fmt.Sprint(analysis.Rules) + ",\n"
	r, _ := decided(t)
	r.replace(store.ResultsFile, rules, "")
	report := r.verify(today)
	if !report.OK() || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "an unnumbered version of the rules") {
		t.Errorf("the same results by earlier rules: %s", findings(report))
	}
	r.replace(store.ResultsFile, `"verdict": "equivalent"`, `"verdict": "better"`)
	report = r.verify(today)
	if report.OK() || report.Findings[0].Kind != Parser {
		t.Errorf("other results by earlier rules: %s", findings(report))
	}
	// Earlier rules did not say what is beyond the margin; present rules must.
	for rules, holds := range map[int]bool{5: true, analysis.Rules: false} {
		r, _ := decided(t)
		if rules != analysis.Rules {
			r.replace(store.ResultsFile, `"rules": `+fmt.Sprint(analysis.Rules), fmt.Sprintf(`"rules": %d`, rules))
		}
		r.replace(store.ResultsFile, `"beyond_margin": null,`, "")
		if report := r.verify(today); report.OK() != holds {
			t.Errorf("results of rules %d without beyond_margin: %s", rules, findings(report))
		}
	}
	// A gate that is newer than the results explains its comparison, and no other difference.
	shared := `"gates": [{"name": "cpu-shared", "reason": "x", "trials": 8, "of": 8}]`
	for _, x := range []struct {
		rules int
		holds bool
	}{{14, true}, {analysis.Rules, false}} {
		r, _ := decided(t)
		if x.rules != analysis.Rules {
			r.replace(store.ResultsFile, `"rules": `+fmt.Sprint(analysis.Rules), fmt.Sprintf(`"rules": %d`, x.rules))
		}
		r.replace(store.ResultsFile, `"verdict": "equivalent"`, `"verdict": "better"`)
		r.replace(store.ResultsFile, `"gates": []`, shared)
		report := r.verify(today)
		if report.OK() != x.holds || x.holds && !strings.HasPrefix(report.Notes[1], "newer rules: comparisons[") {
			t.Errorf("%+v: %s %v", x, findings(report), report.Notes)
		}
	}
	// Other words for the same warnings are no difference, fewer warnings are.
	now := map[string]any{"warnings": []any{"a", "b"}, "reason": "c"}
	for want, stored := range map[int]map[string]any{
		0: {"warnings": []any{"x", "y"}, "reason": "z"},
		1: {"warnings": []any{"x", "y"}, "reason": ""},
		2: {"warnings": []any{"x"}, "reason": "z"}, // the number and the first text
	} {
		d := differ{reworded: true}
		if d.compare("", stored, now, "", ""); len(d.differences) != want {
			t.Errorf("%v: %v", stored, d.differences)
		}
	}
}

// What was known of the machine is evidence as well.
func TestVerifyChecksTheCalibration(t *testing.T) {
	r, _ := decided(t)
	file := filepath.Join(r.run.Dir(), store.CalibrationFile)
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("{}")
	if report := r.verify(today); report.OK() || report.Findings[0].Kind != Tampered ||
		!strings.Contains(report.Findings[0].Problem, "does not mention it") {
		t.Errorf("one that the journal does not know: %s", findings(report))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := r.run.KeepCalibration(time.Now(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if report := r.verify(today); !report.OK() {
		t.Errorf("as it was kept: %s", findings(report))
	}
	put("{ }")
	if report := r.verify(today); report.OK() || report.Findings[0].Where != store.CalibrationFile {
		t.Errorf("one that was changed: %s", findings(report))
	}
}

// A plan with the former name of an option's value is the one that the lab
// file gives now.
func TestVerifyFormerNames(t *testing.T) {
	stored, _ := encoded(t)
	again, _ := encoded(t)
	cat := catalogue()
	cat.Drivers[2].Options = []param.Spec{{Name: "exec", Kind: param.Text, Enum: []string{"engine", "init"},
		Former: map[string]string{"porter": "init"}}}
	for value, want := range map[string]int{"porter": 0, "init": 0, "engine": 1} {
		stored.Contenders[2].Options = param.Values{"exec": value}
		again.Contenders[2].Options = param.Values{"exec": "init"}
		var v verifier
		v.drawnAgain(stored, again, &cat)
		if len(v.Findings) != want {
			t.Errorf("%s: %v, not %d findings", value, v.Findings, want)
		}
	}
}

// A plan with the default of an earlier program is the one that the lab file gives
// now; any other value is not.
func TestVerifyEarlierDefaults(t *testing.T) {
	stored, _ := encoded(t)
	again, _ := encoded(t)
	cat := catalogue()
	i := slices.IndexFunc(cat.Workloads, func(w manifest.WorkloadEntry) bool { return w.Name == stored.Cells[0].Workload })
	cat.Workloads[i].Params = append(cat.Workloads[i].Params,
		param.Spec{Name: "direct", Default: "auto", Earlier: "false"})
	for _, c := range []struct {
		stored, again string
		findings      int
	}{{"false", "auto", 0}, {"auto", "auto", 0}, {"true", "auto", 1}, {"false", "true", 1}} {
		stored.Cells[0].Params, again.Cells[0].Params = param.Values{"direct": c.stored}, param.Values{"direct": c.again}
		var v verifier
		v.drawnAgain(stored, again, &cat)
		if len(v.Findings) != c.findings {
			t.Errorf("%s in the plan, %s now: %v, not %d findings", c.stored, c.again, v.Findings, c.findings)
		}
	}
}

// A cell that a contender cannot run is missing with its reason, and the run verifies: the cell
// was left out before the first trial. A trial that is missing otherwise does not verify.
func TestACellThatIsLeftOut(t *testing.T) {
	unfit := map[plan.Place]bool{plan.At("crun", "other"): true, plan.At("slow", "fast"): true,
		plan.At("slow", "other"): true}
	block := func(r *recorder, index int, keep func(plan.Slot) bool) {
		for _, s := range r.plan.Blocks[index].Without(nil, unfit).Slots() {
			if keep(s) {
				r.trial(s)
			}
		}
		r.append(store.Line{Type: store.LineBlock, At: r.clock, Block: index, Status: store.OK})
	}
	begin := func() *recorder {
		r := record(t)
		r.append(store.Line{Type: store.LineUnfit, Contender: "crun", Cells: []string{"other"}, Reason: "it lacks wrk"})
		r.append(store.Line{Type: store.LineUnfit, Contender: "slow", Cells: []string{"fast", "other"}, Reason: "no disk"})
		r.append(store.Line{Type: store.LineEnvironment, Contender: "slow", Status: store.Void, Gone: true,
			Reason: "it can run no cell"})
		return r
	}
	r := begin()
	for i := range 8 {
		block(r, i, func(plan.Slot) bool { return true })
	}
	results := r.finish(analysis.EndedBlocks)
	want := []analysis.Missing{{Contender: "crun", Cell: "other", Reason: "it lacks wrk", Gone: true},
		{Contender: "slow", Cell: "fast", Reason: "no disk", Gone: true},
		{Contender: "slow", Cell: "other", Reason: "no disk", Gone: true}}
	if !reflect.DeepEqual(results.Missing, want) {
		t.Errorf("missing: %+v", results.Missing)
	}
	if report := r.verify(today); !report.OK() || len(report.Notes) > 0 {
		t.Errorf("%s", findings(report))
	}
	r = begin()
	block(r, 0, func(s plan.Slot) bool { return s.Contender != "crun" || s.Cell != "fast" || s.Position%2 == 0 })
	r.append(store.Line{Type: store.LineEnd, At: r.clock, Reason: analysis.EndedBlocks})
	if got := findings(r.verify(today)); !strings.Contains(got, "(fast on crun) is not in the journal") {
		t.Errorf("a trial that was not made: %s", got)
	}
}
