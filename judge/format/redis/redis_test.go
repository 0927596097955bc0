package redis

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// A test without one of its latencies keeps its other values.
func TestOneLatencyIsMissing(t *testing.T) {
	out, err := New().Read("x", []byte(string(head)+"\n"+`"SET","5.00","0.1","nan","0.1","0.1","nan","0.2"`+"\n"))
	if err != nil || len(out.Records) != 1 || len(out.Records[0].Series) != 5 || out.LeftOut != 1 ||
		out.Warnings[0] != `x:2: latency-p99 of "SET" is "nan", which is not a time (left out)` {
		t.Errorf("%+v, %v", out, err)
	}
}

// A test that ended within a millisecond has no rate, and an invocation that failed has no
// test. Neither is zero.
func TestWhatIsMissing(t *testing.T) {
	for text, want := range map[string]string{
		`"SET","inf","0.1","0.1","0.1","0.1","0.1","0.1"`: "x:2: the rate inf is not a positive number",
		`"SET","5.00","0.1","0.1"`:                        "x:2: the line does not have the eight columns",
		`"SET","nan"`:                                     "x:2: the rate nan is not a positive number",
		"":                                                "x:1: No test follows",
	} {
		out, err := New().Read("x", []byte(string(head)+"\n"+text+"\n"))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %s", text, out, err, want)
		}
	}
}

// redis-benchmark ends at the first error. What it measured before stays.
func TestFailures(t *testing.T) {
	const good = `"SET","5.00","0.1","0.1","0.1","0.1","0.1","0.2"` + "\n"
	for text, want := range map[string]string{
		good + "Error from server: OOM command not allowed\n": "x:3: redis-benchmark ended early, so the results of its " +
			"other tests are missing: Error from server: OOM command not allowed",
		good + string(head) + "\n": "x:3: No test follows, so the results are missing",
	} {
		out, err := New().Read("x", []byte(string(head)+"\n"+text))
		if err != nil || len(out.Records) != 1 || len(out.Failures) != 1 || !strings.HasPrefix(out.Failures[0], want) ||
			out.LeftOut != 0 {
			t.Errorf("%q: %+v, %v", text, out, err)
		}
	}
}

// Two columns of another program are no output of redis-benchmark.
func TestRecognizesOldRows(t *testing.T) {
	for text, want := range map[string]bool{
		"\"PING_INLINE\",\"74074.07\"\n": true, "\"MSET (10 keys)\",\"50000.00\"\r\n": true,
		"\"LRANGE_500 (first 450 elements)\",\"20000.00\"\n": true, "\"GET\",\"inf\"\n": true,
		"\n$ redis-benchmark --csv\nWARNING: could not fetch server CONFIG\n\"SET\",\"5.00\"\n": true,
		"\"a\",\"b\"\n\"SET\",\"5.00\"\n": false, "SET,5.00\n": false, "": false,
		"\"gzip\",\"12.34\"\n": false, "\"Q3/SET\",\"99.95\"\n": false, "\"GET\",\"12.34\",\"1\"\n": false,
	} {
		if New().Recognizes([]byte(text)) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// Equal tests after one header come from -l. Those of another invocation may have other options.
func TestLoop(t *testing.T) {
	const set = `"SET","5.00","0.1","0.1","0.1","0.1","0.1","0.2"` + "\n"
	get := strings.Replace(set, "SET", "GET", 1)
	for text, want := range map[string]string{
		string(head) + "\n" + set + get + set + get:                       "SET GET SET+ GET+",
		string(head) + "\n" + set + set + string(head) + "\n" + set + get: "SET SET+ SET #2 GET",
		"\"SET\",\"5.00\"\n\"SET\",\"6.00\"\n":                            "SET SET #2",
		"WARNING: text\n\"SET\",\"5.00\"\n\"SET\",\"6.00\"\n":             "SET SET #2",
	} {
		out, err := New().Read("x", []byte(text))
		var got []string
		for _, r := range out.Records {
			name := r.Labels[0].Value
			if r.Repeats {
				name += "+"
			}
			got = append(got, name)
		}
		names := strings.Join(got, " ")
		if err != nil || names != want || out.LeftOut > 0 {
			t.Errorf("%q: %s, want %s, %q, %v", text, names, want, out.Warnings, err)
		}
		if warned := strings.Contains(strings.Join(out.Warnings, ""), "assumes that -l repeated"); warned != strings.Contains(
			want, "+") {
			t.Errorf("%q: %q", text, out.Warnings)
		}
	}
}
