package main

import (
	"bytes"
	"strings"
	"testing"

	"bakeoff/analysis"
	"bakeoff/compare"
	"bakeoff/export"
	"bakeoff/param"
	"bakeoff/sample"
)

// changed is a run of a host and a container with its values at one cell.
func changed(name string, crun float64) compare.Run {
	r := analysis.Results{
		Run: name, Baseline: "host", Margin: 0.02, Ended: "blocks",
		Contenders: []analysis.Contender{{Name: "host"}, {Name: "crun"}},
		Cells: []analysis.Cell{{Name: "sha", Workload: "crypto", Params: param.Values{}, Metrics: []sample.Metric{
			{Name: "throughput", Unit: "B/s", Better: sample.Higher, Scale: sample.Ratio, Primary: true},
			{Name: "cpu-per-op", Unit: "s/op", Better: sample.Lower, Scale: sample.Ratio},
		}}},
	}
	for _, metric := range []string{"throughput", "cpu-per-op"} {
		for contender, v := range map[string]float64{"host": 100, "crun": crun} {
			s := analysis.Summary{Contender: contender, Cell: "sha", Metric: metric, Unit: "B/s"}
			for b := range 20 {
				s.Samples = append(s.Samples, analysis.Point{Block: b, Value: v * (1 + 0.001*float64(b*7%5))})
			}
			r.Summaries = append(r.Summaries, s)
		}
	}
	return compare.Run{Results: r, Facts: map[string]map[string]string{"host": {"kernel": name}}}
}

func TestCompareSaysTheWarningFirst(t *testing.T) {
	for _, x := range []struct {
		repeats []compare.Run
		verdict string
		fails   bool
	}{
		{nil, "not interleaved", false},
		{[]compare.Run{changed("r1", 90.2), changed("r2", 89.9)}, "worse", true},
	} {
		res, err := compare.Two(changed("6.1", 90), changed("6.2", 60), compare.Option{Repeats: x.repeats})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := &app{stdout: &out, env: func(string) string { return "" }}
		a.printCompare(res, false)
		lines := strings.Split(out.String(), "\n")
		if lines[0] != "6.1 → 6.2" || !strings.HasPrefix(lines[1], "The runs were made at different times: they are not interleaved.") {
			t.Errorf("it begins with %q", lines[:2])
		}
		for _, want := range []string{"-33.3 %", x.verdict, "kernel", "6.1 → 6.2"} {
			if !strings.Contains(strings.Join(lines[3:], "\n"), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "cpu-per-op") {
			t.Error("metrics that are not primary are shown unasked")
		}
		if end := (failOn{"worse"}).end(res.Results()); (exitCode(end) == exitAsked) != x.fails {
			t.Errorf("--fail-on worse ends with %v", end)
		}
		out.Reset()
		if err := export.Write(&out, "junit", []analysis.Results{res.Results()}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), `failures="1"`) != x.fails {
			t.Errorf("junit:\n%s", out.String())
		}
	}
}
