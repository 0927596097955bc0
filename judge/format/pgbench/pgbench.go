// Package pgbench reads the reports of pgbench.
package pgbench

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/lazy"
	"bakeoff/base/sample"
	"bakeoff/judge/format"
)

type pgbench struct{}

// New returns the format.
func New() format.Format { return pgbench{} }

func (pgbench) Doc() format.Doc {
	return format.Doc{
		Name:    "pgbench",
		Program: "pgbench > FILE",
		Labels: []format.LabelDoc{
			{Name: "script", Doc: "transaction type, or one of several scripts"},
			{Name: "scale", Doc: "scaling factor"},
			{Name: "mode", Doc: "query mode, with or without a limit of the rate or a new connection for each transaction"},
			{Name: "clients", Doc: "number of clients"},
			{Name: "threads", Doc: "number of threads"},
		},
		Order: "A report is one run with one value of each metric. It does not name all options, such as the rate, so two " +
			"reports in one file do not count as repetitions: use a file for each run.",
		InOrder: true,
		Summaries: []format.Summary{{What: "the output of pgbench in another language", Fix: "run it with LC_ALL=C",
			Head: lazy.Compile(`(?m)^tps = \S+ \((?:[^eiw]|e[^x]|i[^n]|in[^c])`)}},
		Source: []string{"https://www.postgresql.org/docs/current/pgbench.html"},
	}
}

var (
	begin   = lazy.Compile(`^transaction type: `)
	header  = lazy.Compile(`^pgbench \((?:PostgreSQL )?([^\s,)]+)(?:.*, server ([^\s)]+))?`)
	clients = lazy.Compile(`(?m)^number of clients: `)
	// aborted is the end of a run in which a client failed, since version 12, or the message about the client.
	aborted = lazy.Compile(`Run was aborted|(?m:^(?:pgbench: (?:error|fatal): )?[Cc]lient \d+ aborted\b)`)
	skipped = lazy.Compile(`(?m)^number of transactions skipped: ([1-9].*?)\s*$`)
)

func (pgbench) Recognizes(head []byte) bool {
	return len(format.Parts(head, begin.Match)) > 0 && clients.Match(head)
}

var (
	rate      = sample.Throughput("op/s", "transactions per second, without the time to connect unless each one connects")
	mean      = sample.LowerRatio("latency-mean", "s", "mean time of a transaction")
	deviation = sample.LowerRatio("latency-stddev", "s", "standard deviation of the times of transactions")
	connect   = sample.LowerRatio("connection-mean", "s", "mean time to connect")
	failed    = sample.LowerShare("failed-share", "share of transactions that failed")
)

func (pgbench) Read(name string, data []byte) (format.File, error) {
	data = format.TrimMark(data)
	out := format.File{Program: "pgbench"}
	p := format.NewProblems(name)
	parts := format.Parts(data, func(line []byte) bool { return begin.Match(line) || header.Match(line) })
	if !slices.ContainsFunc(parts, func(part format.Part) bool { return begin.Match(part.Text) }) {
		p.Add(1, "no line begins with \"transaction type:\"; write the file with pgbench > FILE")
	}
	version, server, turn := "", "", 0
	for _, part := range parts {
		if m := header.FindSubmatch(part.Text); m != nil { // since version 14, before the report
			version = string(m[1])
			server = cmp.Or(string(m[2]), version) // pgbench names a server of another version
			out.Program = "pgbench " + version
			continue
		}
		if done, asked := short(part.Text); done < asked && !aborted.Match(data) {
			p.Fail(&out, part.Line, "pgbench processed %.0f of %.0f transactions, so its results are incomplete.", done, asked)
		}
		for _, rec := range readReport(p, part) {
			rec.Turn = turn
			if rec.Facts = map[string]string{}; version != "" {
				rec.Facts["version"], rec.Facts["server"] = version, server
			}
			for name, line := range map[string]string{"tries": "maximum number of tries:", "partitions": "partitions:",
				"partition-method": "partition method:"} {
				if v, err := part.Text.Line(line); err == nil {
					rec.Facts[name] = v
				}
			}
			out.Records = append(out.Records, rec)
		}
		turn++
	}
	if at := aborted.FindIndex(data); at != nil {
		p.Fail(&out, 1+bytes.Count(data[:at[0]], []byte("\n")), "pgbench aborted the run, so its results are incomplete.")
	}
	p.Distinguish(&out, "script")
	return p.Finish(out)
}

// short returns how many transactions were processed or failed, and how many were requested; 0 and 0 if the report does
// not say so, or if pgbench skipped some.
func short(text labeled.Text) (done, asked float64) {
	line, _ := text.Line("number of transactions actually processed:")
	_, word, _ := strings.Cut(line, "/")
	asked, err := labeled.Decimal(word)
	done, failures, derr := transactions(text)
	if err != nil || derr != nil || skipped.Match(text) {
		return 0, 0
	}
	return done + failures, asked
}

