package preflight

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
)

// A run leaves out what a contender cannot run: a file that it lacks, and a program. A cell that
// the baseline cannot run is left out everywhere.
func TestWhatARunLeavesOut(t *testing.T) {
	const contenders = "  - {name: base, driver: shelf}\n" +
		"  - {name: other, driver: shelf, params: {try: {argv: [/no/such/tool]}}}\n"
	tell := func(s Survey) string {
		var out []string
		for _, o := range s.LeftOut {
			out = append(out, fmt.Sprintf("%s %s: %s", o.Contender, strings.Join(o.Cells, "+"), o.Reason))
		}
		return strings.Join(out, "\n")
	}
	const try = "  - {name: try, workload: command, params: {argv: [sh]}, primary: true}\n"
	s := look(t, contenders, try+diceCell)
	if got := tell(s); got != "other try: argv: there is no file /no/such/tool" || s.Refusal() != nil {
		t.Errorf("%s; %v", got, s.Refusal())
	}
	gone, unfit := s.Rest()
	if gone["other"] || !unfit[plan.At("other", "try")] || len(unfit) != 1 {
		t.Errorf("%v, %v", gone, unfit)
	}
	// Of the other nothing remains, and so nothing that could be compared.
	s = look(t, contenders, try)
	if a := s.Settled()[1].Answer; a.OK || a.Reason != "it can run no cell: try: argv: there is no file /no/such/tool" {
		t.Errorf("%+v", a)
	}
	if able, all := s.Count(); able != 1 || all != 2 || !s.Answers[1].Answer.OK {
		t.Errorf("%d of %d can run", able, all)
	}
	if err := s.Refusal(); !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "no such") &&
		!strings.Contains(err.Error(), "/no/such/tool") {
		t.Errorf("%v", err)
	}
	const lacking = "base, driver: shelf, params: {two: {argv: [/none]}}"
	s = look(t, strings.Replace(contenders, "base, driver: shelf", lacking, 1),
		diceCell+strings.Replace(try, "try", "two", 1)+try)
	want := "base two: argv: there is no file /none\n" +
		"other two: the baseline base cannot run it: argv: there is no file /none\n" +
		"other try: argv: there is no file /no/such/tool\nbase~twin two: argv: there is no file /none"
	if got := tell(s); got != want {
		t.Errorf("%s", got)
	}
}

// A program that a contender brings itself, or looks for in a PATH of its own, is not missing
// because its host lacks it. The load generator has neither.
func TestProgramsThatContendersBring(t *testing.T) {
	p := &plan.Plan{Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "plain"}},
		{Contender: manifest.Contender{Name: "path", Env: map[string]string{"PATH": "/opt/bin"}}},
		{Contender: manifest.Contender{Name: "placed", Files: []manifest.File{{From: "wrk", To: "/usr/local/bin/wrk"}}}}}}
	var all []plan.Place
	for _, c := range p.Contenders {
		all = append(all, plan.At(c.Name, "k"))
	}
	lack := Lack{Program: "wrk", Fix: "apt-get install wrk", runs: all}
	got := inspector{plan: p}.reasons(Survey{Lacks: []Lack{lack}})
	if want := "the machine lacks the program wrk; apt-get install wrk"; len(got) != 1 || got[all[0]] != want {
		t.Errorf("%v", got)
	}
	lack.runs, lack.loads = nil, all
	got = inspector{plan: p}.reasons(Survey{Lacks: []Lack{lack}})
	if want := "the load generator lacks the program wrk; apt-get install wrk"; len(got) != 3 || got[all[1]] != want {
		t.Errorf("%v", got)
	}
}
