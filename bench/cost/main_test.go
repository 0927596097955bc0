package main

import (
	"math"
	"strings"
	"testing"

	"bakeoff/base/facts"
	"bakeoff/base/sample"
	"bakeoff/measure/workload"
)

// Without the nanoseconds, the same bytes give what a host with ticks gives.
func TestInTicks(t *testing.T) {
	const host = `{"before":{"cpu":{"user":1},"task_ns":1000,"cpu_source":"cpuacct"},"after":{"cpu":{"user":1.02},` +
		`"task_ns":13001000,"cpu_source":"cpuacct"}}`
	coarse, err := inTicks([]byte(host))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]float64{host: 0.013, string(coarse): 0.02} {
		got, err := workload.Costs(workload.Raw{workload.Host: []byte(text)}, 1, 0, workload.CPUPerOp)
		if err != nil || len(got) != 1 || math.Abs(got[0].Value-want) > 1e-12 {
			t.Errorf("%s costs %v (%v), want %g s", text, got, err, want)
		}
	}
}

// A trial in which no tick occurred has no cost by ticks. Their error is then all of
// its CPU time.
func TestTable(t *testing.T) {
	r := &row{cell: "k", contender: "c", metric: sample.Metric{Name: "cpu-per-request", Unit: "s/request"},
		source: "schedstat",
		fine:   []float64{1e-4, 3e-4}, ticks: []float64{math.NaN(), 6e-4}}
	for _, ticks := range []float64{0, 0.01} {
		ns, own := int64(4e6), 0.003
		r.addHostTime(facts.Counters{CPU: &facts.CPU{User: ticks}, TaskNS: &ns, Scope: &facts.Scope{CPUSeconds: &own}})
	}
	var out strings.Builder
	if err := writeTable(&out, []*row{r}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"k c cpu-per-request schedstat 2 of 2 200 µs/request 70.7 %",
		"k c cpu-per-request ticks 1 of 2 600 µs/request – 5.10 ms 3.00 ms"} {
		if got := strings.Join(strings.Fields(lines[i+1]), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
