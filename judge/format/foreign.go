package format

import "bakeoff/base/lazy"

// Foreign are the outputs of programs that no format reads. Each pattern matches the output of that program only.
var Foreign = []Summary{
	{What: "the text of ApacheBench", Head: lazy.Compile(`(?m)^This is ApacheBench, Version `)},
	{What: "the text of hey", Head: lazy.Compile(`(?m)^Summary:\r?\n  Total:\t[\d.]+ secs\r?\n  Slowest:\t`)},
	{What: "the output of oha",
		Head: lazy.Compile(`^\s*\{\s*"summary":\s*\{\s*"successRate":|(?m:^Summary:\r?\n  Success rate:\t)`)},
	{What: "the output of k6", Head: lazy.Compile(`^metric_name,timestamp,metric_value,|` +
		`^\{(?:"metric":"\w+",)?"type":"(?:Metric|Point)",|(?m:^\W*http_req_duration\.+: avg=)|` +
		`^\s*\{\s*"(?:metrics|root_group)":\s*\{[\s\S]*"http_req_duration":\s*\{`)},
	{What: "the output of iperf3", Head: lazy.Compile(`(?m:^\[ ID\] Interval +Transfer +Bitrate)|` +
		`^\s*\{\s*"start":\s*\{[\s\S]*"version":\s*"iperf 3`)},
	{What: "the text of perf stat", Head: lazy.Compile(`^(?:# started on .*)?\s* Performance counter stats for `)},
	{What: "the output of time",
		Head: lazy.Compile(`^\s*(?:Command being timed: "|real\t\d+m[\d.]+s\r?\nuser\t\d+m[\d.]+s\r?\nsys\t)`)},
	{What: "the output of vegeta", Head: lazy.Compile(`^\s*\{\s*"latencies":\s*\{\s*"total":|` +
		`(?m:^Requests +\[total, rate(?:, throughput)?\] )`)},
}
