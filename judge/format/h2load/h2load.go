// Package h2load reads the reports of h2load, the load generator of nghttp2.
package h2load

import (
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type h2load struct{}

// New returns the format.
func New() format.Format { return h2load{} }

func (h2load) Doc() format.Doc {
	return format.Doc{
		Name:    "h2load",
		Program: "h2load > FILE",
		Labels: []format.LabelDoc{
			{Name: "protocol", Doc: "application protocol: h2, http/1.1, h3"},
			{Name: "load", Doc: "clients and requests of all threads together, or clients and length of the test"},
		},
		Order: "A report is one run with one value of each metric. It does not name the URL and the streams per client, so " +
			"two reports in one file do not count as repetitions: use a file for each run.",
		InOrder: true,
		Source:  []string{"https://nghttp2.org/documentation/h2load.1.html"},
	}
}

var (
	begin   = lazy.Compile(`^starting benchmark\.\.\.`)
	started = lazy.Compile(`(?m)^spawning thread #\d+: (.*?)\s*$`)
	ended   = lazy.Compile(`(?m)^finished in (\S+), (\S+) req/s, (\S+)/s\s*$`)
	done    = lazy.Compile(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, ` +
		`(\d+) errored, (\d+) timeout`)
	timed      = lazy.Compile(`(?m)^spawning thread #\d+: .*Timing-based test with \S+ of warm-up time and (\S+) of `)
	counts     = lazy.Compile(`(\d+)( total client| client\(s\) will| total request)`)
	traffic    = lazy.Compile(`(?m)^traffic: \S+ \((\d+)\) total`)
	redirected = lazy.Compile(`(?m)^status codes: \d+ 2xx, ([1-9]\d*) 3xx,`)
	// Version 1.68 has min, max, mean; later ones also have quantiles, and shorter names.
	columns = lazy.Compile(`(?m)^ +(min +max .*?) +sd +\+/- sd\s*$`)
	times   = lazy.Compile(`(?m)^(time for request|time for connect|time to 1st byte|request|connect|TTFB) *:(.*)$`)
)

func (h2load) Recognizes(head []byte) bool {
	return len(format.Parts(head, begin.Match)) > 0 && started.Match(head) || ended.Match(head)
}

var (
	durations = map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
	sizes     = map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
	requests  = sample.Throughput("request/s", "requests that succeeded (status below 400), per second")
	bandwidth = sample.HigherRatio("bandwidth", "B/s", "bytes received per second")
	failed    = sample.LowerShare("failed-share", "share of requests that failed, had an error or timed out")
	names     = map[string]string{"time for request": "latency", "request": "latency", "time for connect": "connect",
		"connect": "connect", "time to 1st byte": "first-byte", "TTFB": "first-byte"}
	// Columns that are read, and what they are of the times.
	statistics = []struct{ column, doc string }{{"mean", "mean"}, {"max", "longest"}, {"median", "median"},
		{"p95", "95th percentile"}, {"p99", "99th percentile"}}
)

func (h2load) Read(name string, data []byte) (format.File, error) {
	out := format.File{Program: "h2load"}
	p := format.NewProblems(name)
	parts := format.Parts(data, begin.Match)
	if len(parts) == 0 {
		p.Add(1, "no line is \"starting benchmark...\"; write the file with h2load … > FILE")
	}
	for _, part := range parts {
		if rec := readReport(p, part); rec != nil {
			rec.Turn = len(out.Records)
			out.Records = append(out.Records, *rec)
		}
	}
	p.Distinguish(&out, "load")
	return p.Finish(out)
}

func readReport(p *format.Problems, part format.Part) *format.Record {
	end, counts := ended.FindSubmatch(part.Text), done.FindSubmatch(part.Text)
	if end == nil || counts == nil {
		p.LeaveOut(part.Line, "the report lacks the line \"finished in …\" or \"requests: …\"; the run may have been "+
			"interrupted")
		return nil
	}
	var n [6]float64 // total, done, succeeded, failed, errored, timeout
	for i := range n {
		n[i], _ = labeled.Decimal(string(counts[i+1])) // digits
	}
	took, err1 := labeled.Quantity(string(end[1]), durations)
	rate, err2 := labeled.Quantity(string(end[3]), sizes)
	if err1 != nil || err2 != nil || !(took > 0) {
		p.LeaveOut(part.Line, "%q cannot be read", end[0])
		return nil
	}
	// h2load counts, and divides by the time for which it was asked to measure, without the warm-up before it.
	time, rounding := took, labeled.Rounding(string(end[1]))
	if m := timed.FindSubmatch(part.Text); m != nil {
		asked, err := labeled.Quantity(string(m[1]), durations)
		if err != nil || !(asked > 0) || took < asked*(1-maxRounding) {
			p.LeaveOut(part.Line, "the test should last %s, and it ended after %s; the run may have been interrupted",
				m[1], end[1])
			return nil
		}
		time, rounding = asked, 0
	}
	protocol, _ := part.Text.Line("Application protocol:")
	load, threads := loadOf(part.Text)
	rec := &format.Record{Line: part.Line, Facts: map[string]string{"threads": threads}, Labels: []format.Label{
		{Name: "protocol", Value: protocol, Setting: true},
		{Name: "load", Value: load, Setting: true},
	}}
	for _, fact := range []string{"TLS Protocol", "Cipher"} {
		if v, err := part.Text.Line(fact + ":"); err == nil {
			rec.Facts[fact] = v
		}
	}
	bad := n[3] // which includes those with errors and timeouts
	if n[2] <= 0 {
		rec.Failed, rec.Reason = 1, fmt.Sprintf("none of %.0f requests succeeded", n[0])
		return rec
	}
	if bad > 0 {
		p.Warn(part.Line, "%.0f of %.0f requests failed. The throughput counts the others; the latencies include failed "+
			"requests.", bad, n[2]+bad)
	}
	if m := redirected.FindSubmatch(part.Text); m != nil {
		p.Warn(part.Line, "%s responses redirect to another address, which h2load does not follow.", m[1])
	}
	// The rate counts all responses, also those with an error as their status.
	responses := max(n[2], n[2]+n[3]-n[4])
	perSecond := p.LessRounded(rec.Line, "req/s", string(end[2]), map[string]float64{"": 1}, responses/time, rounding,
		maxRounding, "the number of responses and the time")
	rec.AddSingle(requests, perSecond*n[2]/responses, true)
	if m := traffic.FindSubmatch(part.Text); m != nil {
		all, _ := labeled.Decimal(string(m[1])) // digits
		rate = p.LessRounded(rec.Line, "the rate of the bytes (B/s)", string(end[3]), sizes, all/time, rounding,
			maxRounding, "the bytes of the traffic and the time")
	}
	rec.AddSingle(bandwidth, rate, true)
	rec.AddSingle(failed, bad/(n[2]+bad), true)
	latencies(p, rec, part.Text)
	if n[2] > n[1] || n[1] > n[0] {
		p.Warn(rec.Line, "%.0f requests succeeded, %.0f were done, and there were %.0f in total. The file was changed, or "+
			"h2load has an error.", n[2], n[1], n[0])
	}
	for _, what := range []string{"latency", "connect", "first-byte"} {
		p.CompareOrder(rec, maxRounding, 0, what+"-median", what+"-p95", what+"-p99", what+"-max")
		p.CompareOrder(rec, maxRounding, 0, what+"-mean", what+"-max")
	}
	return rec
}

// maxRounding is the share by which rates may differ from those that numbers and the time give.
const maxRounding = 0.01

// loadOf returns what the lines of all threads say about the load, with the sums of their clients and requests, and
// how many threads there are.
func loadOf(text []byte) (load, threads string) {
	sums := map[string]float64{}
	lines := started.FindAllSubmatch(text, -1)
	for _, line := range lines {
		for _, m := range counts.FindAllSubmatch(line[1], -1) {
			n, _ := labeled.Decimal(string(m[1])) // digits
			sums[string(m[2])] += n
		}
	}
	if len(lines) == 0 {
		return "", "unavailable"
	}
	load = counts.ReplaceAllStringFunc(string(lines[0][1]), func(match string) string {
		what := counts.FindStringSubmatch(match)[2]
		return fmt.Sprintf("%.0f%s", sums[what], what)
	})
	return load, fmt.Sprint(len(lines))
}

// latencies reads the table of times. Its first line names the columns. 0us stands for
// times that h2load did not measure.
func latencies(p *format.Problems, rec *format.Record, text []byte) {
	head := columns.FindSubmatch(text)
	if head == nil {
		return
	}
	for _, m := range times.FindAllSubmatch(text, 3) {
		words, what := strings.Fields(string(m[2])), names[string(m[1])]
		for _, s := range statistics {
			if i := slices.Index(strings.Fields(string(head[1])), s.column); i >= 0 && i < len(words) {
				v, err := labeled.Quantity(words[i], durations)
				if err != nil {
					p.LeaveOut(rec.Line, "%s-%s: %v", what, s.column, err)
				}
				rec.AddSingle(sample.LowerRatio(what+"-"+s.column, "s", s.doc+" of the times of "+what), v, err == nil && v > 0)
			}
		}
	}
}
