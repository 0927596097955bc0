package dryrun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/workload/command"
	"bakeoff/reach/conn/local"
)

// timed is a plan with one cell of the workload command and these contenders.
func timed(cell param.Values, contenders ...plan.Contender) *plan.Plan {
	p := param.Defaults(command.Workload{}.Doc().Params)
	for name, value := range cell {
		p[name] = value
	}
	return &plan.Plan{Cells: []plan.Cell{{Cell: manifest.Cell{Name: "one", Workload: "command", Params: p}}},
		Contenders: contenders}
}

func onHost(name string, params param.Values) plan.Contender {
	c := plan.Contender{Contender: manifest.Contender{Name: name, Driver: "host"}}
	if params != nil {
		c.Params = map[string]param.Values{"one": params}
	}
	return c
}

func everyone(string) bool { return true }

// plan executes what a run would execute here, in the folder of the lab file, and before
// and after it what belongs to it.
func TestCommandsAreTimedOnce(t *testing.T) {
	dir := t.TempDir()
	twin := onHost("base~twin", nil)
	twin.TwinOf = "base"
	p := timed(param.Values{"workdir": dir, "prepare": "sh\n-c\necho prepare >>log", "reset": "sh\n-c\necho reset >>log",
		"argv": "sh\n-c\necho $WHO >>log", "cleanup": "sh\n-c\necho cleanup >>log", "env": "WHO=me"},
		onHost("base", nil), twin)
	out := timeCommands(t.Context(), local.Conn{}, p, everyone)
	if len(out) != 1 || out[0].Contender != "base" || out[0].Cell != "one" || out[0].NS == nil || *out[0].NS <= 0 {
		t.Fatalf("%+v", out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || string(b) != "prepare\nreset\nme\ncleanup\n" {
		t.Errorf("%q, %v", b, err)
	}
	took := estimates(p, out)
	if want := time.Duration(*out[0].NS); took["base"]["one"] != want || took["base~twin"]["one"] != want {
		t.Errorf("%v, want %v for both", took, want)
	}
}

// What would not run on this machine as it is, is not executed: other environments, placed
// files, a contender that cannot run, and a command whose estimate the lab file has.
func TestOthersAreNotExecuted(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	touch := param.Values{"argv": "touch\n" + mark}
	box, far, placed := onHost("box", nil), onHost("far", nil), onHost("placed", nil)
	box.Driver, far.Host, placed.Files = "crun", "elsewhere", []manifest.File{{}}
	p := timed(touch, box, far, placed)
	if out := timeCommands(t.Context(), local.Conn{}, p, everyone); len(out) != 0 {
		t.Errorf("%+v", out)
	}
	known := timed(param.Values{"argv": touch["argv"], "estimate": "1s"}, onHost("base", nil))
	for _, out := range [][]Timing{
		timeCommands(t.Context(), local.Conn{}, known, everyone),
		timeCommands(t.Context(), local.Conn{}, timed(touch, onHost("base", nil)), func(string) bool { return false }),
	} {
		if len(out) != 0 {
			t.Errorf("%+v", out)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a command was executed")
	}
}

// A command that fails has no time, and says why; others at its cell are taken to last as
// long as the longest that is known.
func TestFailuresHaveNoTime(t *testing.T) {
	p := timed(nil, onHost("good", param.Values{"argv": "true"}), onHost("bad", param.Values{"argv": "false"}),
		onHost("gone", param.Values{"argv": "/nonexistent/program"}))
	for _, name := range []string{"estimate", "exit"} { // of the cell, as a plan has them
		for i := range p.Contenders {
			p.Contenders[i].Params["one"][name] = p.Cells[0].Params[name]
		}
	}
	out := timeCommands(t.Context(), local.Conn{}, p, everyone)
	if len(out) != 3 || out[0].NS == nil || out[1].NS != nil || !strings.Contains(out[1].Why, "exit code 1") ||
		out[2].NS != nil || out[2].Why == "" {
		t.Fatalf("%+v", out)
	}
	took := estimates(p, out)
	if took["bad"]["one"] != took["good"]["one"] || took["bad"]["one"] == 0 {
		t.Errorf("%v", took)
	}
}
