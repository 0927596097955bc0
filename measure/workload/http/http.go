// Package http is a web server workload: the environment's web server serves one
// page or a site, and a native load generator outside requests it over a real
// network path, in a closed or an open loop.
package http

import (
	"fmt"
	"slices"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
)

// Workload measures a web server.
type Workload struct{}

// New returns the workload.
func New() workload.Parser { return Workload{} }

// ServerBlob is the blob that describes the server: version, configuration,
// user.
const ServerBlob = "server.json"

// MaxRequests bounds the number of requests of an open loop.
const MaxRequests = 1e9

// Ordinary is the priority of a generator without real-time priority.
const Ordinary = "normal"

// The server programs. Own is the user's own, which bakeoff does not configure.
const (
	Nginx    = "nginx"
	Lighttpd = "lighttpd"
	Own      = "own"
)

// IPv6 is the value of family for a server that is reached over IPv6.
const IPv6 = "ipv6"

// The protocols of the load generator.
const (
	One = "http/1.1"
	Two = "http/2"
)

// setUpTime is about how long a trial takes in addition to its warm-up and its timed part.
const setUpTime = 150 * time.Millisecond

// TLSCounters has the kernel's counters of encrypted connections. Unlike tcp_available_ulp it
// exists in every network namespace if the kernel has TLS.
const TLSCounters = "/proc/net/tls_stat"

// WithoutKernelTLS is the error of an environment that cannot have kernel TLS.
func WithoutKernelTLS(why string) error {
	return fault.WithFix(fault.New(fault.Unsupported, "ktls: %s", why),
		"load the kernel module (modprobe tls), or remove ktls")
}

// NoKernelTLS is the reason of a kernel without TLSCounters.
const NoKernelTLS = "the kernel has no TLS of its own: there is no " + TLSCounters

// Refuse is Doc.Refuse of workloads with ServerParams.
func Refuse(p param.Values, on workload.Storage) error {
	if p.Bool("ktls") && on.KernelLacks != nil && on.System == "linux" && on.KernelLacks(TLSCounters) {
		return WithoutKernelTLS(NoKernelTLS)
	}
	return nil
}

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	return workload.Doc{
		Name:   "http",
		Refuse: Refuse,
		Summary: "The environment's web server serves a page or a site to a native load generator outside, in a closed " +
			"or an " +
			"open loop",
		Metrics: metrics(),
		Params: []param.Spec{
			{Name: "server", Kind: param.Text, Default: Nginx, Enum: []string{Nginx, Lighttpd, Own},
				Doc: "server program: nginx or lighttpd, as packaged by the environment's system, or own, your own " +
					"server on the port that the parameter port sets. For own, bakeoff starts the program of the " +
					"parameter run or, without run, the program that the image starts. If a server already answers " +
					"on that port, as in a guest without an agent, bakeoff starts nothing"},
			{Name: "run", Kind: param.List, Doc: "the program of your own server (server: own), and its arguments. " +
				"bakeoff starts the program without a shell in the environment, as the user and in the folder that " +
				"the image names. By default, bakeoff starts the program that the image starts (ENTRYPOINT and CMD)"},
			{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000, Doc: "number of connections"},
			{Name: "rate", Kind: param.Rate,
				Doc: "send at this rate (open loop) and measure latencies from the intended send time; when not set, the " +
					"loop is closed"},
			{Name: "spacing", Kind: param.Text, Default: "constant", Enum: []string{"constant", "exponential"},
				Doc: "gaps between the intended send times of an open loop"},
			{Name: "seed", Kind: param.Int, Default: "1", Min: 0, Max: 1 << 53,
				Doc: "seed of exponential gaps and of the order of the URLs; the same for every contender"},
			{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the timed part of a trial"},
			{Name: "warmup", Kind: param.Duration, Default: "200ms",
				Doc: "length of the warmup: before the timed part, the load generator keeps all connections busy " +
					"for this time. On an otherwise idle machine, the first 150 to 250 ms of a load ran up to a " +
					"quarter slower than the rest"},
			{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "longest wait for a response; a later response " +
				"counts as an error"},
			{Name: "page", Kind: param.Size, Default: "4KiB", Min: webroot.MinPage, Max: 16 << 20,
				Doc: "size of the page in bytes, if site is not set"},
			{Name: "site", Kind: param.Text, Doc: "what to serve: example (a small blog of 25 files and 174 KB with a " +
				"home page of 4,069 bytes), or the absolute path of a folder on this machine with an index.html, at most " +
				"4096 files and 64 MiB; when not set, a single page"},
			{Name: "urls", Kind: param.Text, Default: "home", Doc: "what to request: home (the home page), all (all " +
				"files of the site in turn, in a random order that the parameter seed sets), or the absolute path " +
				"of a list on this machine, one path per line"},
			{Name: "workers", Kind: param.Int, Default: "1", Min: 1, Max: 256, Doc: "number of worker processes of the server"},
			{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64, Doc: "number of threads of the load generator"},
			{Name: "priority", Kind: param.Text, Default: "auto", Enum: []string{"auto", Ordinary},
				Doc: "priority of the load generator: auto is real-time if the system permits it and the generator " +
					"has its own CPUs, so that other processes on these CPUs do not delay it; the file work.json of " +
					"a trial records the actual priority"},
			{Name: "keepalive", Kind: param.Bool, Default: "true",
				Doc: "use a connection for many requests; otherwise each request opens its own connection"},
			{Name: "tls", Kind: param.Bool, Default: "false",
				Doc: "HTTPS, with a self-signed certificate that bakeoff makes for the environment; with server: own, " +
					"your server brings its certificate, and bakeoff does not verify it"},
			{Name: "key", Kind: param.Text, Default: "ecdsa-p256", Enum: []string{"ecdsa-p256", "rsa-4096"},
				Doc: "kind of the key of the certificate that bakeoff makes; not with server: own"},
			{Name: "protocol", Kind: param.Text, Default: One, Enum: []string{One, Two},
				Doc: "protocol of the load generator. HTTP/2 has one stream at a time on each connection, so that its " +
					"latencies mean the same as those of HTTP/1.1; without tls, the server then accepts only HTTP/2 (prior " +
					"knowledge)"},
			{Name: "http2", Kind: param.Bool, Default: "false",
				Doc: "the server also offers HTTP/2, which only the workloads http and h2load with protocol: http/2 use; " +
					"requires tls"},
			{Name: "ktls", Kind: param.Bool, Default: "false",
				Doc: "the kernel encrypts what the server sends (kTLS); requires tls and the server nginx; nginx, " +
					"OpenSSL and the kernel must support it"},
			{Name: "tcp-nopush", Kind: param.Bool, Default: "false",
				Doc: "nginx sends only full packets until the response ends (tcp_nopush, TCP_CORK in Linux); with BBR " +
					"congestion control, the end of a response may then wait tens of milliseconds"},
			{Name: "port", Kind: param.Int, Min: 1, Max: 65535, Doc: "port of the server; when not set, bakeoff " +
				"derives the port from the configuration of the server, so that cells with equal configurations " +
				"share a server"},
			{Name: "path", Kind: param.Text, Doc: "path of the page that your own server (server: own) serves, " +
				"escaped as in a request; / when not set"},
			{Name: "family", Kind: param.Text, Enum: []string{"ipv4", IPv6},
				Doc: "IP version by which load reaches your own server (server: own); ipv4 when not set. ipv6 works " +
					"in containers, in chroots and with driver: host, but not in virtual machines, and not with " +
					"driver: machine"},
		},
		Peer:        true,
		Packages:    map[string][]string{"debian": {"nginx"}},
		Programs:    []string{"nginx"},
		Needs:       serverNeeds,
		OutsideWith: func(p param.Values) bool { return p.Text("server") == Own && len(p.List("run")) == 0 },
		State:       "carried",
		Cache:       "warm",
		Time:        func(p param.Values) time.Duration { return p.Duration("time") + p.Duration("warmup") + setUpTime },
		Parser:      1,
		Source: []string{
			"RFC 9112, HTTP/1.1",
			"RFC 9113, HTTP/2",
			"G. Tene, How NOT to Measure Latency (coordinated omission), 2013",
			"HdrHistogram, https://hdrhistogram.org",
		},
	}
}

