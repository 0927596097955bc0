package dryrun

import (
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/lab/preflight"
	"bakeoff/reach/conn"
)

// A run without its agent refuses to start, and the lab file is checked before.
func TestRefusalNamesTheAgent(t *testing.T) {
	agent := fault.New(fault.Unsupported, "no agent")
	wrong := fault.New(fault.Invalid, "a wrong cell")
	p := &plan.Plan{Baseline: "a", Contenders: []plan.Contender{{Contender: manifest.Contender{Name: "a"}}}}
	seen, err := preflight.Inspect(t.Context(), p, preflight.Site{
		Way:  func(string) (conn.Conn, error) { return nil, errors.New("no host") },
		Size: func(string) (int, unit.Bytes, error) { return 0, 0, errors.New("no host") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		agent error
		wrong []error
		want  string
	}{
		{nil, nil, "the baseline a cannot run here: "}, {agent, nil, "no agent"}, {agent, []error{wrong},
			"a wrong cell"}, {nil, []error{wrong}, "a wrong cell"},
	} {
		v := View{Plan: p, Seen: seen, Agent: c.agent}
		v.Seen.Wrong = c.wrong
		if err := v.Refusal(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("agent %v, cells %v: %v, want %q", c.agent, c.wrong, err, c.want)
		}
	}
}
