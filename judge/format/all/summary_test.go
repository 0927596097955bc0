package all

import (
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/judge/format"
)

// summaries are the beginnings of files that programs write for people.
var summaries = []struct{ format, what, head string }{
	{"asv", "the text of asv", "| Change   | Before [0a9b]  | After [8c7d]   |   Ratio | Benchmark |\n"},
	{"asv", "the text of asv", "· Creating environments\n· Discovering benchmarks\n· Running 3 total benchmarks\n"},
	{"bonnie", "the CSV of bonnie++ 1.03 or older",
		"host,8G,60531,87,113242,24,57483,12,55031,84,141221,12,312.4,0,16,+++++," +
			"+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++\n"},
	{"criterion", "the text of Rust's own benchmarks", "running 1 test\ntest a ... bench:       1,234 ns/iter (+/- 56)\n"},
	{"fio", "the text of fio", "readers: (g=0): rw=randread, bs=(R) 4096B-4096B, ioengine=psync, iodepth=1\nfio-3.33\n"},
	{"fio", "the text of fio", "\n  read: IOPS=2000, BW=8000KiB/s (8192kB/s)(80.0MiB/10001msec)\n"},
	{"go", "the output of benchstat", "goos: linux\n        │  old.txt   │            new.txt             │\n" +
		"        │   sec/op   │   sec/op     vs base           │\nJoin-8    1.000µ ± 1%   0.900µ ± 2%  -10.00%\n"},
	{"go", "the output of benchstat", "goos: linux\ngoarch: amd64\npkg: example.com/x\n" +
		"       │ old.txt │ new.txt │\n       │ sec/op  │ sec/op  vs base │\nA-8  100.0n ± 1%  200.0n ± 1%  +100.00%\n"},
	{"go", "the output of benchstat",
		"name    old time/op  new time/op  delta\nJoin-8  1.00µs ± 1%  0.90µs ± 2%  -10.00%\n"},
	{"go", "the output of benchstat", "goos: linux\n,old.txt,,new.txt\n,sec/op,CI,sec/op,CI,vs base,P\n"},
	{"google", "the text of Google Benchmark", "Running ./bench\n-----\n" +
		"Benchmark           Time             CPU   Iterations\n-----\nBM_Sort/64       1000 ns         1000 ns\n"},
	{"google", "the CSV of Google Benchmark", "name,iterations,real_time,cpu_time,time_unit,bytes_per_second\n"},
	{"hyperfine", "the CSV of hyperfine", "\ufeffcommand,mean,stddev,user,system,min,max\nsleep 1,1,0,0,0,1,1\n"},
	{"jmh", "the text of JMH", "Benchmark  Mode  Samples  Score  Error  Units\no.A.f  avgt  10  1.0  0.1 ns/op\n"},
	{"hyperfine", "the CSV of hyperfine", "command,mean,stddev,median,user,system,min,max\nsleep 1,1,0,1,0,0,1,1\n"},
	{"hyperfine", "a table of hyperfine",
		"| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|---:|---:|---:|\n"},
	{"hyperfine", "a table of hyperfine",
		"| Command  |  Mean [s] |  Min [s] |  Max [s] |  Relative |\n|--+--+--+--+--|\n"},
	{"hyperfine", "a table of hyperfine", "[cols=\"<,>,>,>,>\"]\n|===\n| Command \n| Mean [ms] \n"},
	{"hyperfine", "the text of hyperfine", "Benchmark 1: sleep 0.1\n  Time (mean ± σ):     102.2 ms ±   0.5 ms\n"},
	{"hyperfine", "the text of hyperfine",
		"Benchmark 1: sleep 1\n  Time (abs ≡):        1.002 s               [User: 0.001 s]\n"},
	{"jmh", "the text of JMH", "# JMH version: 1.37\n# VM version: JDK 17.0.9\n"},
	{"jmh", "the text of JMH",
		"Benchmark      Mode  Cnt   Score   Error  Units\nBench.run      avgt    5  12.500 ± 0.100  ns/op\n"},
	{"jmh", "the CSV of JMH",
		"\"Benchmark\",\"Mode\",\"Threads\",\"Samples\",\"Score\",\"Score Error (99.9%)\",\"Unit\"\n"},
	{"pgbench", "the output of pgbench in another language", "Transaktionstyp: <builtin: TPC-B (sort of)>\n" +
		"Skalierungsfaktor: 1\ntps = 345.678901 (ohne initiale Verbindungszeit)\n"},
	{"phoronix", "the JSON of the Phoronix Test Suite",
		"{\n    \"title\": \"t\",\n    \"results\": {\n        \"6f\": {\n" +
			"            \"identifier\": \"pts\\/openssl-3.1.0\",\n"},
	{"phoronix", "the JSON of the Phoronix Test Suite", "{\n    \"title\": \"t\",\n    \"results\": {\n" +
		"        \"pts\\/openssl-1.10.0\": {\n            \"arguments\": \"\",\n" +
		"            \"units\": \"Signs Per Second\",\n            \"results\": {\n                \"host\": {\n" +
		"                    \"value\": \"1234.5\",\n" +
		"                    \"all_results\": \"1230:1234:1239\"\n"},
	{"phoronix", "the CSV of the Phoronix Test Suite", "my title\n\n ,,\"old\",\"new\"\nOS,,Debian 12,Debian 12\n\n" +
		" ,,\"old\",\"new\"\n\"pts/build-linux-kernel-1.15.0 - defconfig\",LIB,100.1,99.5\n"},
	{"phoronix", "the text of the Phoronix Test Suite", "my title\n\n    OpenSSL 3.1\n    Algorithm: RSA4096\n" +
		"    sign/s > Higher Is Better\n    old . 1234.5 |=====================\n"},
	{"pytest", "the text of pytest", "collected 1 item\n\n--- benchmark: 1 tests ---\n" +
		"Name (time in ns)         Min       Max      Mean  StdDev\n"},
	{"pytest", "the CSV of pytest-benchmark", "name,param:size,min,max,mean,stddev,rounds,median,iqr,ops\n"},
	{"redis", "the text of redis-benchmark", "====== SET ======\n  100000 requests completed in 1.00 seconds\n"},
	{"redis", "the text of redis-benchmark", "SET: rps=0.0 (overall: nan) avg_msec=nan (overall: nan)\r    \r" +
		"====== SET ======\n  100000 requests completed in 1.02 seconds\n"},
	{"redis", "the text of redis-benchmark", "SET: 85000.00\rSET: 99009.90 requests per second\n"},
	{"redis", "the text of redis-benchmark",
		"LRANGE_100 (first 100 elements): 30000.00 requests per second, p50=0.8 msec\n"},
	{"redis", "the text of redis-benchmark", "set foo bar: 30000.00 requests per second, p50=0.8 msec\n"},
	{"redis", "the text of redis-benchmark", "PING_INLINE: 99009.90 requests per second, p50=0.263 msec\n"},
	{"", "the text of ApacheBench", "This is ApacheBench, Version 2.3 <$Revision: 1903618 $>\nBenchmarking localhost\n"},
	{"", "the text of hey", "\nSummary:\n  Total:\t2.0174 secs\n  Slowest:\t0.0812 secs\n  Fastest:\t0.0004 secs\n"},
	{"", "the output of oha", "Summary:\n  Success rate:\t100.00%\n  Total:\t2.0011 secs\n"},
	{"", "the output of oha", `{"summary":{"successRate":1.0,"total":2.0011,"slowest":0.0055}}`},
	{"", "the output of k6", "     http_req_duration..............: avg=4.05ms min=349.31µs med=3.55ms\n"},
	{"", "the output of k6", "metric_name,timestamp,metric_value,check,error\nhttp_reqs,1785325560,1.000000,,\n"},
	{"", "the output of k6", `{"metric":"http_reqs","type":"Point","data":{"value":1}}` + "\n"},
	{"", "the output of k6", `{"metrics":{"http_reqs":{"count":9},"http_req_duration":{"avg":12.3}}}`},
	{"", "the output of iperf3", "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"},
	{"", "the output of iperf3", "{\n\t\"start\":\t{\n\t\t\"connected\":\t[],\n\t\t\"version\":\t\"iperf 3.12\"}}"},
	{"", "the text of perf stat", "\n Performance counter stats for 'sleep 1':\n\n  0.52 msec task-clock\n"},
	{"", "the output of time", "\tCommand being timed: \"sleep 1\"\n\tUser time (seconds): 0.00\n"},
	{"", "the output of time", "\nreal\t0m1.234s\nuser\t0m1.000s\nsys\t0m0.100s\n"},
	{"", "the output of vegeta", "Requests      [total, rate, throughput]  6000, 100.02, 98.45\n"},
	{"", "the output of vegeta", `{"latencies":{"total":42,"mean":1,"50th":1,"max":1},"rate":100}`},
	{"wrk", "the text of autocannon", "Running 10s test @ http://localhost:3000\n10 connections\n\n┌─────────┬──────┐\n"},
}

func TestSummariesAreNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range summaries {
		err := format.SummaryError(Formats(), "x.txt", []byte(s.head))
		if err == nil || !strings.Contains(err.Error(), "x.txt:1: this is "+s.what+", which analyse does not read; ") {
			t.Errorf("%q: %v, want %s", s.head, err, s.what)
		}
		if fault.Of(err) != fault.Invalid {
			t.Errorf("%q: the error is of kind %v", s.head, fault.Of(err))
		}
		seen[s.format+s.what] = true
		// What is read first must not take it.
		if got := format.Recognize(Formats(), []byte(s.head)); len(got) > 0 {
			if _, err := got[0].Read("x.txt", []byte(s.head)); err == nil {
				t.Errorf("%q is read as %s", s.head, got[0].Doc().Name)
			}
		}
	}
	for _, s := range format.Foreign {
		if !seen[s.What] {
			t.Errorf("no test has %s", s.What)
		}
	}
	for _, f := range Formats() {
		for _, s := range f.Doc().Summaries {
			if !seen[f.Doc().Name+s.What] {
				t.Errorf("%s: no test has %s", f.Doc().Name, s.What)
			}
		}
	}
}

// Files that a format reads are no summaries.
func TestReadableFilesAreNotSummaries(t *testing.T) {
	files := storedFiles(t)
	if !slices.ContainsFunc(files, func(f stored) bool { return f.want != "" }) {
		t.Fatal("no stored files")
	}
	for _, f := range files {
		if err := format.SummaryError(Formats(), f.path, f.data[:min(len(f.data), format.HeadBytes)]); err != nil {
			t.Error(err)
		}
	}
}
