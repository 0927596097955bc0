// Package wrk reads the reports of wrk and of wrk2.
package wrk

import (
	"bytes"
	"fmt"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type wrk struct{}

// New returns the format.
func New() format.Format { return wrk{} }

func (wrk) Doc() format.Doc {
	return format.Doc{
		Name:    "wrk",
		Program: "wrk or wrk2 (with --latency) > FILE",
		Labels: []format.LabelDoc{
			{Name: "url", Doc: "URL"},
			{Name: "load", Doc: "length of the test, threads and connections"},
		},
		Order: "A report is one run with one value of each metric. It does not name the script, headers and rate, so two " +
			"reports in one file do not count as repetitions: use a file for each run.",
		InOrder: true,
		Summaries: []format.Summary{{What: "the text of autocannon", Fix: "use wrk, or make a table of the numbers as " +
			"bakeoff analyse --help shows", Head: lazy.Compile(`(?m)^Running \d\S* test @ \S+\s+\d+ connections`)}},
		Source: []string{"https://github.com/wg/wrk", "https://github.com/giltene/wrk2"},
	}
}

// A modified wrk2 (that of DeathStarBench) tests several URLs at the same time. It begins with a line "Running" for
// each, has "Test Results" of each after that, and the statistics of all of them at the end.
var (
	begin   = lazy.Compile(`^(?:Running (\d\S*) test|Test Results) @ (\S+://\S+)`)
	overall = lazy.Compile(`^-+Overall Statistics-+`)
)

func (wrk) Recognizes(head []byte) bool {
	return len(format.Parts(head, begin.Match)) > 0 && threads.Match(head)
}

// Units of wrk. It writes multiples of 1024 bytes as KB.
var (
	durations = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
	sizes     = map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}
)

var (
	requests  = sample.Throughput("request/s", "responses with a status below 400, per second")
	bandwidth = sample.HigherRatio("bandwidth", "B/s", "bytes received per second, headers included")
	mean      = sample.LowerRatio("latency-mean", "s", "mean latency of a response")
	highest   = sample.LowerRatio("latency-max", "s", "longest latency of a response")
	failed    = sample.LowerShare("failed-share", "share of requests that failed: status, connect, read, write, timeout")
)

func (wrk) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "wrk"}
	p := format.NewProblems(name)
	parts := format.Parts(data, func(line []byte) bool { return begin.Match(line) || overall.Match(line) })
	if len(parts) == 0 || overall.Match(parts[0].Text) {
		p.Add(1, "no line begins with \"Running … test @\"; write the file with wrk URL > FILE")
		return p.Finish(out)
	}
	turn, open := -1, false // the number of the test, and whether it has no results so far
	load := ""
	for i, part := range parts {
		if bytes.Contains(part.Text, []byte("Thread calibration:")) || bytes.HasPrefix(part.Text, []byte("Test Results")) ||
			bytes.Contains(part.Text, []byte("HdrHistogram - Recorded Latency")) {
			out.Program = "wrk2"
		}
		first := begin.FindSubmatch(part.Text)
		if first == nil {
			if open {
				p.LeaveOut(part.Line, "the report has the statistics of all URLs together only; use the option -S of wrk2")
			}
			open = false
			continue
		}
		if running := len(first[1]) > 0; running {
			if !open {
				turn, open = turn+1, true
			}
			load = string(first[1])
			if t := threads.FindSubmatch(part.Text); t != nil {
				load += ", " + string(t[1])
			}
			if !total.Match(part.Text) && resultsFollow(parts[i+1:]) {
				continue
			}
		}
		open = false
		rec := &format.Record{Line: part.Line, Turn: max(turn, 0), Facts: map[string]string{"program": out.Program},
			Labels: []format.Label{{Name: "url", Value: string(first[2]), Setting: true, Place: true},
				{Name: "load", Value: load, Setting: true}}}
		if readReport(p, part, rec) {
			out.Records = append(out.Records, *rec)
		}
	}
	p.Distinguish(&out, "url")
	return p.Finish(out)
}

// resultsFollow reports whether the results of a test come after the lines "Running" of further URLs.
func resultsFollow(parts []format.Part) bool {
	for _, part := range parts {
		if first := begin.FindSubmatch(part.Text); first == nil || len(first[1]) == 0 {
			return true
		}
		if total.Match(part.Text) {
			return false
		}
	}
	return false
}