// readReport reads a report: the whole, and then each of several scripts, which ran at the
// same time.
func readReport(p *format.Problems, part format.Part) []format.Record {
	text := part.Text
	scripts := labeled.Text(nil)
	if i := bytes.Index(text, []byte("\nSQL script 1:")); i >= 0 {
		text, scripts = text[:i+1], text[i+1:]
	}
	done, failures, err := transactions(text)
	if err != nil {
		p.LeaveOut(part.Line, "the report is incomplete: %v", err)
		return nil
	}
	tps, reconnects, err := perSecond(text)
	if err != nil && done > 0 {
		p.LeaveOut(part.Line, "the report is incomplete: %v", err)
		return nil
	}
	var labels []format.Label
	for _, l := range []struct{ name, line string }{{"script", "transaction type:"}, {"scale", "scaling factor:"},
		{"mode", "query mode:"}, {"clients", "number of clients:"}, {"threads", "number of threads:"}} {
		if v, err := text.Line(l.line); err == nil {
			label := format.Label{Name: l.name, Value: v, Setting: true, Place: l.name == "threads"}
			switch l.name {
			case "mode":
				label.Value += modeText(text, reconnects)
			case "script":
			default:
				label.Shown = l.name + "=" + v
			}
			labels = append(labels, label)
		}
	}
	rec := format.Record{Line: part.Line, Labels: labels}
	if done <= 0 {
		rec.Failed, rec.Reason = 1, "no transaction was processed"
		return []format.Record{rec}
	}
	rec.AddSingle(rate, tps, true)
	latencies(p, &rec, text, "")
	p.AddNumber(&rec, text, "average connection time =", connect, 1e-3)
	compare(p, &rec, text, done, failures, tps)
	compareDuration(p, &rec, text, done)
	rec.AddSingle(failed, failures/(done+failures), true)
	if failures > 0 {
		latency := "leaves them out, too"
		if computesLatency(text) {
			latency = "includes them"
		}
		p.Warn(part.Line, "%.0f of %.0f transactions failed. The throughput counts the others, and the latency %s.", failures,
			done+failures, latency)
	}
	if m := skipped.FindSubmatch(text); m != nil {
		p.Warn(part.Line, "Transactions that pgbench skipped because they were late: %s. Neither throughput nor latencies "+
			"count them.", m[1])
	}
	each := perScript(p, part.Line+bytes.Count(text, []byte("\n")), rec, scripts,
		tps/done, spread(text)/done)
	return append([]format.Record{rec}, each...)
}

// maxRounding is the share by which a latency may differ from the one that the clients and the rate give.
const maxRounding = 0.1

// computesLatency reports whether pgbench measured no latencies. It then computes their mean from the clients, the
// time, and the number of all transactions, also of those that failed.
func computesLatency(text labeled.Text) bool {
	_, err := text.Line("latency stddev")
	return err != nil
}

// compare warns of numbers that contradict each other. A client has one transaction at a time (Little's law).
func compare(p *format.Problems, rec *format.Record, text labeled.Text, done, failures, tps float64) {
	clients, err := text.Number("number of clients:", "")
	i := slices.IndexFunc(rec.Series, func(s format.Series) bool { return s.Metric.Name == mean.Name })
	_, limited := text.Line("rate limit schedule lag:")
	if err != nil || i < 0 || !(tps > 0) || limited == nil {
		return
	}
	if computesLatency(text) {
		clients *= done / (done + failures)
	}
	have, want := rec.Series[i].Values[0], clients/tps
	for _, m := range tpsLine.FindAllSubmatch(text, 3) {
		if v, err := labeled.Decimal(string(m[1])); err == nil && v > 0 && math.Abs(have-clients/v) < math.Abs(have-want) {
			want = clients / v
		}
	}
	if computesLatency(text) || have > want { // measured latencies lack the time between transactions
		slack := 1e-6 + maxRounding*want
		if ms, err := text.Number("initial connection time =", ""); err == nil { // the latency has its share of it
			slack += ms / 1e3 * clients / done
		}
		p.Compare(rec.Line, "latency average (s)", have, want, slack, "the clients and tps",
			"the stated numbers")
	}
}

// maxEnd is how long the last transactions of a run may take after its duration, in seconds, beyond ten usual ones.
const maxEnd = 5

// compareDuration warns if tps contradicts the transactions and the duration: a run ends when the last transaction
// ends, and the time to connect may not count.
func compareDuration(p *format.Problems, rec *format.Record, text labeled.Text, done float64) {
	asked, err := text.Number("duration:", "")
	if err != nil || !(asked > 0) || aborted.Match(text) {
		return
	}
	late, early := maxEnd+0.1*asked, 0.5+0.1*asked
	if i := slices.IndexFunc(rec.Series, func(s format.Series) bool { return s.Metric.Name == mean.Name }); i >= 0 {
		late += 10 * rec.Series[i].Values[0]
	}
	if ms, err := text.Number("initial connection time =", ""); err == nil {
		early += ms / 1e3
	}
	var last float64
	for _, m := range tpsLine.FindAllSubmatch(text, 3) {
		v, err := labeled.Decimal(string(m[1]))
		if err != nil || !(v > 0) || done/v > asked-early && done/v < asked+late {
			return
		}
		last = v
	}
	p.Compare(rec.Line, "tps", last, done/asked, 0, "the number of transactions and the duration", "tps")
}

