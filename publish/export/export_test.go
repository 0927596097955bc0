package export

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/sample"
	"bakeoff/judge/analysis"
)

// measured is a run in which slow is plainly worse.
func measured(run string) analysis.Results {
	d := analysis.Data{Run: run, Baseline: "base", Margin: 0.02, Looks: []int{8}, Alphas: []float64{.05},
		Scope:      analysis.ScopeMachine,
		Contenders: []analysis.Contender{{Name: "base"}, {Name: "slow"}, {Name: "gone"}},
		Cells: []analysis.Cell{{Name: "http 50", Workload: "http", Metrics: []sample.Metric{
			{Name: "throughput", Unit: "request/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio}}}},
		Missing: []analysis.Missing{{Contender: "gone", Cell: "http 50", Reason: "not \"installed\""}},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for b := range 8 {
		for p, c := range []string{"base", "slow", "slow", "base"} {
			v := 1000 * math.Exp(0.01*rng.NormFloat64())
			if c == "slow" {
				v *= 0.8
			}
			d.Observations = append(d.Observations, analysis.Observation{Block: b, Position: p, Instance: "i" + c, Contender: c,
				Cell:   "http 50",
				Values: []sample.Value{{Metric: "throughput", Unit: "request/s", Value: v}}})
		}
	}
	return analysis.Analyse(d)
}

func written(t *testing.T, format string, runs ...analysis.Results) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, format, lists.Map(runs, func(r analysis.Results) Run { return Run{Results: r} })); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSVComesBackWithTheSameVerdict(t *testing.T) {
	r := measured("20260102T030405Z-x")
	got, err := analysis.ReadTable(strings.NewReader(written(t, "csv", r)), "x.csv",
		analysis.TableOptions{Baseline: "base", Margin: 0.02, Looks: []int{8}, Alphas: []float64{.05}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := r.Comparisons[0], got[0].Comparisons[0]
	if a.Verdict != analysis.Worse || a.Verdict != b.Verdict || *a.Ratio != *b.Ratio || *a.CI[0] != *b.CI[0] ||
		*a.CI[1] != *b.CI[1] {
		t.Errorf("went out as %+v, came back as %+v", a, b)
	}
}

// Differences stay differences, and failures stay in the ranks: without either
// the file that went out would be judged otherwise than the run.
func TestCSVHasDifferencesAndFailures(t *testing.T) {
	d := analysis.Data{Run: "r", Baseline: "base", Margin: 0.02, Looks: []int{8}, Alphas: []float64{.05},
		Scope:      analysis.ScopeMachine,
		Contenders: []analysis.Contender{{Name: "base"}, {Name: "other"}},
		Cells: []analysis.Cell{{Name: "c", Workload: "c", Metrics: []sample.Metric{
			{Name: "misses", Unit: "misses", Better: sample.Lower, Primary: true, Scale: sample.Difference}}}}}
	rng := rand.New(rand.NewPCG(3, 4))
	for b := range 8 {
		for p, c := range []string{"base", "other", "other", "base"} {
			o := analysis.Observation{Block: b, Position: p, Contender: c, Cell: "c"}
			if c == "other" && p == 2 {
				o.Failed = true
			} else {
				o.Values = []sample.Value{{Metric: "misses", Unit: "misses", Value: rng.NormFloat64()}}
			}
			d.Observations = append(d.Observations, o)
		}
	}
	r := analysis.Analyse(d)
	text := written(t, "csv", r)
	if n := strings.Count(text, ",difference,failed,"); n != 8 {
		t.Fatalf("%d failures of 8 in\n%s", n, text)
	}
	got, err := analysis.ReadTable(strings.NewReader(text), "x.csv",
		analysis.TableOptions{Baseline: "base", Margin: 0.02, Looks: []int{8}, Alphas: []float64{.05}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := r.Comparisons[0], got[0].Comparisons[0]
	if a.Verdict != analysis.Worse || a.Verdict != b.Verdict || a.Scale != b.Scale || a.Failures != b.Failures ||
		a.Failures.Contender == 0 {
		t.Errorf("went out as %+v, came back as %+v", a, b)
	}
}

func TestJSONIsOneObjectALine(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(written(t, "json", measured("a"), measured("b"))), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines for two runs", len(lines))
	}
	var r analysis.Results
	if err := json.Unmarshal([]byte(lines[1]), &r); err != nil || r.Run != "b" {
		t.Errorf("second line is %q, %v", r.Run, err)
	}
}

func TestJUnitSaysWorseIsAFailure(t *testing.T) {
	var s suites
	if err := xml.Unmarshal([]byte(written(t, "junit", measured("a"))), &s); err != nil {
		t.Fatal(err)
	}
	if u := s.Suites[0]; u.Failures != 1 || u.Tests != len(u.Cases) || u.Cases[0].Failure == nil ||
		!strings.Contains(u.Cases[0].Failure.Message, "worse by more than 2 %: base 1003 request/s, slow 801 request/s, "+
			"−20.3 % (CI −21.1 to −18.9 %), 8 blocks") {
		t.Errorf("suite %+v", u)
	}
}

// A contender that failed in every trial has no verdict to be worse by. A build
// server must not take it for a test that was left out, nor a run whose control
// failed for a sound one.
func TestJUnitIsNotGreenWhereNothingWasMeasured(t *testing.T) {
	r := measured("a")
	r.Missing = []analysis.Missing{{Contender: "broken", Cell: "http_50",
		Reason: "none of 16 trials succeeded: kernel panic"}}
	for _, different := range []bool{false, true} {
		r.Twin = &analysis.Twin{Name: "fast~twin", Different: different}
		var s suites
		if err := xml.Unmarshal([]byte(written(t, "junit", r)), &s); err != nil {
			t.Fatal(err)
		}
		errors := map[string]string{}
		for _, k := range s.Suites[0].Cases {
			if k.Error != nil {
				errors[k.Class+" "+k.Name] = k.Error.Message
			}
		}
		if len(errors) != s.Suites[0].Errors || !strings.Contains(errors["http_50 broken"], "kernel panic") {
			t.Errorf("missing cells: %v", errors)
		}
		if _, told := errors["control fast~twin against "+r.Baseline]; told != different {
			t.Errorf("the twin is different: %v, errors %v", different, errors)
		}
	}
}

// A comparison whose verdict this program does not know is no passed test.
func TestJUnitIsNotGreenWithoutAKnownVerdict(t *testing.T) {
	for _, verdict := range []analysis.Verdict{"", "Worse"} {
		r := measured("a")
		r.Comparisons[0].Verdict = verdict
		var s suites
		if err := xml.Unmarshal([]byte(written(t, "junit", r)), &s); err != nil {
			t.Fatal(err)
		}
		if s.Suites[0].Cases[0].Error == nil {
			t.Errorf("%q: %+v", verdict, s.Suites[0])
		}
	}
}

// A build server must not show a twin that no test compared as a passed test.
func TestJUnitSkipsATwinThatWasNotTested(t *testing.T) {
	low, high := 0.99, 1.01
	for name, x := range map[string]struct {
		c       analysis.Comparison
		skipped bool
	}{
		"tested":             {analysis.Comparison{Primary: true, Look: 8, CI: analysis.Interval{&low, &high}}, false},
		"before a look":      {analysis.Comparison{Primary: true}, true},
		"without a primary":  {analysis.Comparison{Look: 8, CI: analysis.Interval{&low, &high}}, true},
		"with a failed gate": {analysis.Comparison{Primary: true, Look: 8, Gates: []analysis.Gate{{Name: "order"}}}, true},
	} {
		r := measured("a")
		r.Twin = &analysis.Twin{Name: "fast~twin", Comparisons: []analysis.Comparison{x.c}}
		var s suites
		if err := xml.Unmarshal([]byte(written(t, "junit", r)), &s); err != nil {
			t.Fatal(err)
		}
		k := s.Suites[0].Cases[len(s.Suites[0].Cases)-1]
		if k.Class != "control" || (k.Skipped != nil) != x.skipped || k.Error != nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

func TestBenchfmtLines(t *testing.T) {
	text := written(t, "benchfmt", measured("a"))
	if !strings.Contains(text, "Unit request/s better=higher\n") || !strings.Contains(text, "contender: slow\n") {
		t.Errorf("no unit or no key in %.300s", text)
	}
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Benchmark") {
			n++
			if f := strings.Fields(line); len(f) != 4 || f[0] != "BenchmarkCell/http_50/metric=throughput" ||
				f[3] != "request/s" {
				t.Errorf("line %q", line)
			}
		}
	}
	if n != 32 {
		t.Errorf("%d lines for 32 samples", n)
	}
}

func TestOpenMetrics(t *testing.T) {
	r := measured("a")
	r.Run = "with \"quotes\"\nand a line"
	text := written(t, "openmetrics", r)
	if !strings.HasSuffix(text, "# EOF\n") || strings.Count(text, "# EOF") != 1 {
		t.Error("it does not end as the format wants")
	}
	if !strings.Contains(text, `run="with \"quotes\"\nand a line"`) {
		t.Error("labels are not escaped")
	}
	if strings.Count(text, "bakeoff_verdict{") != 4 || !strings.Contains(text, `bakeoff_verdict="worse"} 1`) {
		t.Errorf("no state set of the verdict in %s", text)
	}
}

// A name with control characters reaches no file: programs that read exports print
// them.
func TestExportsHaveNoControlCharacters(t *testing.T) {
	for _, f := range Formats() {
		const evil = "a\x1b[2J\x07b\u202ec"
		r := measured("run")
		r.Run, r.Contenders[1].Name = evil, evil
		r.Summaries[1].Contender, r.Summaries[1].Samples[0].Instance, r.Comparisons[0].Contender = evil, evil, evil
		r.Missing[0].Reason, r.Cells[0].Name, r.Comparisons[0].Cell = evil, evil, evil
		got := written(t, f.Name, r)
		if i := strings.IndexFunc(got, func(c rune) bool {
			return c < ' ' && c != '\n' && c != '\t' || c == 0x202e
		}); i >= 0 || strings.Contains(got, `\u001b`) || !strings.Contains(got, "[2J") {
			t.Errorf("%s: %.300q", f.Name, got)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := Write(io.Discard, "xls", nil); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "benchfmt, csv") {
		t.Errorf("error %v; want Invalid with the formats there are", err)
	}
	if !slices.IsSortedFunc(Formats(), func(a, b Format) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("formats are not in order")
	}
}

// Whatever is in a results file, no format panics or leaves its frame.
func FuzzWrite(f *testing.F) {
	b, err := json.Marshal(measured("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"comparisons":[{"verdict":"worse","primary":true}],"missing":[{"reason":"\u0000<"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r analysis.Results
		if json.Unmarshal(b, &r) != nil {
			return
		}
		for _, form := range Formats() {
			var out bytes.Buffer
			if err := Write(&out, form.Name, []Run{{Results: r}}); err != nil {
				t.Errorf("%s: %v", form.Name, err)
			}
			if form.Name == "junit" {
				var s suites
				if err := xml.Unmarshal(out.Bytes(), &s); err != nil {
					t.Errorf("junit is not XML: %v", err)
				}
			}
		}
	})
}

// A tolerance is a test case of its own: the comparison that it concerns is no failure.
func TestJUnitOfTolerances(t *testing.T) {
	lo, hi := 1.02, 1.04
	r := analysis.Results{Run: "r", Baseline: "old", Cells: []analysis.Cell{{Name: "job"}}}
	for _, o := range []analysis.Outcome{analysis.Exceeded, analysis.Kept, analysis.Undecided} {
		name := string(o)
		r.Comparisons = append(r.Comparisons, analysis.Comparison{Contender: name, Baseline: "old", Cell: "job",
			Metric:  "cpu",
			Primary: true, Verdict: analysis.Worse, CI: analysis.Interval{&lo, &hi}})
		r.Limits = append(r.Limits, analysis.Limited{Condition: "cpu>+5%", Contender: name, Cell: "job", Metric: "cpu",
			Outcome: o, CI: analysis.Interval{&lo, &hi}, Blocks: 8})
	}
	var out bytes.Buffer
	if err := Write(&out, "junit", []Run{{Results: r}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`tests="6" failures="1" errors="1" skipped="0"`,
		`<failure message="tolerance cpu&gt;+5% exceeded: +2.0 % or higher"></failure>`,
		`<error message="tolerance cpu&gt;+5% inconclusive: +2.0 to +4.0 % after 8 blocks"></error>`,
		`<system-out>tolerance cpu&gt;+5% kept: +2.0 to +4.0 % after 8 blocks</system-out>`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}
