package pgbench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
)

func (b pgbench) Parse(out tool.Output, p param.Values) (tool.Result, error) {
	var r tool.Result
	text := tool.Text(out.Stdout)
	if err := echoed(text, p); err != nil {
		return r, err
	}
	done, err := processed(text)
	if err != nil {
		return r, err
	}
	tps, err := rate(text, p.Bool("connect"))
	if err != nil {
		return r, err
	}
	if !(done > 0) || !(tps > 0) {
		return r, fault.New(fault.Subject, "nothing was measured: %g transactions, %g per second", done, tps)
	}
	d := b.Doc()
	r.Work = done
	r.Add(d, "throughput", tps)
	// Only from version 15 on; before, a failed transaction ended its
	// client.
	failed := 0.0
	if line, err := text.Line("number of failed transactions:"); err == nil {
		word, _, _ := strings.Cut(line, " ")
		if failed, err = tool.Decimal(word); err != nil || failed < 0 || failed > 1<<50 {
			return r, fmt.Errorf("number of failed transactions: %.40q", line)
		}
	}
	r.Count("failed", int64(failed))
	r.Add(d, "failed-share", failed/(failed+done))
	for metric, label := range map[string]string{"latency-mean": "latency average =",
		"connection-mean": "average connection time ="} {
		if ms, err := text.Number(label, ""); err == nil && ms > 0 {
			r.Add(d, metric, ms/1e3)
		}
	}
	slices.SortFunc(r.Values, func(x, y sample.Value) int { return strings.Compare(x.Metric, y.Metric) })
	return r, b.latencies(&r, out.Files[logName], done+failed)
}

// echoed checks that the output has the requested parameters.
func echoed(text tool.Text, p param.Values) error {
	for label, name := range map[string]string{"scaling factor:": "scale", "number of clients:": "clients",
		"number of threads:": "threads"} {
		got, err := text.Line(label)
		if err != nil {
			return err
		}
		if got != p.Text(name) {
			return fmt.Errorf("%s %.20q instead of %s", label, got, p.Text(name))
		}
	}
	return nil
}

// processed is the number of completed transactions: "459", or "30/30" if a
// number was requested.
func processed(text tool.Text) (float64, error) {
	line, err := text.Line("number of transactions actually processed:")
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(line, "/")
	n, err := tool.Decimal(strings.TrimSpace(word))
	if err != nil || n < 0 || n > 1<<50 {
		return 0, fmt.Errorf("transactions actually processed: %.40q", line)
	}
	return n, nil
}

// The texts in parentheses of the line "tps" with and without the time to
// connect, in version 14 and later, and before.
var (
	including = []string{"including reconnection times", "including connections establishing"}
	excluding = []string{"without initial connection time", "excluding connections establishing"}
)

// rate reads the tps line with or without the time to connect.
func rate(text tool.Text, connect bool) (float64, error) {
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
		v, err := tool.Decimal(number)
		if err != nil || found {
			return 0, fmt.Errorf("invalid or second line tps: %.60q", rest)
		}
		found, tps = true, v
	}
	if !found {
		return 0, fmt.Errorf("no line tps (%s)", strings.Join(meant, ", or "))
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
		return fmt.Errorf("%s: %d transactions instead of %.0f", logName, lines, done)
	}
	slices.Sort(us)
	for _, q := range quantiles {
		// A quantile needs values on both sides.
		if n := float64(len(us)); n*(1-q.q) < 1 {
			continue
		}
		if v := us[int(q.q*float64(len(us)))]; v > 0 {
			r.Add(b.Doc(), q.metric, v/1e6)
		}
	}
	return nil
}