var (
	total     = lazy.Compile(`(?m)^\s+(\d+) requests in (\S+), (\S+) read\s*$`)
	threads   = lazy.Compile(`(?m)^\s+(\d+ threads and \d+ connections)\s*$`)
	header    = lazy.Compile(`(?m)^\s+Thread Stats\s+Avg\s+Stdev\s+(\S+)\s+\+/- Stdev\s*$`)
	latency   = lazy.Compile(`(?m)^\s+Latency\s+(\S+)\s+\S+\s+(\S+)\s+\S+%\s*$`)
	quantile  = lazy.Compile(`(?m)^\s+(50|75|90|99|99\.9|99\.99)(?:\.0*|0*)?%\s+(\S+)\s*$`)
	sockets   = lazy.Compile(`(?m)^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)\s*$`)
	bad       = lazy.Compile(`(?m)^\s+Non-2xx or 3xx responses: (\d+)\s*$`)
	recording = []byte("Uncorrected Latency")
)

// parseDigits parses digits that a pattern found.
func parseDigits(text []byte) float64 {
	v, _ := labeled.Decimal(string(text))
	return v
}

// readReport adds the results of a test to a record; ok is false if there are none.
func readReport(p *format.Problems, part format.Part, rec *format.Record) (ok bool) {
	m := total.FindSubmatch(part.Text)
	if m == nil {
		p.LeaveOut(part.Line, "the report has no line \"… requests in …, … read\"; the run may have been interrupted")
		return false
	}
	took, err1 := labeled.Quantity(string(m[2]), durations)
	bytesRead, err2 := labeled.Quantity(string(m[3]), sizes)
	if err1 != nil || err2 != nil || !(took > 0) {
		p.LeaveOut(part.Line, "\"%s\" cannot be read", bytes.TrimSpace(m[0]))
		return false
	}
	done := parseDigits(m[1])
	wrong := 0.0
	if b := bad.FindSubmatch(part.Text); b != nil {
		wrong = min(parseDigits(b[1]), done)
	}
	lost := 0.0
	if s := sockets.FindSubmatch(part.Text); s != nil {
		for _, n := range s[1:] {
			lost += parseDigits(n)
		}
	}
	if done-wrong <= 0 {
		rec.Failed, rec.Reason = 1, fmt.Sprintf("no response had a status below 400 (%.0f requests)", done)
		return true
	}
	if wrong+lost > 0 {
		p.Warn(part.Line, "%.0f of %.0f responses had a status of 400 or more, and %.0f requests had socket errors. The "+
			"throughput counts the others; the latencies include error pages.", wrong, done, lost)
	}
	rounding := labeled.Rounding(string(m[2]))
	word, _ := part.Text.Line("Requests/sec:")
	rate := p.LessRounded(rec.Line, "Requests/sec", word, map[string]float64{"": 1}, done/took, rounding, maxRounding,
		"the number of requests and the time")
	rec.AddSingle(requests, rate*(done-wrong)/done, true)
	word, _ = part.Text.Line("Transfer/sec:")
	rec.AddSingle(bandwidth, p.LessRounded(rec.Line, "Transfer/sec (B)", word, sizes, bytesRead/took,
		rounding+labeled.Rounding(string(m[3])), maxRounding, "the bytes read and the time"), true)
	rec.AddSingle(failed, (wrong+lost)/(done+lost), true)
	latencies(p, rec, part.Text)
	compareLatencies(p, rec)
	return true
}

// maxRounding is the share by which rates may differ from those that the numbers and the time give: wrk prints
// three digits of times, such as 1.00m.
const maxRounding = 0.02

// compareLatencies warns of latencies that contradict each other.
func compareLatencies(p *format.Problems, rec *format.Record) {
	var names []string
	for _, q := range []string{"50", "75", "90", "99", "999", "9999"} {
		names = append(names, "latency-p"+q)
	}
	p.CompareOrder(rec, maxRounding, 0, append(names, highest.Name)...)
	p.CompareOrder(rec, maxRounding, 0, mean.Name, highest.Name)
}

// latencies adds what the report says of latencies. wrk2 prints further tables of them,
// which are not read: one by percentiles, and one without its correction for
// coordinated omission.
func latencies(p *format.Problems, rec *format.Record, text []byte) {
	text, _, _ = bytes.Cut(text, recording)
	add := func(m sample.Metric, word []byte) {
		v, err := labeled.Quantity(string(word), durations)
		if err != nil {
			p.LeaveOut(rec.Line, "%s: %v", m.Name, err)
		}
		rec.AddSingle(m, v, err == nil && v > 0)
	}
	if m := latency.FindSubmatch(text); m != nil {
		add(mean, m[1])
		switch h := header.FindSubmatch(text); {
		case h != nil && string(h[1]) == "Max":
			add(highest, m[2])
		case h != nil && string(h[1]) == "99%":
			add(percentile("99"), m[2])
		default:
			p.LeaveOut(rec.Line, "the third latency is neither that of a column Max nor that of a column 99%%")
		}
	}
	for _, m := range quantile.FindAllSubmatch(text, 10) {
		add(percentile(string(m[1])), m[2])
	}
}

func percentile(q string) sample.Metric {
	return sample.LowerRatio("latency-p"+strings.ReplaceAll(q, ".", ""), "s", "percentile of the latency of a response")
}
