package http

import (
	"encoding/json"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
	"bakeoff/reach/wire"
)

func TestCosts(t *testing.T) {
	ctx := 100.0
	span := func(busy float64) []byte {
		after := ctx + 500
		b, err := json.Marshal(wire.Span{
			Before: facts.Counters{CPU: &facts.CPU{User: 1, System: 2, Interrupt: 3, Idle: 9}, ContextSwitches: &ctx},
			After: facts.Counters{CPU: &facts.CPU{User: 1 + busy, System: 2 + busy, Interrupt: 3 + busy, Idle: 99},
				ContextSwitches: &after},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	on := func(host []byte) workload.Raw { return workload.Raw{workload.Host: host} }
	got, err := requestCosts(on(span(1)), 1000)
	if err != nil || len(got) != 2 || got[0].Value != 0.003 || got[1].Value != 0.5 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := requestCosts(workload.Raw{}, 1000); err != nil || got != nil {
		t.Errorf("unknown costs: %v, %v", got, err)
	}
	if got, err := requestCosts(on(span(0)), 1000); err != nil || len(got) != 1 {
		t.Errorf("a host that counts too coarsely has no cost, not 0: %v, %v", got, err)
	}
	const fine = `{"before":{"cpu":{"user":1},"task_ns":1000000,"cpu_source":"cpuacct"},"after":{"cpu":{"user":1},` +
		`"task_ns":5000000,"cpu_source":"cpuacct"}}`
	if got, err := requestCosts(on([]byte(fine)), 1000); err != nil || len(got) != 1 || got[0].Value != 4e-6 {
		t.Errorf("4 ms without a tick: %v, %v", got, err)
	}
	const far = `{"before":{"at_ns":1,"joules":40,"context_switches":5},"after":{"at_ns":2,` +
		`"joules":50,"context_switches":9}}`
	got, err = requestCosts(workload.Raw{workload.GeneratorHost: []byte(far)}, 1000)
	if want := (sample.Value{Metric: "generator-joules-per-request", Unit: "J/request", Value: .01}); err != nil ||
		len(got) != 1 || got[0] != want {
		t.Errorf("another host's counters give %v, %v; %+v is right, and no cost of the subject's", got, err, want)
	}
}