// serverNeeds are the program of the server and the packages that it needs, which Debian
// splits for lighttpd.
func serverNeeds(p param.Values) (programs []string, packages map[string][]string) {
	if p.Text("server") == Own {
		return nil, nil
	}
	if p.Text("server") != Lighttpd {
		return []string{Nginx}, map[string][]string{"debian": {Nginx}}
	}
	all := []string{Lighttpd}
	if p.Bool("tls") {
		all = append(all, "lighttpd-mod-openssl")
	}
	return []string{Lighttpd}, map[string][]string{"debian": all}
}

// CPUPerRequest is what the environment's CPUs spent per response.
var CPUPerRequest = sample.Metric{
	Name: "cpu-per-request", Unit: "s/request", Better: sample.Lower, Scale: sample.Ratio, CPUTime: true,
	Doc: "CPU time of the host on the environment's CPUs per expected response; the resolution is nanoseconds if " +
		"the host's kernel counts them, otherwise clock ticks",
}

func metrics() []sample.Metric {
	m := []sample.Metric{
		sample.Throughput("request/s",
			"expected responses per second within the timed part; a response with status 404 or a wrong body does not "+
				"count"),
	}
	for _, q := range quantiles {
		what := fmt.Sprintf("%gth percentile of the latency", q.Percent)
		if q.Percent == 100 {
			what = "highest latency"
		}
		m = append(m, sample.LowerRatio(q.Metric, "s", what+"; an open loop measures it from the intended send time"))
	}
	return append(m,
		CPUPerRequest,
		workload.JoulesPerRequest,
		workload.GeneratorJoulesPerRequest,
		sample.LowerRatio("context-switches-per-request", "op/request",
			"context switches of the whole host per expected response, including those of a load generator on the host"),
		sample.LowerShare("queued-share", "share of the requests of an open loop that had to wait for a free "+
			"connection"),
		sample.LowerShare("generator-starved",
			"share of time in which the load generator was ready to run but had no CPU; these waits add to the "+
				"measured latency"),
		sample.LowerShare("generator-stolen", "share of CPU time that the hypervisor took from the load generator's CPUs"),
	)
}

// ServerParams are the parameters of a Server. In addition it reads "connections", the number
// of connections that it must support.
func ServerParams() []param.Spec {
	return slices.DeleteFunc(Workload{}.Doc().Params, func(s param.Spec) bool {
		return !slices.Contains([]string{"server", "run", "path", "family", "page", "site", "workers", "tls", "key",
			"http2", "ktls", "tcp-nopush", "port"}, s.Name)
	})
}

// ProgramParam implements execution.Starter.
func (Workload) ProgramParam(p param.Values) string {
	if p.Text("server") != Own {
		return ""
	}
	return "run"
}
