package compare

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/judge/analysis"
)

// A contender of one name that ran another command is not compared with itself.
func TestVariantsThatDiffer(t *testing.T) {
	run := func(argv, lang string) analysis.Results {
		zip := analysis.Contender{Name: "zip", Env: map[string]string{"LANG": lang},
			Params: map[string]param.Values{"try": {"argv": argv}, "gone": {"argv": lang}}}
		return analysis.Results{Run: argv, Cells: []analysis.Cell{{Name: "try"}}, Contenders: []analysis.Contender{zip}}
	}
	if err := checkSameWork(run("gzip", "C"), run("gzip", "C")); err != nil {
		t.Error(err)
	}
	err := checkSameWork(run("gzip", "C"), run("zstd", "de"))
	if !fault.Is(err, fault.Invalid) {
		t.Fatalf("accepted: %v", err)
	}
	for _, want := range []string{`contender zip: argv at try is "gzip" in one and "zstd" in the other`,
		`contender zip: the variable LANG is "C" in one and "de" in the other`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "gone") {
		t.Errorf("a cell that neither has: %v", err)
	}
}