// modeText says what else changes the work.
func modeText(text labeled.Text, reconnects bool) (out string) {
	if _, err := text.Line("rate limit schedule lag:"); err == nil {
		out += ", with a limit of the rate"
	}
	if reconnects {
		out += ", connecting for each transaction"
	}
	return out
}

// transactions are the numbers that were processed ("459", or "30/30" if a number was
// requested) and that failed, which pgbench counts since version 15.
func transactions(text labeled.Text) (done, failures float64, err error) {
	line, err := text.Line("number of transactions actually processed:")
	if err != nil {
		return 0, 0, err
	}
	word, _, _ := strings.Cut(line, "/")
	if done, err = labeled.Decimal(strings.TrimSpace(word)); err != nil || done < 0 {
		return 0, 0, fmt.Errorf("%.40q is not a number of transactions", line)
	}
	if line, err := text.Line("number of failed transactions:"); err == nil {
		word, _, _ := strings.Cut(line, " ")
		if failures, err = labeled.Decimal(word); err != nil || failures < 0 {
			return 0, 0, fmt.Errorf("%.40q is not a number of failed transactions", line)
		}
	}
	return done, failures, nil
}

var tpsLine = lazy.Compile(`(?m)^tps = (\S+)(?: \((.*)\))?\s*$`)

// perSecond reads the line tps: the only one, or without the time to connect. reconnects means
// that each transaction connected, so that the time belongs to it.
func perSecond(text labeled.Text) (tps float64, reconnects bool, err error) {
	all := tpsLine.FindAllSubmatch(text, 3)
	i := slices.IndexFunc(all, func(m [][]byte) bool {
		return len(all) == 1 || bytes.HasPrefix(m[2], []byte("excluding"))
	})
	if i < 0 {
		return 0, false, fmt.Errorf("the output must contain exactly one line that begins with tps")
	}
	v, err := labeled.Decimal(string(all[i][1]))
	return v, string(all[i][2]) == "including reconnection times", err
}

// latencies adds the lines "latency average" and "latency stddev". Versions before 9.6 write a
// colon.
func latencies(p *format.Problems, rec *format.Record, text labeled.Text, prefix string) {
	for _, sign := range []string{" =", ":"} {
		p.AddNumber(rec, text, prefix+"latency average"+sign, mean, 1e-3)
		p.AddNumber(rec, text, prefix+"latency stddev"+sign, deviation, 1e-3)
	}
}

var (
	scriptLine = lazy.Compile(`^SQL script \d+: `)
	countLine  = lazy.Compile(`(?m)^ - (?:number of transactions actually processed: )?(\d+)(?: transactions)? ` +
		`\((?:.*, )?tps = (\S+)\)\s*$`)
)

// spread is the difference of the lines tps; 0 if there is one.
func spread(text labeled.Text) float64 {
	var all []float64
	for _, m := range tpsLine.FindAllSubmatch(text, 3) {
		if v, err := labeled.Decimal(string(m[1])); err == nil {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all) - slices.Min(all)
}

// perScript reads the statistics of the scripts of a run. whole is the record of the run, and share its tps for one
// transaction, which differs by spread with and without the time to connect.
func perScript(p *format.Problems, before int, whole format.Record, text labeled.Text,
	share, spread float64) (out []format.Record) {
	for _, part := range format.Parts(text, scriptLine.Match) {
		rec := format.Record{Line: before + part.Line, Labels: slices.Clone(whole.Labels)}
		first, _, _ := strings.Cut(string(part.Text), "\n")
		_, name, _ := strings.Cut(first, ": ")
		rec.Labels[0].Value = strings.TrimSpace(first[:strings.Index(first, ":")] + ": " + name)
		m := countLine.FindSubmatch(part.Text)
		if m == nil {
			p.LeaveOut(rec.Line, "the script has no line \"… transactions (…, tps = …)\"")
			continue
		}
		tps, err := labeled.Decimal(string(m[2]))
		if err != nil {
			p.LeaveOut(rec.Line, "tps: %v", err)
			continue
		}
		rec.AddSingle(rate, tps, true)
		if n, err := labeled.Decimal(string(m[1])); err == nil {
			p.Compare(rec.Line, "tps of the script", tps, n*share, 1e-6+n*(maxRounding*share+spread),
				"its transactions and those of all scripts with their tps", "the stated number")
		}
		latencies(p, &rec, part.Text, "- ")
		out = append(out, rec)
	}
	return out
}
