// Package redis reads what redis-benchmark --csv writes, also before version 6.2.
package redis

import (
	"bytes"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type redis struct{}

// New returns the format.
func New() format.Format { return redis{} }

func (redis) Doc() format.Doc {
	return format.Doc{
		Name:    "redis",
		Program: "redis-benchmark --csv > FILE",
		Labels:  []format.LabelDoc{{Name: "test", Doc: "name of the test, or the command with its arguments"}},
		Order: "redis-benchmark runs one test after the other, each once unless -l repeats all of them. It computes the " +
			"rate from a time in whole milliseconds. The file does not name the number of requests, the clients or the " +
			"pipelining.",
		InOrder: true,
		Summaries: []format.Summary{
			{What: "the text of redis-benchmark", Head: lazy.Compile(
				`(?:^|[\r\n])(?:====== .+ ======\s+\d+ requests completed in|[^\r\n]+: [\d.]+ requests per second\b)`)},
		},
		Source: []string{"https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/benchmarks/"},
	}
}

// head is the first line of an invocation. Before version 6.2 there was none.
var head = []byte(`"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",` +
	`"p99_latency_ms","max_latency_ms"`)

// oldTest is the first test before version 6.2. It has a name of redis-benchmark, because other tables have two such
// columns, too.
var oldTest = lazy.Compile(`^"(?:PING_INLINE|PING_M?BULK|[SG]ET|INCR|[LR]PUSH|[LR]POP|[SZ]ADD|HSET|SPOP|ZPOPMIN|` +
	`LPUSH \(needed to benchmark LRANGE\)|LRANGE_\d+ \(first \d+ elements\)|MSET \(\d+ keys\))",`)

// oldRow is a test before version 6.2, which wrote neither a head nor latencies.
var oldRow = lazy.Compile(`^"([^"]+)","(\d+\.\d\d|-?nan|-?inf)"$`)

// row is a test. Its name may have quotes, which redis-benchmark does not escape.
var row = lazy.Compile(`^"(.+)","([^",]*)","([^",]*)","([^",]*)","([^",]*)","([^",]*)","([^",]*)","([^",]*)"$`)

// failed is a message with which redis-benchmark ends.
var failed = lazy.Compile(`^(?:Error[ :]|Could not connect to Redis |Unexpected error reply|All clients disconnected)`)

func beginsReport(line []byte) bool { return bytes.Equal(line, head) }

func (redis) Recognizes(text []byte) bool {
	text = format.TrimMark(text)
	for line := range bytes.Lines(text) {
		if beginsReport(bytes.TrimRight(line, "\r\n")) {
			return true
		}
	}
	first, _, _ := bytes.Cut(fromFirstTest(text).Text, []byte("\n"))
	return oldTest.Match(first) && oldRow.Match(bytes.TrimRight(first, "\r"))
}

// fromFirstTest returns what follows text before the first test, or before the message of a failure; all if there is
// neither. It is for files without a head.
func fromFirstTest(data []byte) format.Part {
	number, at := 1, 0
	for line := range bytes.Lines(data) {
		if line[0] == '"' || failed.Match(line) {
			return format.Part{Line: number, Text: data[at:]}
		}
		number, at = number+1, at+len(line)
	}
	return format.Part{Line: 1, Text: data}
}

var rate = sample.HigherRatio("throughput", "request/s", "requests per second")

// latencies are the metrics of the columns after the rate; "" is not read.
var latencies = []string{"mean", "", "p50", "p95", "p99", "max"}

func (redis) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "redis-benchmark"}
	p := format.NewProblems(name)
	parts := format.Parts(data, beginsReport)
	headed := len(parts) > 0
	if !headed {
		parts = []format.Part{fromFirstTest(format.TrimMark(data))}
	}
	seen := map[string]bool{} // in the first invocation
	looped := false
	for i, part := range parts {
		number, tests := part.Line, 0
		for line := range bytes.Lines(part.Text) {
			text := strings.TrimRight(string(line), "\r\n")
			if number++; beginsReport([]byte(text)) || text == "" {
				continue
			}
			tests++
			if failed.MatchString(text) {
				p.Fail(&out, number-1, "redis-benchmark ended early, so the results of its other tests are missing: %s", text)
			} else if rec, wrong := readTest(p, text, number-1); wrong != "" {
				p.LeaveOut(number-1, "%s", wrong)
			} else {
				rec.Turn = len(out.Records)
				// An invocation has each test once, unless -l repeats all of them.
				test := rec.Labels[0].Value
				if rec.Repeats = headed && i == 0 && seen[test]; rec.Repeats && !looped {
					looped = true
					p.Warn(number-1, "The test %q follows an earlier one without a new head. bakeoff assumes that -l repeated all "+
						"tests, so they count as repetitions. Write the results of several invocations to a file each.", test)
				}
				seen[test] = seen[test] || i == 0
				out.Records = append(out.Records, rec)
			}
		}
		if tests == 0 {
			p.Fail(&out, part.Line, "No test follows, so the results are missing; the server may have answered with an error.")
		}
	}
	p.Distinguish(&out, "test")
	return p.Finish(out)
}

// readTest reads a line of the table. A test without a rate has no result; a test without a latency has one.
func readTest(p *format.Problems, text string, line int) (rec format.Record, wrong string) {
	m := row.FindStringSubmatch(text)
	if m == nil {
		m = oldRow.FindStringSubmatch(text)
	}
	if m == nil {
		return rec, "the line does not have the eight columns of redis-benchmark --csv, nor the two before version 6.2"
	}
	rec = format.Record{Line: line, Labels: []format.Label{{Name: "test", Value: m[1]}}}
	rps, err := labeled.Decimal(m[2])
	if err != nil || !(rps > 0) {
		return rec, "the rate " + m[2] + " is not a positive number; the test may have been too short"
	}
	rec.AddSingle(rate, rps, true)
	for i, what := range latencies[:len(m)-3] {
		ms, err := labeled.Decimal(m[3+i])
		if what != "" && (err != nil || ms < 0) {
			p.LeaveOut(line, "latency-%s of %q is %.40q, which is not a time", what, m[1], m[3+i])
		}
		rec.AddSingle(sample.LowerRatio("latency-"+what, "s", what+" of the latency"), ms/1e3, what != "" && ms > 0)
	}
	p.CompareOrder(&rec, 0.02, 0, "latency-p50", "latency-p95", "latency-p99", "latency-max")
	p.CompareOrder(&rec, 0.02, 0, "latency-mean", "latency-max")
	return rec, ""
}
