package pgbench

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool/tooltest"
)

func with(set param.Values) param.Values { return tooltest.With(New(), set) }

// With fewer branches than clients, clients wait for each other.
func TestScaleMustReachTheClients(t *testing.T) {
	for _, c := range []struct {
		set param.Values
		ok  bool
	}{
		{param.Values{"scale": "3", "clients": "4"}, false},
		{param.Values{"scale": "4", "clients": "4"}, true},
		{param.Values{"scale": "1", "clients": "4", "script": "select-only"}, true},
		{param.Values{"clients": "2", "threads": "3"}, false},
		{param.Values{"time": "0s"}, false},
		{param.Values{"time": "0s", "transactions": "5"}, true},
	} {
		_, err := New().Command(with(c.set), tooltest.At())
		if c.ok != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", c.set, err)
		}
	}
}

// It is a closed loop unless a rate is given, and it always keeps a log.
func TestLoops(t *testing.T) {
	closed, err := New().Command(with(nil), tooltest.At())
	if err != nil || slices.Contains(closed.Argv, "-R") || slices.Contains(closed.Argv, "-C") ||
		!slices.Contains(closed.Argv, "-l") {
		t.Errorf("%q, %v", closed.Argv, err)
	}
	open, err := New().Command(with(param.Values{"rate": "50/s", "connect": "true"}), tooltest.At())
	if i := slices.Index(open.Argv, "-R"); err != nil || i < 0 || open.Argv[i+1] != "50" ||
		!slices.Contains(open.Argv, "-C") {
		t.Errorf("%q, %v", open.Argv, err)
	}
}

// The line "tps" that is meant depends on the version and on -C. Taking the
// one of the other kind is refused.
func TestTheRightLineOfTPS(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		r, err := New().Parse(g.Output, g.Params)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.Values, func(v sample.Value) bool { return v.Metric == "throughput" })
		kind := map[bool]string{true: "including", false: "excluding"}[g.Params.Bool("connect")]
		if strings.HasPrefix(g.Head["version"], "13.") {
			want := 0.0 // of the two lines that version 13 prints
			for line := range bytes.Lines(g.Output.Stdout) {
				if n, rest, ok := strings.Cut(strings.TrimPrefix(string(line), "tps = "), " "); ok &&
					strings.HasPrefix(rest, "("+kind) {
					want = number(t, n)
				}
			}
			if got := r.Values[i].Value; got != want {
				t.Errorf("%s: %g, and %g is meant", g.Path, got, want)
			}
			continue
		}
		other := map[string]string{"true": "false", "false": "true"}[g.Params.Text("connect")]
		g.Params["connect"] = other
		if r, err := New().Parse(g.Output, g.Params); err == nil {
			t.Errorf("%s with connect=%s gives %v", g.Path, other, r.Values)
		}
	}
}

// With a rate, a latency counts from the scheduled start: what the log says
// was late is in it.
func TestLatenciesCountFromTheSchedule(t *testing.T) {
	seen := false
	for _, g := range tooltest.Load(t, New()) {
		if g.Params.Rate("rate") == 0 {
			continue
		}
		for line := range bytes.Lines(g.Output.Files[logName]) {
			fields := strings.Fields(string(line))
			if len(fields) != 7 {
				t.Fatalf("%s: %q", g.Path, line)
			}
			latency, lag := number(t, fields[2]), number(t, fields[6])
			if seen = true; lag > latency {
				t.Errorf("%s: %g µs late, and a latency of %g µs", g.Path, lag, latency)
			}
		}
	}
	if !seen {
		t.Error("there is no stored output with a rate")
	}
}

// An incomplete log and an output of other settings are
// refused; failures are counted.
func TestRefusals(t *testing.T) {
	g := tooltest.Load(t, New())[1] // of version 15
	log := g.Output.Files[logName]
	g.Output.Files[logName] = log[bytes.IndexByte(log, '\n')+1:]
	if _, err := New().Parse(g.Output, g.Params); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("a line of the log is missing: %v", err)
	}
	g.Output.Files[logName] = append([]byte("0 1 failed 0 1795310434 36237\n"), log...)
	g.Output.Stdout = bytes.Replace(g.Output.Stdout, []byte("failed transactions: 0 "),
		[]byte("failed transactions: 1 "), 1)
	if r, err := New().Parse(g.Output, g.Params); err != nil || r.Errors["failed"] != 1 {
		t.Errorf("a failed transaction: %v, %v", r.Errors, err)
	}
	g.Params["scale"] = "40"
	if _, err := New().Parse(g.Output, g.Params); err == nil || !strings.Contains(err.Error(), "instead of") {
		t.Errorf("another scale: %v", err)
	}
}

// Every setting that pgbench repeats is the one that was asked for; otherwise the
// trial failed.
func TestEchoedSettings(t *testing.T) {
	stored := map[string]tooltest.Golden{}
	for _, g := range tooltest.Load(t, New()) {
		stored[strings.TrimSuffix(strings.TrimPrefix(g.Path, "testdata/"), ".txtar")] = g
	}
	for _, c := range []struct{ name, param, value, want string }{
		{"closed-15", "script", "select-only", "with transaction type"},
		{"closed-15", "clients", "2", "with number of clients"},
		{"closed-15", "threads", "2", "with number of threads"},
		{"closed-15", "time", "2s", `with duration "1 s" instead of 2 s`},
		{"closed-15", "rate", "50/s", `with rate "no limit" instead of 50/s`},
		{"rate-15", "rate", "", `with rate "a limit" instead of no limit`},
		{"rate-15", "rate", "5/s", "more than the 19 that were asked for"},
		{"connect-15", "transactions", "30", "with number of transactions per client"},
	} {
		g := stored[c.name]
		g.Params = with(g.Params)
		if g.Params[c.param] = c.value; c.value == "" {
			delete(g.Params, c.param)
		}
		if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s=%s: %v, want %q", c.name, c.param, c.value, err, c.want)
		}
	}
	g := stored["connect-15"]
	g.Output.Stdout = bytes.Replace(g.Output.Stdout, []byte("60/60"), []byte("61/61"), 1)
	if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) {
		t.Errorf("one transaction more: %v", err)
	}
	g = stored["closed-17"]
	g.Output.Stdout = bytes.Replace(g.Output.Stdout, []byte("mode: simple"), []byte("mode: prepared"), 1)
	if _, err := New().Parse(g.Output, g.Params); !fault.Is(err, fault.Subject) {
		t.Errorf("another query mode: %v", err)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := labeled.Decimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A pgbench whose clock was set, or that had to wait before it started its clock, divides by
// a time that differs from the test's. The database did not fail then.
func TestAnotherLengthIsGated(t *testing.T) {
	for _, g := range tooltest.Load(t, New()) {
		if !strings.Contains(g.Path, "closed-15") {
			continue
		}
		line := regexp.MustCompile(`tps = [0-9.]+ `)
		for times, gated := range map[string]bool{"1": false, "2": true, "0.4": true} {
			factor, _ := strconv.ParseFloat(times, 64)
			out := g.Output
			out.Stdout = line.ReplaceAllFunc(slices.Clone(g.Output.Stdout), func(b []byte) []byte {
				was, err := strconv.ParseFloat(strings.Fields(string(b))[2], 64)
				if err != nil {
					t.Fatal(err)
				}
				return fmt.Appendf(nil, "tps = %f ", was*factor)
			})
			if r, err := New().Parse(out, g.Params); err != nil || (r.OwnTime != "") != gated {
				t.Errorf("%s times the rate: %q, %v", times, r.OwnTime, err)
			}
		}
		return
	}
	t.Fatal("no stored output")
}
