package workloadtest

import (
	"strings"
	"testing"
	"time"

	"bakeoff/agent"
	"bakeoff/sample"
)

// A result that does not fit together is told by what does not.
func TestWrongs(t *testing.T) {
	good := func() agent.Result {
		return agent.Result{Work: 1000, WorkUnit: "op", ElapsedNS: int64(time.Second), Check: agent.Check{Answer: "42"},
			Values: []sample.Value{agent.Throughput(1000, "op/s")}}
	}
	for _, c := range []struct {
		name  string
		spoil func(*agent.Result)
		want  string
	}{
		{"nothing is wrong", func(*agent.Result) {}, ""},
		{"another unit is not held against it", func(r *agent.Result) { r.Values[0].Unit, r.Values[0].Value = "B/s", 16e6 }, ""},
		{"twice the rate", func(r *agent.Result) { r.Values[0].Value = 2000 }, "throughput is 2000 op/s, and 1000 op in 1s are 1000"},
		{"too short", func(r *agent.Result) { r.ElapsedNS /= 2; r.Values = nil }, "the timed part took 500ms of 1s"},
		{"no answer", func(r *agent.Result) { r.Check.Answer = "" }, "the answer that was verified is not told"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.spoil(&r)
			if got := strings.Join(wrongs(r, time.Second), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
