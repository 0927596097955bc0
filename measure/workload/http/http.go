// Package http is the workload of a web server: the environment's own nginx
// serves one page, and a native generator outside asks for it over a real
// network path, in a closed or an open loop.
package http

import (
	"slices"
	"time"

	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
)

// Workload measures a web server.
type Workload struct{}

// New returns the workload.
func New() workload.Parser { return Workload{} }

// ServerBlob is the blob that says what served: version, configuration, user.
const ServerBlob = "server.json"

// MaxRequests bounds what an open loop may plan to send.
const MaxRequests = 1e9

// Ordinary is the priority of a generator that has no better one.
const Ordinary = "normal"

// warmUpTime is what a trial takes beside its timed part, about.
const warmUpTime = 150 * time.Millisecond

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	return workload.Doc{
		Name:    "http",
		Summary: "the environment's nginx serves a page or a site to a native generator outside, in a closed or an open loop",
		Metrics: metrics(),
		Params: []param.Spec{
			{Name: "server", Kind: param.Text, Default: "nginx", Enum: []string{"nginx"}, Doc: "server program, as the environment's system packages it"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000, Doc: "number of connections"},
			{Name: "rate", Kind: param.Rate, Doc: "open loop at this rate, latencies from the intended send time; a closed loop when not set"},
			{Name: "spacing", Kind: param.Text, Default: "constant", Enum: []string{"constant", "exponential"}, Doc: "gaps between the intended send times of an open loop"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 0, Max: 1 << 53, Doc: "seed of exponential gaps and of the order of all URLs, the same for every contender"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the timed part of a trial"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "longest wait for a response, after which it is an error"},
			{Name: "page", Kind: param.Size, Default: "4KiB", Min: webroot.MinPage, Max: 16 << 20, Doc: "size of the page in bytes, where there is no site"},
			{Name: "site", Kind: param.Text, Doc: "what is served: one page when not set; example, a small blog of 25 files and 174 KB whose home page has 4,069 bytes; or the absolute path of a folder on this machine with an index.html, of at most 4096 files and 64 MiB"},
			{Name: "urls", Kind: param.Text, Default: "home", Doc: "what is asked for: home, the home page; all files of the site in turn, in an order that seed gives; or the absolute path of a list on this machine, a path a line"},
			{Name: "workers", Kind: param.Int, Default: "1", Min: 1, Max: 256, Doc: "worker processes of the server"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "threads of the generator"},
			{Name: "priority", Kind: param.Text, Default: "auto", Enum: []string{"auto", Ordinary}, Doc: "priority of the generator: auto is real-time where the system permits it and the generator has CPUs of its own, so that neighbours there are not measured; what it got is in work.json"},
			{Name: "keepalive", Kind: param.Bool, Default: "true", Doc: "whether a connection serves many requests; otherwise each opens its own"},
			{Name: "tls", Kind: param.Bool, Default: "false", Doc: "HTTPS with a self-signed certificate that is made for the environment"},
			{Name: "key", Kind: param.Text, Default: "ecdsa-p256", Enum: []string{"ecdsa-p256", "rsa-4096"}, Doc: "key of the certificate"},
			{Name: "http2", Kind: param.Bool, Default: "false", Doc: "the server offers HTTP/2 beside HTTP/1.1, which is what the generators here speak; needs tls"},
			{Name: "ktls", Kind: param.Bool, Default: "false", Doc: "the kernel encrypts what the server sends; needs tls, and is refused where nginx, OpenSSL or the kernel cannot"},
			{Name: "port", Kind: param.Int, Min: 1, Max: 65535, Doc: "port of the server; when not set, one that follows from its configuration, so that cells share a server that they configure alike and no other"},
		},
		Peer:     true,
		Packages: map[string][]string{"debian": {"nginx"}},
		Programs: []string{"nginx"},
		State:    "carried",
		Cache:    "warm",
		Time:     func(p param.Values) time.Duration { return p.Duration("time") + warmUpTime },
		Parser:   1,
		Source: []string{
			"RFC 9112, HTTP/1.1",
			"G. Tene, How NOT to Measure Latency (coordinated omission), 2013",
			"HdrHistogram, https://hdrhistogram.org",
		},
	}
}

func metrics() []sample.Metric {
	m := []sample.Metric{
		{Name: "throughput", Unit: "request/s", Better: sample.Higher, Primary: true, Scale: sample.Ratio,
			Doc: "expected responses within the timed part; a 404 or a wrong body is no response"},
	}
	for _, q := range quantiles {
		m = append(m, sample.Metric{Name: q.metric, Unit: "s", Better: sample.Lower, Scale: sample.Ratio,
			Doc: "latency; in an open loop from the intended send time"})
	}
	return append(m,
		sample.Metric{Name: "cpu-per-request", Unit: "s/request", Better: sample.Lower, Scale: sample.Ratio, CPUTime: true,
			Doc: "time that the environment's CPUs were busy, by the host's account, for each expected response; in nanoseconds where its kernel takes them, else in ticks"},
		workload.JoulesPerRequest,
		workload.GeneratorJoulesPerRequest,
		sample.Metric{Name: "context-switches-per-request", Unit: "op/request", Better: sample.Lower, Scale: sample.Ratio,
			Doc: "context switches of the whole host, those of the generator included where it is there, for each expected response"},
		sample.Metric{Name: "queued-share", Unit: "1", Better: sample.Lower, Scale: sample.Difference,
			Doc: "share of an open loop's requests that had to wait for a free connection"},
		sample.Metric{Name: "generator-starved", Unit: "1", Better: sample.Lower, Scale: sample.Difference,
			Doc: "share of the time in which the generator was ready to run and others had its CPU: what it says of latency is then not the server's alone"},
		sample.Metric{Name: "generator-stolen", Unit: "1", Better: sample.Lower, Scale: sample.Difference,
			Doc: "share of the time of the generator's CPUs that the machine below gave to others"},
	)
}

// ServerParams are the parameters that make a Server; beside them it reads
// "connections", the number that it must have room for.
func ServerParams() []param.Spec {
	return slices.DeleteFunc(Workload{}.Doc().Params, func(s param.Spec) bool {
		return !slices.Contains([]string{"server", "page", "site", "workers", "tls", "key", "http2", "ktls", "port"}, s.Name)
	})
}
