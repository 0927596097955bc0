//go:build unix

package sixtests

import (
	"io"
	"math"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/contextswitch"
	"bakeoff/measure/workload/files"
	"bakeoff/measure/workload/unixbench"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
)

func TestMain(m *testing.M) {
	workloadtest.Main(m, Loop(), unixbench.Loop(), files.Loop(), contextswitch.Loop())
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{Common: param.Values{"time": "240ms"}})
}

// The article's system "FreeBSD 5.2, GENERIC" had these six indexes, and printed their sum and
// their average: rates that give the indexes give both.
func TestSumAndAverageAreThoseOfTheArticle(t *testing.T) {
	indexes := map[string]float64{"arithmetic": 114.2, "dhrystone": 102.3, "execl": 30.6, "file copy": 225.4,
		"switch": 45.5, "shell8": 18.0}
	rates := map[string]float64{}
	for _, x := range six {
		rates[x.name] = indexes[x.name] * x.base
	}
	total, mean := sumAndMean(rates)
	if math.Abs(total-536.0) > .05 || math.Abs(mean-89.3) > .05 {
		t.Errorf("sum %.2f and average %.2f; the article has 536.0 and 89.3", total, mean)
	}
	if len(rates) != 6 {
		t.Errorf("%d tests have a rate", len(rates))
	}
	if got := rates["shell8"] * 60; math.Abs(got-72) > .01 {
		t.Errorf("an index of 18 is %.2f rounds of shell scripts per minute, not 72", got)
	}
}

// The answer names the rate of each test: raw stays raw.
func TestTheRatesStay(t *testing.T) {
	p := param.Values{"time": "120ms", "volume": "/data"}
	env := loop.Env{Dir: t.TempDir(), Log: io.Discard}
	l := Loop()
	if err := l.Prepare(t.Context(), p, env); err != nil {
		t.Fatal(err)
	}
	r, err := l.Run(t.Context(), p, env)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range six {
		if !strings.Contains(r.Check.Answer, x.name+" ") {
			t.Errorf("%q has no rate of %s", r.Check.Answer, x.name)
		}
	}
	if math.Abs(r.Values[1].Value/r.Values[0].Value-6) > 1e-9 || r.Work <= 0 {
		t.Errorf("%v, work %g", r.Values, r.Work)
	}
}
