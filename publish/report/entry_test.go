package report

import (
	"testing"
	"time"

	"bakeoff/base/param"
	"bakeoff/judge/analysis"
)

// An index shows commands that a reader can paste, and the values of a sweep as one command.
func TestCommandLine(t *testing.T) {
	argv := func(words ...string) param.Values { return param.Values{"argv": param.Join(words)} }
	swept := func(value string) analysis.Contender {
		return analysis.Contender{Name: "gzip-" + value, Sweep: &analysis.Sweep{Of: "gzip", Name: "level", Value: value},
			Params: map[string]param.Values{"pack": argv("sh", "-c", "gzip -"+value+" log | wc -c")}}
	}
	own := analysis.Contender{Name: "xz", Params: map[string]param.Values{"pack": argv("xz", "my log")}}
	template := argv("sh", "-c", "gzip -{level} log | wc -c")
	for name, x := range map[string]struct {
		cell       param.Values
		contenders []analysis.Contender
		want       string
	}{
		"the cell's":     {argv("gzip", "-1", "big"), []analysis.Contender{{Name: "host"}, {Name: "crun"}}, "gzip -1 big"},
		"a sweep":        {template, []analysis.Contender{swept("1"), swept("9")}, "sh -c 'gzip -{level} log | wc -c'"},
		"and another":    {template, []analysis.Contender{swept("1"), own}, "sh -c 'gzip -{level} log | wc -c'; xz 'my log'"},
		"no cell's own":  {nil, []analysis.Contender{own}, "xz 'my log'"},
		"another's word": {argv("gzip"), []analysis.Contender{swept("1")}, "sh -c 'gzip -1 log | wc -c'"},
		"none":           {nil, []analysis.Contender{{Name: "host"}}, ""},
	} {
		r := analysis.Results{Contenders: x.contenders,
			Cells: []analysis.Cell{{Name: "pack", Workload: "command", Params: x.cell}}}
		if got := DescribeResults("run", "", "", r, nil, time.Time{}, time.Time{}).Command; got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
