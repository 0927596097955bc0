package evidence

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/lab/plan"
	"bakeoff/lab/store"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

// What trials ran joins the facts of their contender, which then differ from
// the baseline's where the builds do.
func TestProgramsJoinTheFacts(t *testing.T) {
	p := programs{}
	for _, c := range []struct{ contender, blob string }{
		{"host", `{"version":"1.0.20","sha256":"aa"}`},
		{"crun", `{"version":"1.0.20","sha256":"bb","fsync":"on"}`},
		{"crun", `{"version":"1.0.20","sha256":"bb","fsync":"off"}`},
		{"crun", `{"../x":"1","big":"` + strings.Repeat("x", maxProgramValue+1) + `"}`},
		{"crun", `{"version":`},
		{"gone", `{"version":"1"}`},
	} {
		p.note("sysbench", c.contender, workload.Raw{workload.Facts: []byte(c.blob)})
	}
	many := "{"
	for i := range maxProgramFacts + 1 {
		many += fmt.Sprintf(`"f%d":"",`, i)
	}
	p.note("sysbench", "crun", workload.Raw{workload.Facts: []byte(many + `"z":""}`)})
	facts := map[string]map[string]string{"host": {"kernel": "6"}, "crun": {}}
	p.addFacts(facts)
	want := map[string]map[string]string{
		"host": {"kernel": "6", "program.sysbench.version": "1.0.20", "program.sysbench.sha256": "aa"},
		"crun": {"program.sysbench.version": "1.0.20", "program.sysbench.sha256": "bb", "program.sysbench.fsync": "off | on"},
	}
	if fmt.Sprint(facts) != fmt.Sprint(want) {
		t.Errorf("facts are %v, want %v", facts, want)
	}
}

// An environment may build its own program, so there may be any number of them.
func TestExecutablesAreBounded(t *testing.T) {
	p, facts := programs{}, map[string]map[string]string{"host": {}}
	for i := range 2 * maxExecutables {
		p.note("command", "host", workload.Raw{workload.Facts: fmt.Appendf(nil, `{"executable":"%02d"}`, i)})
	}
	p.addFacts(facts)
	const want = "00 | 01 | 02 | 03 | 04 | 05 | 06 | 07 | 8 others"
	if got := facts["host"]["program.command.executable"]; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The same file at another path is no confounder. If the file is another one, its path
// is, too.
func TestPathsOfTheSameProgram(t *testing.T) {
	facts := func(file, path string) map[string]string {
		return map[string]string{"program.command.executable": file, "program.command.path": path}
	}
	meant := map[string][]string{}
	samePrograms(meant, map[string]map[string]string{"host": facts("1", "/bin/sh"), "bwrap": facts("1", "/bin/sh"),
		"crun": facts("1", "/usr/bin/sh"), "docker": facts("2", "/usr/bin/sh"), "gone": nil}, "host")
	if got, want := fmt.Sprint(meant), "map[crun:[program.command.path]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// diagnosing is a workload of another program.
type diagnosing struct {
	workload.Parser
	says workload.Diagnostics
}

func (diagnosing) Doc() workload.Doc { return workload.Doc{} }

func (w diagnosing) Diagnose(workload.Raw, param.Values) (workload.Diagnostics, bool) {
	return w.says, w.says.Errors != nil || w.says.Generator != nil
}

func (diagnosing) Parse(workload.Raw, param.Values) ([]sample.Value, error) { return nil, nil }

// What another program's output says against its trial fails the same gates
// as a native loop's.
func TestDiagnosticsFailGates(t *testing.T) {
	w := diagnosing{says: workload.Diagnostics{OwnTime: "0.88 s", Errors: map[string]int64{"status": 3},
		Generator: &wire.Generator{Utilisation: 1}}}
	failed := map[string]bool{}
	for _, g := range Gates() {
		if g.Failed(TrialOf(w, plan.Cell{}, store.Line{}, workload.Raw{})) != "" {
			failed[g.Name] = true
		}
	}
	if len(failed) != 3 || !failed["own-time"] || !failed["errors"] || !failed["ceiling"] {
		t.Errorf("failed %v, want errors, ceiling and own-time", failed)
	}
	if TrialOf(diagnosing{}, plan.Cell{}, store.Line{}, workload.Raw{}).Work != nil {
		t.Error("a diagnoser that cannot read its output said something")
	}
}
