package workloadtest

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

// The error for an inconsistent result names the inconsistency.
func TestWrongs(t *testing.T) {
	good := func() wire.Result {
		return wire.Result{Work: 1000, WorkUnit: "op", ElapsedNS: int64(time.Second), Check: wire.Check{Answer: "42"},
			Values: []sample.Value{loop.Throughput(1000, "op/s")}}
	}
	for _, c := range []struct {
		name  string
		spoil func(*wire.Result)
		want  string
	}{
		{"nothing is wrong", func(*wire.Result) {}, ""},
		{"another unit is not held against it", func(r *wire.Result) { r.Values[0].Unit, r.Values[0].Value = "B/s", 16e6 },
			""},
		{"twice the rate", func(r *wire.Result) { r.Values[0].Value = 2000 },
			"throughput is 2000 op/s, and 1000 op in 1s are 1000"},
		{"too short", func(r *wire.Result) { r.ElapsedNS /= 2; r.Values = nil }, "the timed part took 500ms of 1s"},
		{"no answer", func(r *wire.Result) { r.Check.Answer = "" }, "the answer that was verified is not told"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.spoil(&r)
			if got := strings.Join(faultsOf(r, time.Second), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A workload that does not tell what its load took on another host, or lets it
// change something else, is refused; so is one without another end that tells.
func TestOtherEnd(t *testing.T) {
	rate := sample.Value{Metric: "throughput", Unit: "op/s", Value: 7}
	far := sample.Value{Metric: workload.GeneratorJoulesPerOp.Name, Unit: "J/op", Value: 3}
	changed := rate
	changed.Value = 8
	for _, c := range []struct {
		name       string
		peer       bool
		near, both []sample.Value
		want       string
	}{
		{"told", true, []sample.Value{rate}, []sample.Value{rate, far}, ""},
		{"no other end", false, []sample.Value{rate}, []sample.Value{rate}, ""},
		{"not told", true, []sample.Value{rate}, []sample.Value{rate}, "gives 0 values of what that spent, and 1 is right"},
		{"told without an end", false, []sample.Value{rate}, []sample.Value{rate, far},
			"gives 1 values of what that spent, and 0 is right"},
		{"another rate", true, []sample.Value{rate}, []sample.Value{changed, far}, "changes other values"},
	} {
		d := workload.Doc{Peer: c.peer, Metrics: []sample.Metric{{Name: "throughput"}, workload.GeneratorJoulesPerOp}}
		if got := otherEnd(d, c.near, c.both); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
