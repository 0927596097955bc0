package pgbench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/labeled"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

func (b pgbench) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := labeled.Text(out.Stdout)
	if err := checkEcho(text, p); err != nil {
		return r, err
	}
	done, err := processed(text)
	if err != nil {
		return r, err
	}
	tps, err := parseRate(text, p.Bool("connect"))
	if err != nil {
		return r, err
	}
	if !(done > 0) || !(tps > 0) {
		return r, fault.New(fault.Subject, "nothing was measured: %g transactions, %g per second", done, tps)
	}
	if err := bounded(done, p); err != nil {
		return r, err
	}
	took, err := testSeconds(text, done, tps, p.Bool("connect"))
	if err != nil {
		return r, err
	}
	asked := tool.WholeSeconds(p, "time")
	if p.Int("transactions") > 0 {
		asked = 0
	}
	if err := r.Lasted(took, asked, out.Elapsed); err != nil {
		return r, err
	}
	d := b.Doc()
	r.Work = done
	r.Add(d, "throughput", tps)
	failed, err := failures(text, out.Facts["version"])
	if err != nil {
		return r, err
	}
	r.Count("failed", int64(failed))
	r.Add(d, "failed-share", failed/(failed+done))
	for metric, label := range map[string]string{"latency-mean": "latency average =",
		"connection-mean": "average connection time ="} {
		if _, err := text.Line(label); err != nil {
			continue // not every version prints each
		}
		ms, err := text.Number(label, "")
		if err != nil {
			return r, err
		}
		r.AddKnown(d, metric, ms/1e3)
	}
	slices.SortFunc(r.Values, func(x, y sample.Value) int { return strings.Compare(x.Metric, y.Metric) })
	return r, b.latencies(&r, out.Files[logName], done+failed)
}

// testSeconds is how long the test took, in seconds: pgbench does not print it, but divides by it,
// without the time to connect first unless each transaction connects.
func testSeconds(text labeled.Text, done, tps float64, connect bool) (float64, error) {
	if connect {
		return done / tps, nil
	}
	if _, err := text.Line("initial connection time ="); err == nil { // from version 14
		ms, err := text.Number("initial connection time =", "")
		return done/tps + ms/1e3, err
	}
	all, err := parseRate(text, true)
	if err != nil || !(all > 0) {
		return done / tps, nil // it has only the other line
	}
	return done / all, nil
}

// failures is the number of failed transactions. Versions before 15 do not print it:
// there a failed transaction ended its client.
func failures(text labeled.Text, version string) (float64, error) {
	line, err := text.Line("number of failed transactions:")
	if err != nil {
		major, _, _ := strings.Cut(version, ".")
		if n, aerr := strconv.Atoi(major); aerr == nil && n >= 15 {
			return 0, err
		}
		return 0, nil
	}
	word, _, _ := strings.Cut(line, " ")
	failed, err := labeled.Decimal(word)
	if err != nil || failed < 0 || failed > 1<<50 {
		return 0, fmt.Errorf("invalid number of failed transactions: %.40q", line)
	}
	return failed, nil
}

// types are the names of the built-in scripts in the output.
var types = map[string]string{"tpcb-like": "TPC-B (sort of)", "simple-update": "simple update",
	"select-only": "select only"}

// checkEcho checks that the output has the requested parameters.
func checkEcho(text labeled.Text, p param.Values) error {
	want := map[string]string{
		"transaction type:": "<builtin: " + types[p.Text("script")] + ">", "query mode:": "simple",
		"scaling factor:": p.Text("scale"), "number of clients:": p.Text("clients"), "number of threads:": p.Text("threads"),
	}
	if p.Int("transactions") > 0 {
		want["number of transactions per client:"] = p.Text("transactions")
	} else {
		want["duration:"] = tool.Seconds(p, "time") + " s"
	}
	if err := tool.Echoes(text, want, false); err != nil {
		return err
	}
	// The number is not in the output, only that there was one.
	if _, err := text.Line("rate limit schedule lag:"); (err == nil) != (p.Rate("rate") > 0) {
		return tool.Differs("rate", map[bool]string{true: "a limit", false: "no limit"}[err == nil],
			cmp.Or(p.Text("rate"), "no limit"))
	}
	return nil
}

// bounded checks that no more transactions were done than were asked for: their
// number, or what random arrivals at the rate can reach.
func bounded(done float64, p param.Values) error {
	most := math.Inf(1)
	if n := p.Int("transactions"); n > 0 {
		most = float64(n * p.Int("clients"))
	} else if rate := p.Rate("rate"); rate > 0 {
		scheduled := rate * tool.WholeSeconds(p, "time").Seconds()
		most = scheduled + 6*math.Sqrt(scheduled) + 1
	}
	if done > most {
		return fault.New(fault.Subject, "%.0f transactions were processed, more than the %.0f that were asked for", done,
			math.Floor(most))
	}
	return nil
}

// processed is the number of completed transactions: "459", or "30/30" if a
// number was requested.
func processed(text labeled.Text) (float64, error) {
	line, err := text.Line("number of transactions actually processed:")
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(line, "/")
	n, err := labeled.Decimal(strings.TrimSpace(word))
	if err != nil || n < 0 || n > 1<<50 {
		return 0, fmt.Errorf("invalid number of transactions actually processed: %.40q", line)
	}
	return n, nil
}

// The texts in parentheses of the line "tps" with and without the time to
// connect, in version 14 and later, and before.
var (
	including = []string{"including reconnection times", "including connections establishing"}
	excluding = []string{"without initial connection time", "excluding connections establishing"}
)

// parseRate reads the tps line with or without the time to connect.
func parseRate(text labeled.Text, connect bool) (float64, error) {
	meant := excluding
	if connect {
		meant = including
	}
	found, tps := false, 0.0
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "tps = ")
		if !ok {
			continue
		}
		number, kind, _ := strings.Cut(rest, " ")
		if !slices.Contains(meant, strings.Trim(kind, "()")) {
			continue
		}
		v, err := labeled.Decimal(number)
		if err != nil || found {
			return 0, fmt.Errorf("a line tps is invalid or a duplicate: %.60q", rest)
		}
		found, tps = true, v
	}
	if !found {
		return 0, fmt.Errorf("no line \"tps = … (%s)\"", strings.Join(meant, ")\" or \"tps = … ("))
	}
	return tps, nil
}

// latencies adds quantiles from the log, whose third field is the latency in
// µs. It refuses an incomplete log.
func (b pgbench) latencies(r *tool.Result, log []byte, done float64) error {
	var us []float64
	lines := 0
	for line := range bytes.Lines(log) {
		fields := bytes.Fields(line)
		if len(fields) < 6 {
			return fmt.Errorf("%s: invalid line %.60q", logName, line)
		}
		lines++
		text := string(fields[2])
		if text == "failed" || text == "skipped" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: invalid line %.60q", logName, line)
		}
		us = append(us, v)
	}
	if float64(lines) < done {
		return fmt.Errorf("%s: the log has %d transactions instead of %.0f", logName, lines, done)
	}
	slices.Sort(us)
	for _, q := range quantiles {
		// A quantile needs values on both sides.
		if n := float64(len(us)); n*(1-q.q) < 1 {
			continue
		}
		r.AddKnown(b.Doc(), q.metric, us[int(q.q*float64(len(us)))]/1e6)
	}
	return nil
}
