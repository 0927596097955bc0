package hey

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// said is what hey prints of a test of 1 s with this rate, and with these lines of counts.
func said(rate, slowest string, lines ...string) tool.Output {
	return tool.Output{Stdout: []byte("Summary:\n  Total:\t1.0000 secs\n  Slowest:\t" + slowest +
		" secs\n  Requests/sec:\t" + rate + "\n\nLatency distribution:\n  50% in 0.0009 secs\n  99% in 0.0025 secs\n\n" +
		strings.Join(lines, "\n") + "\n")}
}

// hey counts error pages and failed requests in its rate. The parser does not count them.
func TestErrorsAreNoRequests(t *testing.T) {
	p := with(param.Values{"time": "1s"})
	r, err := New().Parse(said("1000.0000", "0.1", "  [200]\t747 responses", "  [503]\t250 responses",
		"Error distribution:", "  [3]\tGet \"http://198.18.0.2/\": EOF"), p)
	if err != nil || r.Work != 747 || r.Values[0].Value != 747 || r.Errors["status"] != 250 || r.Errors["failed"] != 3 {
		t.Errorf("a quarter of errors: %+v, %v", r, err)
	}
	if _, err := New().Parse(said("1000.0000", "0.1", "  [404]\t1000 responses"), p); !fault.Is(err, fault.Subject) {
		t.Errorf("errors alone: %v", err)
	}
}

// hey lists the statuses of the first million responses: of the others nothing is known.
func TestUnlistedResponsesAreRefused(t *testing.T) {
	_, err := New().Parse(said("1200000.0000", "0.1", "  [200]\t1000000 responses"), with(param.Values{"time": "1s"}))
	if err == nil || !strings.Contains(err.Error(), "first million") {
		t.Errorf("a million of 1.2 million: %v", err)
	}
}

// A response whose body the timeout cut off has the status 200 for hey.
func TestCutBodyIsRefused(t *testing.T) {
	_, err := New().Parse(said("1000.0000", "5.0010", "  [200]\t1000 responses"), with(param.Values{"time": "1s"}))
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a response as slow as the timeout: %v", err)
	}
}

func TestShortTestIsGated(t *testing.T) {
	r, err := New().Parse(said("1000.0000", "0.1", "  [200]\t1000 responses"), with(nil))
	if err != nil || !strings.Contains(r.OwnTime, "1 s instead of") {
		t.Errorf("1 s of 5: %+v, %v", r, err)
	}
}

// Steps of 0.1 ms are too coarse for a latency below 1 ms.
func TestCoarseLatencyIsAbsent(t *testing.T) {
	r, err := New().Parse(said("1000.0000", "0.1", "  [200]\t1000 responses"), with(param.Values{"time": "1s"}))
	named := func(name string) bool {
		return slices.ContainsFunc(r.Values, func(v sample.Value) bool { return v.Metric == name })
	}
	if err != nil || named("latency-p50") || !named("latency-p99") {
		t.Errorf("p50 of 0.9 ms and p99 of 2.5 ms: %+v, %v", r, err)
	}
}

func TestArgumentsArePinned(t *testing.T) {
	cmd, err := New().Command(with(param.Values{"time": "1500ms", "keepalive": "false"}), tooltest.At())
	want := strings.Fields("hey -z 2s -c 50 -t 5 -cpus 1 -disable-compression -disable-redirects -disable-keepalive " +
		"http://198.18.0.2:8080/index.html")
	if err != nil || !slices.Equal(cmd.Argv, want) {
		t.Errorf("%q, %v", cmd, err)
	}
	for _, set := range []param.Values{{"time": "0s"}, {"connections": "501"}} {
		if _, err := New().Command(with(set), tooltest.At()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// The list of options tells the versions apart.
func TestVersionsByOptions(t *testing.T) {
	const usage = "Usage: hey [options...] <url>\n\nOptions:\n  -c  Number of "
	for text, want := range map[string]string{
		usage + "requests to run concurrently.":                  "0.1.2 or older",
		usage + "workers to run concurrently.":                   "0.1.3 or 0.1.4",
		usage + "workers to run concurrently.\n  -U  User-Agent": "newer than 0.1.4",
	} {
		got, err := New().Version([]byte(text))
		warning, _ := New().Doc().Check(got["version"])
		if err != nil || got["version"] != want || (warning == "") != strings.HasPrefix(want, "0.1") {
			t.Errorf("%q: %v, %v, warning %q", text, got, err, warning)
		}
	}
}
