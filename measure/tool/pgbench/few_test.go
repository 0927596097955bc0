package pgbench

import (
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/tool"
)

// Percentiles of too few transactions are noted with what to change.
func TestFewTransactions(t *testing.T) {
	for _, c := range []struct {
		set         param.Values
		caveat, fix string
	}{
		{param.Values{"rate": "50/s", "time": "4500ms"},
			"a trial sends about 250 transactions (rate 50/s, time 4500ms), and " +
				"latency-p99 needs at least 1000, of which 10 are slower", "set time to 20s or more, or rate to 200/s or more"},
		{param.Values{"rate": "200/s", "time": "5s"}, "", ""},
		{param.Values{"transactions": "100", "clients": "3"}, "a trial has 300 transactions " +
			"(transactions 100, clients 3), and " +
			"latency-p99 needs at least 1000", "set transactions to 334 or more"},
		{param.Values{"transactions": "334", "clients": "3", "rate": "1/s"}, "", ""},
		{param.Values{"time": "1s"}, "", ""}, // a closed loop
	} {
		p := param.Defaults(New().Doc().Params)
		for name, value := range c.set {
			p[name] = value
		}
		if caveat, fix := New().(tool.Counted).Few(p, []string{"throughput", "latency-p99"}); caveat != c.caveat ||
			fix != c.fix {
			t.Errorf("%v: %q; %q, want %q; %q", c.set, caveat, fix, c.caveat, c.fix)
		}
	}
}
