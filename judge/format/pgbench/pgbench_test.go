package pgbench

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// What the report says of the schema and of repeated transactions is a fact.
func TestFacts(t *testing.T) {
	out, err := New().Read("x", []byte("pgbench (15.18 (Debian))\ntransaction type: a\npartition method: hash\n"+
		"partitions: 4\nmaximum number of tries: 3\nnumber of transactions actually processed: 10\ntps = 8.5 (x)\n"))
	want := map[string]string{"version": "15.18", "server": "15.18", "partition-method": "hash", "partitions": "4",
		"tries": "3"}
	if err != nil || !maps.Equal(out.Records[0].Facts, want) {
		t.Errorf("%+v, %v", out, err)
	}
}

// Transactions that failed or were skipped are in no throughput, and a warning says so.
func TestFailedTransactionsAreReported(t *testing.T) {
	out, err := New().Read("x", []byte("transaction type: a\nnumber of transactions actually processed: 10\n"+
		"number of transactions skipped: 5 (11.111%)\n"+
		"number of failed transactions: 30 (75.000%)\ntps = 8.5 (without initial connection time)\n"))
	want := []string{"x:1: 30 of 40 transactions failed. The throughput counts the others, and the latency includes them.",
		"x:1: Transactions that pgbench skipped because they were late: 5 (11.111%). Neither throughput nor latencies " +
			"count them."}
	if err != nil || !slices.Equal(out.Warnings, want) {
		t.Errorf("%q, %v", out.Warnings, err)
	}
}

// A number that cannot be read does not vanish without a warning.
func TestLeftOut(t *testing.T) {
	const report = "transaction type: a\nnumber of transactions actually processed: 10\ntps = 8.5 (x)\n"
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "a mean", Text: report + "latency average = 0,270 ms\n",
			Want: `x:1: latency-mean: latency average = "0,270 ms": not a number`},
		{Name: "a time to connect", Text: report + "average connection time = nan ms\n",
			Want: `x:1: connection-mean: average connection time = "nan ms": not a number`},
	})
}

// Each report of a file has the version before it.
func TestVersionsOfReports(t *testing.T) {
	const report = "transaction type: a\nnumber of transactions actually processed: 10\ntps = 8.5 (x)\n"
	out, err := New().Read("x", []byte("pgbench (15.5)\n"+report+"pgbench (17.2 (Debian 17.2-1))\n"+report))
	if err != nil || len(out.Records) != 2 || out.Records[0].Facts["version"] != "15.5" ||
		out.Records[1].Facts["version"] != "17.2" {
		t.Errorf("%+v, %v", out, err)
	}
}

// pgbench names the server if its version is another one.
func TestServers(t *testing.T) {
	const report = "transaction type: a\nnumber of transactions actually processed: 10\ntps = 8.5 (x)\n"
	for head, want := range map[string]string{
		"pgbench (17.2, server 16.1)":                                           "17.2 16.1",
		"pgbench (17.2 (Debian 17.2-1.pgdg120+1), server 16.1 (Debian 16.1-1))": "17.2 16.1",
		"pgbench (PostgreSQL 14.0, server 13beta1)":                             "14.0 13beta1",
		"pgbench (17.2 (Debian 17.2-1))":                                        "17.2 17.2",
	} {
		out, err := New().Read("x", []byte(head+"\n"+report))
		if err != nil || len(out.Records) != 1 ||
			out.Records[0].Facts["version"]+" "+out.Records[0].Facts["server"] != want {
			t.Errorf("%s: %+v, %v", head, out, err)
		}
	}
}

// Newer versions print the transactions of a script in two lines.
func TestScripts(t *testing.T) {
	const report = "transaction type: multiple scripts\nnumber of clients: 4\n" +
		"number of transactions actually processed: 20\ntps = 2000.0 (without initial connection time)\n" +
		"SQL script 1: a.sql\n - weight: 1 (targets 100.0% of total)\n"
	for lines, want := range map[string]int{
		" - 20 transactions (100.0% of total, tps = 2000.0)\n":                                                    2,
		" - 20 transactions (100.0% of total)\n - number of transactions actually processed: 20 (tps = 2000.0)\n": 2,
		" - 20 transactions (100.0% of total)\n":                                                                  1,
	} {
		out, err := New().Read("x", []byte(report+lines+" - latency average = 2.5 ms\n"))
		if err != nil || len(out.Records) != want || want == 2 && (out.Records[1].Series[0].Values[0] != 2000 ||
			len(out.Records[1].Series) != 2 || len(out.Warnings) > 0) {
			t.Errorf("%q: %+v, %v", lines, out, err)
		}
	}
}

// pgbench prints a report of a run that it aborted, too.
func TestAbortedRunIsAFailure(t *testing.T) {
	const report = "pgbench (15.5)\ntransaction type: <builtin: select only>\nnumber of clients: 1\n" +
		"number of transactions actually processed: 10\ntps = 8.5 (without initial connection time)\n"
	asked := func(number, more string) string {
		return strings.Replace(report, "processed: 10\n", "processed: 10/"+number+"\n"+more, 1)
	}
	for text, want := range map[string]int{report: 0,
		report + "pgbench: error: Run was aborted; the above results are incomplete.\n": 1,
		"pgbench: error: client 0 aborted in command 4 (SQL) of script 0; server died\n" + report +
			"pgbench: error: Run was aborted; the above results are incomplete.\n": 1,
		"Client 3 aborted in state 7: ERROR:  deadlock detected\n" + report: 1,
		asked("10", ""): 0, asked("40", ""): 1,
		asked("40", "number of transactions skipped: 30 (75.000%)\n"): 0,
	} {
		out, err := New().Read("x", []byte(text))
		if err != nil || len(out.Records) != 1 || len(out.Failures) != want {
			t.Errorf("%q: %+v, %v", text, out, err)
		}
	}
}

// Versions before 9.6 write a colon before the latencies.
func TestLatenciesOfOldVersions(t *testing.T) {
	out, err := New().Read("x", []byte("transaction type: TPC-B (sort of)\nnumber of clients: 1\n"+
		"number of transactions actually processed: 10\nlatency average: 2.893 ms\nlatency stddev: 0.5 ms\n"+
		"tps = 345.5 (including connections establishing)\ntps = 345.6 (excluding connections establishing)\n"))
	if err != nil || len(out.Records) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	got := map[string]float64{}
	for _, s := range out.Records[0].Series {
		got[s.Metric.Name] = s.Values[0]
	}
	if ms := 2.893; got["latency-mean"] != ms*1e-3 || got["latency-stddev"] != 0.5e-3 || got["throughput"] != 345.6 {
		t.Errorf("%v", got)
	}
}
