package evidence

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// The first failure of a missing cell comes with what its program printed last.
func TestFailures(t *testing.T) {
	var long strings.Builder
	for i := range 12 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	exec := func(code int, signal, stdout, stderr string) *wire.ExecResult {
		return &wire.ExecResult{Schema: wire.ExecSchema, Argv: []string{"job", "a\x1bb"}, Code: code,
			Signal: signal, ElapsedNS: 1,
			Stdout: []byte(stdout), Stderr: []byte(stderr)}
	}
	r := record(t)
	position := 0
	trial := func(contender, cell string, status store.Status, reason string, res *wire.ExecResult) {
		t.Helper()
		s := plan.Slot{Position: position, Contender: contender, Cell: cell}
		position++
		line := store.Line{Type: store.LineTrial, Contender: contender, Status: status, Reason: reason,
			Trial: &store.Trial{Position: s.Position, Cell: cell}}
		if res != nil {
			b, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			if line.Raw, err = r.run.WriteRaw(s, map[string][]byte{workload.ExecBlob: b}); err != nil {
				t.Fatal(err)
			}
		}
		r.append(line)
	}
	trial("host", "fast", store.Subject, "ended with 3", exec(3, "", "out", "why\x1b[2J\n\n"))
	trial("host", "fast", store.Subject, "ended otherwise", exec(4, "", "", ""))
	trial("crun", "fast", store.Subject, "ended with 3", exec(3, "", "out", "why\x1b[2J\n\n"))
	trial("host~twin", "fast", store.Subject, "ended with 3", exec(3, "", "out", "why\x1b[2J\n\n"))
	trial("slow", "fast", store.Subject, "killed", exec(0, "killed", long.String(), " \n"))
	trial("host", "other", store.Subject, "prepare: no disk", nil)
	trial("crun", "other", store.OK, "", exec(0, "", "", ""))
	trial("slow", "other", store.Subject, "no number", exec(7, "", "", "text"))
	results := analysis.Results{Twin: &analysis.Twin{Name: "host~twin"},
		Cells:      []analysis.Cell{{Name: "fast", Params: param.Values{"exit": "0"}}, {Name: "other"}},
		Contenders: []analysis.Contender{{Name: "slow", Params: map[string]param.Values{"other": {"exit": "any"}}}}}
	for _, m := range []string{"host fast", "crun fast", "host~twin fast", "slow fast", "host other",
		"crun other", "slow other",
		"never fast"} {
		contender, cell, _ := strings.Cut(m, " ")
		results.Missing = append(results.Missing, analysis.Missing{Contender: contender, Cell: cell})
	}
	got, err := Failures(r.run, results)
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"job", "a\ufffdb"}
	last := strings.Split(strings.TrimSpace(long.String()), "\n")[2:]
	want := []Failure{
		{Cell: "fast", Contenders: []string{"host", "crun"}, Reason: "ended with 3", Argv: argv, Code: 3,
			Stderr: []string{"why\ufffd[2J"}, Unexpected: true},
		{Cell: "fast", Contenders: []string{"slow"}, Reason: "killed", Argv: argv, Signal: "killed", Stderr: last},
		{Cell: "other", Contenders: []string{"host"}, Reason: "prepare: no disk"},
		{Cell: "other", Contenders: []string{"slow"}, Reason: "no number", Argv: argv, Code: 7, Stderr: []string{"text"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
}
