package report

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/analysis"
)

// A warning about many comparisons is shown once, with its places.
func TestWarningsAreGathered(t *testing.T) {
	d, p := example()
	r := copied(t, analysis.Analyse(d))
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Warnings = []string{"too few values"}
		if c.Contender == "crun" && c.Cell == "syscall" && c.Metric == "rate" {
			c.Warnings = append(c.Warnings, "an odd one")
		}
	}
	dir, page := written(t, d, p, r)
	doc := sound(t, dir, page)
	for _, want := range []string{"crun: syscall (rate): an odd one",
		"too few values: 22 comparisons which chroot, crun: " +
			"sha256-16k (throughput, cpu-per-op), syscall (rate, cpu-per-op)"} {
		if !strings.Contains(doc.text, want) {
			t.Errorf("the page does not say %q:\n%s", want, doc.text[strings.Index(doc.text, "Warnings about"):][:600])
		}
	}
	if n := strings.Count(doc.text, "too few values"); n != 1 {
		t.Errorf("it is shown %d times", n)
	}
}

// One trial may take the verdicts of several contenders and metrics away, the
// baseline's of all: they are in one row.
func TestFailedChecksAreGathered(t *testing.T) {
	gate := []analysis.Gate{{Name: "steal", Reason: "6 % was stolen", Trials: 1, Of: 2}}
	var cs []analysis.Comparison
	for _, contender := range []string{"a", "b"} {
		for _, metric := range []string{"throughput", "latency"} {
			cs = append(cs, analysis.Comparison{Contender: contender, Cell: "http", Metric: metric, Gates: gate})
		}
	}
	cs = append(cs, analysis.Comparison{Contender: "c", Cell: "http", Metric: "latency", Gates: gate})
	b := newBuilder(&contents{results: analysis.Results{Comparisons: cs}})
	b.checked()
	if n := len(b.page.Checks); n != 1 {
		t.Fatalf("%d kinds of check", n)
	}
	want := [][]string{{"a, b", "http", "throughput, latency", "1 of 2", "6 % was stolen"},
		{"c", "http", "latency", "1 of 2", "6 % was stolen"}}
	if got := b.page.Checks[0].Failed.Rows; !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

// Many emulated machines are named in one sentence: the answer stands below it.
func TestEmulatedMachinesAreNamedTogether(t *testing.T) {
	tcg := map[string]string{"accelerator": "tcg"}
	r := analysis.Results{Contenders: []analysis.Contender{{Name: "a", Facts: tcg}, {Name: "b"}, {Name: "c", Facts: tcg},
		{Name: "a~twin", TwinOf: "a", Facts: tcg}}}
	if got := emulated(r); len(got) != 1 || !strings.HasPrefix(got[0], "a, c: the CPU was emulated") {
		t.Errorf("%q", got)
	}
}
