package evidence

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
)

// Two hundred differences are named one by one; the others are counted, by what they are.
func TestVerifyCountsWhatItDoesNotList(t *testing.T) {
	for n, more := range map[int]string{200: "", 201: "1 more values differ", 350: "150 more values differ"} {
		d := &differ{}
		for i := range n {
			d.add(fmt.Sprint("x", i), 1, 2, "crun", "fast")
		}
		v := verifier{story: &story{plan: &plan.Plan{}}}
		v.attribute(d)
		if want := min(n, 200) + min(max(n-200, 0), 1); len(v.Findings) != want {
			t.Errorf("%d differences: %d findings, want %d", n, len(v.Findings), want)
		}
		last := v.Findings[len(v.Findings)-1]
		got := last.Where == store.ResultsFile && last.Kind == Results
		if got != (more != "") || got && last.Problem != more {
			t.Errorf("%d differences: the last finding is %v", n, last)
		}
	}
	// By kind: what a changed file explains, what a parser explains, and what nothing does.
	d := &differ{more: 5}
	for i := range 200 {
		d.add(fmt.Sprint("x", i), 1, 2, "", "none")
	}
	for _, x := range []struct {
		contender string
		n         int
	}{{"slow", 2}, {"crun", 3}, {"other", 4}} {
		for range x.n {
			d.add("y", 1, 2, x.contender, "fast")
		}
	}
	v := verifier{story: &story{plan: &plan.Plan{Contenders: nil}}, tampered: map[place]bool{{1, 2}: true},
		parsers: map[[2]string]bool{{"crun", "fast"}: true}}
	v.story.trials = []store.Line{{Block: 1, Contender: "slow", Trial: &store.Trial{Cell: "fast", Position: 2}},
		{Block: 2, Contender: "other", Trial: &store.Trial{Cell: "fast", Position: 2}}}
	v.attribute(d)
	var got []string
	for _, f := range v.Findings[200:] {
		got = append(got, f.String())
	}
	want := []string{"tampered: results.json: 2 more values differ",
		"parser has changed: results.json: 3 more values differ",
		"results differ: results.json: 9 more values differ"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// A difference of the whole run is explained by any changed file.
	d = &differ{}
	d.add("blocks", 1, 2, "", "")
	v.Findings = nil
	if v.attribute(d); len(v.Findings) != 1 || v.Findings[0].Kind != Tampered ||
		v.Findings[0].Problem != "stored 1, recomputed 2" {
		t.Errorf("of the whole run: %v", v.Findings)
	}
}

// Notes and findings of Verify name the file and what to do.
func TestWordsOfVerify(t *testing.T) {
	dir := func(r *recorder) string { return r.run.Dir() }
	for name, x := range map[string]struct {
		change   func(*recorder)
		findings []string // in their order
		note     string
	}{
		"a folder that nobody knows": {
			change: func(r *recorder) { must(t, os.Mkdir(filepath.Join(dir(r), "raw", "8-0-x-y"), 0o777)) },
			note: "raw/8-0-x-y belongs to no trial in the journal: the run is writing it now, the run was killed while " +
				"writing it, or somebody added it"},
		"no results": {
			change: func(r *recorder) { must(t, os.Remove(filepath.Join(dir(r), store.ResultsFile))) },
			findings: []string{`results differ: results.json: the file is missing, but the run ended ("decided"): somebody ` +
				"removed it, or the run was killed at its end; `bakeoff report` writes it from the completed blocks"}},
		"no results of a run that goes on": {
			change: func(r *recorder) {
				must(t, os.Remove(filepath.Join(dir(r), store.ResultsFile)))
				r.edit(store.JournalFile, withoutLastLine)
			},
			note: "there is no results.json yet; `bakeoff report` writes it from the completed blocks"},
		"results twice": {
			change:   func(r *recorder) { r.edit(store.ResultsFile, func(b []byte) []byte { return append(b, b...) }) },
			findings: []string{"results differ: results.json: it cannot be read: invalid character '{' after top-level value"}},
		"a verdict twice": {
			change: func(r *recorder) {
				r.replace(store.ResultsFile, `"verdict": "worse"`, `"verdict": "better", "verdict": "worse"`)
			},
			findings: []string{`results differ: results.json: it cannot be read: an object contains "verdict" twice`}},
		"results cut short": {
			change:   func(r *recorder) { r.edit(store.ResultsFile, func(b []byte) []byte { return b[:30] }) },
			findings: []string{"results differ: results.json: it cannot be read: unexpected end"}},
	} {
		r, _ := decided(t)
		x.change(r)
		report := r.verify(today)
		if len(report.Findings) != len(x.findings) || x.note != "" && !slices.Contains(report.Notes, x.note) ||
			x.note == "" && len(report.Notes) != 0 {
			t.Errorf("%s: %s", name, findings(report))
			continue
		}
		for i, f := range report.Findings {
			if !strings.HasPrefix(f.String(), x.findings[i]) {
				t.Errorf("%s: %v, want %s", name, f, x.findings[i])
			}
		}
	}
}

// Results that contradict the plan or the journal next to them say so when they are read. They
// are damaged, also if other rules made them.
func TestResultsOfAnotherRun(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*recorder)
		want   string // "": nothing
	}{
		"intact": {func(*recorder) {}, ""},
		"another plan": {func(r *recorder) { r.replace(store.ResultsFile, `"plan_sha256": "`, `"plan_sha256": "00`) },
			"results.json belongs to a plan of sha256"},
		"no line for the end": {func(r *recorder) { r.edit(store.JournalFile, withoutLastLine) },
			`results.json says that the run ended ("decided"), but the journal has no line for the end of the run`},
		"results from before the end": {func(r *recorder) {
			r.replace(store.ResultsFile, `"ended": "decided"`, `"ended": ""`)
		}, `results.json says that the run has not ended, but the journal says that it ended ("decided")`},
		"another end": {func(r *recorder) { r.replace(store.ResultsFile, `"ended": "decided"`, `"ended": "budget"`) },
			`results.json says that the run ended because of "budget", but the journal says "decided"`},
		"other blocks": {func(r *recorder) { r.replace(store.ResultsFile, `"blocks": 8`, `"blocks": 9`) },
			"results.json counts 9 blocks and 0 void ones, but the journal has 8 and 0"},
		"other void blocks": {func(r *recorder) { r.replace(store.ResultsFile, `"void": 0`, `"void": 2`) },
			"results.json counts 8 blocks and 2 void ones, but the journal has 8 and 0"},
	} {
		r, _ := decided(t)
		x.change(r)
		_, o, err := ReadResults(r.run)
		got := strings.Join(o.Unplanned, "\n")
		if err != nil || !strings.HasPrefix(got, x.want) || x.want == "" && got != "" {
			t.Errorf("%s: %v, %q", name, err, got)
		}
		r.replace(store.ResultsFile, `"rules": `+fmt.Sprint(analysis.Rules)+",\n", "")
		if report := r.verify(today); len(report.Damage()) > 0 != (x.want != "") {
			t.Errorf("%s, by earlier rules: %s", name, findings(report))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A lab file that this program refuses is a note: an earlier one accepted it.
func TestVerifyOfARefusedLabFile(t *testing.T) {
	r, _ := decided(t)
	cat := catalogue()
	cat.Drivers = slices.DeleteFunc(cat.Drivers, func(d manifest.DriverEntry) bool { return d.Name == "oci" })
	report, err := Verify(r.run, today, &cat)
	if err != nil || !report.OK() || len(report.Notes) != 1 || !strings.HasPrefix(report.Notes[0],
		"the plan was not recomputed, because this program refuses the lab file: ") {
		t.Errorf("%v, %s", err, findings(report))
	}
	// Without a catalogue nobody parses it.
	if report, err := Verify(r.run, today, nil); err != nil || !report.OK() || len(report.Notes) != 0 {
		t.Errorf("without a catalogue: %v, %s", err, findings(report))
	}
}

// A raw file that cannot be parsed any more fails its trial, and the finding is the file.
func TestVerifyOfAnUnreadableTrial(t *testing.T) {
	r, _ := decided(t)
	slot := r.plan.Blocks[0].Slots()[0]
	name := "raw/" + store.RawName(slot) + "/work.json"
	r.edit(name, func([]byte) []byte { return []byte("{") })
	report := r.verify(today)
	if report.OK() || report.Findings[0].Where != name {
		t.Fatalf("%s", findings(report))
	}
	for _, f := range report.Findings {
		if f.Kind != Tampered {
			t.Errorf("blames something else: %v", f)
		}
	}
	s, err := open(r.run)
	must(t, err)
	v := verifier{run: r.run, story: s, tampered: map[place]bool{{slot.Block, slot.Position}: true}}
	reader := NewReader(r.run, today)
	reader.unverified = true
	data, err := v.data(reader)
	must(t, err)
	failed := 0
	for _, o := range data.Observations {
		if o.Failed {
			failed++
			if o.Reason != "the raw output was changed and cannot be read" || o.Values != nil ||
				o.Block != slot.Block || o.Position != slot.Position {
				t.Errorf("%+v", o)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d trials failed", failed)
	}
}

// unsteady is a parser whose numbers decide nothing.
type unsteady struct {
	fixture
	calls *int
}

func (u unsteady) Parse(raw workload.Raw, p param.Values) ([]sample.Value, error) {
	values, err := u.fixture.Parse(raw, p)
	*u.calls++
	for i := range values {
		values[i].Value *= float64(1 + 7**u.calls%5)
	}
	return values, err
}

// Numbers that changed files or another parser gave do not decide who left too early.
func TestVerifyBlamesNoLeavingOnOtherNumbers(t *testing.T) {
	r, _ := decided(t)
	for name, report := range map[string]Report{
		"another parser": r.verify([]workload.Parser{unsteady{fixture{version: 2, factor: 1}, new(int)}}),
		"changed files": func() Report {
			for i, b := range r.plan.Blocks[:8] {
				for _, s := range b.Slots() {
					if s.Contender == "slow" && i%2 == 0 {
						r.edit("raw/"+store.RawName(s)+"/work.json", func(b []byte) []byte {
							return bytes.Replace(b, []byte(`"value":`), []byte(`"value":9`), 1)
						})
					}
				}
			}
			return r.verify(today)
		}(),
	} {
		if report.OK() {
			t.Errorf("%s: it holds", name)
		}
		for _, f := range report.Findings {
			if f.Kind == NotAsPlanned {
				t.Errorf("%s: %v", name, f)
			}
		}
	}
	// The same numbers by the same parser do.
	fresh, _ := decided(t)
	report := fresh.verify([]workload.Parser{unsteady{fixture{version: 1, factor: 1}, new(int)}})
	if !strings.Contains(findings(report), "because everything was decided, but not") {
		t.Errorf("the same parser: %d findings", len(report.Findings))
	}
}
