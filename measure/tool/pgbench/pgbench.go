// Package pgbench is the tool pgbench against a PostgreSQL in the same
// environment. Pitfalls:
//
//   - It is a closed loop unless a rate is set; then latencies count from the
//     scheduled start.
//   - With fewer branches (scale) than clients, the clients wait for each other's
//     row locks. Command refuses that.
//   - The line "tps" depends on the version and on -C: it excludes the time to
//     connect without -C, and includes it with -C. Version 13 prints both.
//   - The mean hides slow transactions: latencies come from its log (-l).
//   - fsync, synchronous_commit, full_page_writes and wal_level decide the result.
//     They are set by parameters, read back from the server, and recorded.
package pgbench

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/tool"
	"bakeoff/measure/workload"
)

// New returns the tool.
func New() tool.Tool { return pgbench{tool.VersionBy(`^pgbench \(PostgreSQL\) (\d+\.\d+)`)} }

type pgbench struct{ tool.Versioned }

var quantiles = []struct {
	metric string
	q      float64
}{{"latency-p50", 0.5}, {"latency-p95", 0.95}, {"latency-p99", 0.99}}

func (pgbench) Doc() tool.Doc {
	d := tool.Doc{
		Name: "pgbench", Program: "pgbench", VersionArgs: []string{"--version"},
		Tried: []string{"13", "15", "17"},
		Dirs: []string{"/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/local/lib/postgresql*/bin",
			"/usr/libexec/postgresql*"},
		Summary: "pgbench against the environment's PostgreSQL; bakeoff records the durability settings of PostgreSQL",
		Packages: map[string][]string{
			"debian": {"postgresql"}, "alpine": {"postgresql", "postgresql-contrib"},
			"freebsd": {"postgresql15-server", "postgresql15-contrib"},
			"openbsd": {"postgresql-server", "postgresql-contrib"}, "smartos": {"postgresql15-server", "postgresql15-contrib"},
			"netbsd":    {"postgresql15-server", "postgresql15-contrib"},
			"dragonfly": {"postgresql15-server", "postgresql15-contrib"},
		},
		Metrics: []sample.Metric{
			sample.Throughput("transaction/s", "transactions per second; includes the time to connect only if connect is true"),
			sample.LowerRatio("latency-mean", "s", "mean latency of a transaction"),
			sample.LowerRatio("connection-mean", "s", "mean time to connect; only if connect is true, and with pgbench "+
				"14 or later"),
			sample.LowerShare("failed-share", "share of transactions that failed"),
		},
		Params: []param.Spec{
			{Name: "volume", Kind: param.Text, Default: "/data", Doc: "declared path of the volume for the database"},
			{Name: "scale", Kind: param.Int, Default: "10", Min: 1, Max: 1e6,
				Doc: "scaling factor: number of branches, about 16 MB each; at least the number of clients"},
			{Name: "clients", Kind: param.Int, Default: "3", Min: 1, Max: 1000, Doc: "number of concurrent clients"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of pgbench threads"},
			{Name: "transactions", Kind: param.Int, Default: "0", Min: 0, Max: 1e9,
				Doc: "number of transactions per client; with 0, the parameter time ends the test"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the test in whole seconds"},
			{Name: "connect", Kind: param.Bool, Default: "false", Doc: "open a new connection for each transaction (-C)"},
			{Name: "rate", Kind: param.Rate,
				Doc: "start transactions at this rate (open loop), and measure latencies from the scheduled start; when " +
					"not set, the loop is closed"},
			{Name: "script", Kind: param.Text, Default: "tpcb-like", Enum: []string{"tpcb-like", "simple-update",
				"select-only"}, Doc: "pgbench's built-in script, which defines the transaction"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 1, Max: 1 << 31, Doc: "seed of the random rows"},
		},
		Server: tool.Database, Volume: "volume", State: "carried", Cache: "warm",
		Time: func(p param.Values) time.Duration {
			if n := p.Int("transactions"); n > 0 {
				return time.Duration(float64(n*p.Int("clients"))/200*float64(time.Second)) + time.Second
			}
			return tool.WholeSeconds(p, "time") + 500*time.Millisecond
		},
		Parser: 2,
		Source: []string{"pgbench(1), https://www.postgresql.org/docs/current/pgbench.html"},
	}
	for _, q := range quantiles {
		d.Metrics = append(d.Metrics, sample.LowerRatio(q.metric, "s",
			fmt.Sprintf("%gth percentile of the transaction latency, without the time to connect; with a rate, from the "+
				"scheduled start", 100*q.q)))
	}
	return d
}

// Few implements tool.Counted: an open loop schedules rate × time transactions, and every
// client sends as many as the parameter transactions says. How many a closed loop sends in
// a time is not known in advance.
func (pgbench) Few(p param.Values, metrics []string) (caveat, fix string) {
	var of []workload.Quantile
	for _, q := range quantiles {
		of = append(of, workload.Quantile{Metric: q.metric, Percent: 100 * q.q})
	}
	clients := float64(p.Int("clients"))
	n := float64(p.Int("transactions")) * clients
	if n <= 0 {
		return workload.FewAtRate(p, tool.WholeSeconds(p, "time"), "transactions", metrics, of)
	}
	metric, needs, few := workload.FewOf(n, metrics, of)
	if !few {
		return "", ""
	}
	return fmt.Sprintf("a trial has %.0f transactions (transactions %s, clients %s), and %s needs at least %.0f",
			n, p.Text("transactions"), p.Text("clients"), metric, needs),
		fmt.Sprintf("set transactions to %.0f or more", math.Ceil(needs/clients))
}

func serverFlags(at tool.Place) []string {
	return []string{"-h", at.Host, "-p", strconv.Itoa(at.Port), "-U", at.User}
}

// Prepare creates and fills the tables.
func (pgbench) Prepare(p param.Values, at tool.Place) ([]tool.Command, error) {
	argv := append([]string{"pgbench", "-i", "-q", "-s", p.Text("scale")}, serverFlags(at)...)
	return []tool.Command{{Argv: append(argv, at.Database)}}, nil
}

// The log of a trial: one line per transaction.
const (
	logName = "transactions.log"
	prefix  = "transactions"
)

func (pgbench) Command(p param.Values, at tool.Place) (tool.Command, error) {
	switch {
	case p.Int("scale") < p.Int("clients") && p.Text("script") != "select-only":
		return tool.Command{}, fault.WithFix(
			fault.New(fault.Invalid, "scale: with a scale of %s, %s clients would wait for each other's row locks",
				p.Text("scale"), p.Text("clients")),
			"set scale to "+p.Text("clients")+" or more")
	case p.Int("threads") > p.Int("clients"):
		return tool.Command{}, fault.New(fault.Invalid, "threads: %s is more than the number of clients, %s",
			p.Text("threads"), p.Text("clients"))
	case p.Int("transactions") == 0 && p.Duration("time") <= 0:
		return tool.Command{}, fault.New(fault.Invalid, "time must be positive (got %s)", p.Text("time"))
	}
	argv := []string{"pgbench", "-b", p.Text("script"), "-c", p.Text("clients"), "-j", p.Text("threads"),
		"-l", "--log-prefix=" + prefix, "--random-seed=" + p.Text("seed")}
	if n := p.Int("transactions"); n > 0 {
		argv = append(argv, "-t", p.Text("transactions"))
	} else {
		argv = append(argv, "-T", tool.Seconds(p, "time"))
	}
	if p.Bool("connect") {
		argv = append(argv, "-C")
	}
	if rate := p.Rate("rate"); rate > 0 {
		argv = append(argv, "-R", strconv.FormatFloat(rate, 'f', -1, 64))
	}
	argv = append(argv, serverFlags(at)...)
	return tool.Command{Argv: append(argv, at.Database), Keep: map[string]string{logName: prefix + ".*"}}, nil
}
