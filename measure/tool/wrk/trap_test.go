package wrk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// A 404 is a fast response. It is no request that was served, it is counted,
// and without one good response there is no figure.
func TestErrorsAreNoRequests(t *testing.T) {
	out := func(status, timeout int) tool.Output {
		return tool.Output{Stdout: fmt.Appendf(nil, `Requests/sec: 1000
bakeoff {"duration_us":1000000,"requests":1000,"bytes":1,`+
			`"errors":{"connect":0,"read":0,"write":0,"status":%d,"timeout":%d},"latency_us":{"50":10}}
`, status, timeout)}
	}
	r, err := New().Parse(out(250, 3), with(nil))
	if err != nil || r.Work != 750 || r.Values[0].Value != 750 || r.Errors["status"] != 250 || r.Errors["timeout"] != 3 {
		t.Errorf("a quarter of errors: %+v, %v", r, err)
	}
	if _, err := New().Parse(out(1000, 0), with(nil)); !fault.Is(err, fault.Subject) {
		t.Errorf("errors alone: %v", err)
	}
}

// Its report for people alone is refused: it is rounded, and hides errors.
func TestNeedsTheScript(t *testing.T) {
	if _, err := New().Parse(
		tool.Output{Stdout: []byte("  12585 requests in 1.11s, 52.04MB read\nRequests/sec:  11341.66\n")},
		with(nil)); err == nil {
		t.Error("the report for people was taken")
	}
}

// Threads, connections and length are always given.
func TestArgumentsArePinned(t *testing.T) {
	cmd, err := New().Command(with(param.Values{"time": "1500ms"}), tooltest.At())
	want := strings.Fields("wrk --threads 1 --connections 50 --duration 2s --timeout 5s --script report.lua " +
		"http://198.18.0.2:8080/index.html")
	if err != nil || !slices.Equal(cmd.Argv, want) || !strings.Contains(cmd.Files["report.lua"], "summary.errors") {
		t.Errorf("%q, %v", cmd, err)
	}
	for name, set := range map[string]param.Values{"no time": {"time": "0s"},
		"threads": {"threads": "8", "connections": "4"}} {
		if _, err := New().Command(with(set), tooltest.At()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// It drops the connections that cannot be shared out.
func TestConnectionsThatItDropsAreNoted(t *testing.T) {
	note := func(threads, connections string) string {
		return New().(tool.Noter).Notes(with(param.Values{"threads": threads, "connections": connections}),
			tooltest.At())["connections"]
	}
	if got := note("4", "50"); !strings.HasPrefix(got, "48 instead of 50") {
		t.Errorf("4 threads, 50 connections: %q", got)
	}
	if got := note("2", "50"); got != "" {
		t.Errorf("2 threads, 50 connections: %q", got)
	}
}
