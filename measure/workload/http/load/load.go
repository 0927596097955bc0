// Package load is the load generator of the workload http: it sends requests at a fixed
// rate or in a closed loop, and compares each response with the expected one.
package load

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/workload/http"
)

// load describes the work of the generator.
type load struct {
	addr        netip.AddrPort
	host        string // of requests; "" is the address
	http2       bool
	asks        []*ask // requested in turn, repeatedly
	connections int
	threads     int
	rate        float64 // requests per second; 0 for a closed loop
	exponential bool
	seed        uint64
	warmUp      time.Duration // of requests before the timed part
	time        time.Duration // of the timed part
	timeout     time.Duration // of one request
	keepalive   bool
	tls         *tls.Config // nil for plain HTTP
	portable    bool
	ordinary    bool   // no real-time priority
	started     string // the real-time priority that the process was started with, in words; "" for none
}

// maxPortable bounds connections × URLs of the portable engine, where each
// connection remembers the head of each URL.
const maxPortable = 500_000

// loopParams are the parameters of the loop, as `bakeoff-agent work http`
// takes them.
var loopParams = []param.Spec{
	{Name: "addr", Kind: param.Text, Required: true, Doc: "address and port of the server: 10.0.0.2:8080"},
	{Name: "host", Kind: param.Text, Doc: "Host field; the address when empty"},
	{Name: "path", Kind: param.Text, Default: "/", Doc: "path of the page; ignored with list"},
	{Name: "list", Kind: param.Text, Doc: "file with a list of URLs to request in turn: one path per line, then " +
		"optionally status=, and length= and sha256= of a fixed body, or contains=, min= and max= of a varying one"},
	{Name: "connections", Kind: param.Int, Default: "50", Min: 1, Max: 10000, Doc: "number of connections"},
	{Name: "threads", Kind: param.Int, Default: "1", Min: 1, Max: 64,
		Doc: "number of threads of the generator, which divide the connections"},
	{Name: "rate", Kind: param.Rate, Doc: "open loop at this rate; a closed loop when empty"},
	{Name: "spacing", Kind: param.Text, Default: "constant", Enum: []string{"constant", "exponential"},
		Doc: "gaps between the intended send times of an open loop"},
	{Name: "seed", Kind: param.Int, Default: "1", Min: 0, Max: 1 << 53, Doc: "seed of exponential gaps"},
	{Name: "warmup", Kind: param.Duration,
		Doc: "length of a closed loop before the timed part; one request on each connection when not set"},
	{Name: "time", Kind: param.Duration, Default: "5s", Doc: "length of the timed part"},
	{Name: "timeout", Kind: param.Duration, Default: "5s", Doc: "longest wait for a response"},
	{Name: "keepalive", Kind: param.Bool, Default: "true",
		Doc: "use a connection for many requests; otherwise each request opens its own connection"},
	{Name: "protocol", Kind: param.Text, Default: http.One, Enum: []string{http.One, http.Two},
		Doc: "protocol of the requests; HTTP/2 has one stream at a time on each connection, and is negotiated by ALPN " +
			"with tls or else assumed (prior knowledge)"},
	{Name: "length", Kind: param.Int, Default: "-1", Min: -1, Max: maxBody,
		Doc: "length of the expected body in bytes; -1 uses that of the first response"},
	{Name: "sha256", Kind: param.Text,
		Doc: "SHA-256 of the expected body in hexadecimal; when empty, the first body is the reference"},
	{Name: "tls", Kind: param.Bool, Default: "false",
		Doc: "HTTPS; without keepalive, bakeoff uses the portable engine, because most of the work is then handshakes"},
	{Name: "certificate", Kind: param.Text,
		Doc: "SHA-256 of the only trusted server certificate, in hexadecimal; required with tls"},
	{Name: "priority", Kind: param.Text, Default: "auto", Enum: []string{"auto", http.Ordinary},
		Doc: "auto: if the system permits it, the threads of an epoll loop have real-time priority (SCHED_RR), so that " +
			"other programs on their CPU delay neither requests nor the time stamps of responses"},
	{Name: "engine", Kind: param.Text, Default: "auto", Enum: []string{"auto", "portable"},
		Doc: "portable uses one goroutine per connection even if epoll is available"},
}

func parseLoad(p param.Values) (*load, error) {
	l := &load{
		connections: int(p.Int("connections")), threads: int(p.Int("threads")),
		rate: p.Rate("rate"), exponential: p.Text("spacing") == "exponential", seed: uint64(p.Int("seed")),
		warmUp: p.Duration("warmup"), time: p.Duration("time"), timeout: p.Duration("timeout"),
		host: p.Text("host"), http2: p.Text("protocol") == http.Two,
		keepalive: p.Bool("keepalive"), ordinary: p.Text("priority") == http.Ordinary,
		portable: p.Text("engine") == "portable" || p.Bool("tls") && !p.Bool("keepalive"),
	}
	var err error
	if l.addr, err = netip.ParseAddrPort(p.Text("addr")); err != nil {
		return nil, fault.WithFix(fault.New(fault.Invalid, "addr: %q is not an address with a port", p.Text("addr")),
			"write 10.0.0.2:8080")
	}
	if l.time <= 0 || l.timeout <= 0 || l.connections < 1 || l.threads < 1 {
		return nil, fault.New(fault.Invalid, "time, timeout, connections and threads must be positive")
	}
	l.threads = min(l.threads, l.connections)
	if n := l.rate * l.time.Seconds(); n > http.MaxRequests {
		return nil, fault.New(fault.Invalid, "rate × time is %.0f requests; the limit is %.0f", n, float64(http.MaxRequests))
	}
	if p.Bool("tls") {
		if l.tls, err = pinCertificate(p.Text("certificate"), l.http2); err != nil {
			return nil, fault.Wrap(fault.Invalid, "certificate", err)
		}
	}
	return l, l.prepare(p)
}

// prepare makes the requests.
func (l *load) prepare(p param.Values) error {
	urls := []URL{{Path: p.Text("path"), Length: p.Int("length"), Sum: p.Text("sha256")}}
	if file := p.Text("list"); file != "" {
		if urls[0].Length >= 0 || urls[0].Sum != "" {
			return fault.New(fault.Invalid, "list cannot be combined with length and sha256, which are for one page")
		}
		var err error
		if urls, err = ReadURLs(file); err != nil {
			return err
		}
	}
	for _, u := range urls {
		a, err := newAsk(u, l)
		if err != nil {
			return fault.Wrap(fault.Invalid, "request", err)
		}
		l.asks = append(l.asks, a)
	}
	if n := l.connections * len(l.asks); n > maxPortable && (l.portable || runtime.GOOS != "linux") {
		return fault.New(fault.Invalid, "connections × urls is %d; the limit of the portable engine is %d", n, maxPortable)
	}
	return nil
}

// longest is the longest known body length, in bytes.
func (l *load) longest() int64 {
	var n int64
	for _, a := range l.asks {
		n = max(n, a.Length, a.Max)
	}
	return n
}

// session is the state of a new connection; nil for HTTP/1.1.
func (l *load) session() *session {
	if l.http2 {
		return new(session)
	}
	return nil
}

// request returns the bytes of a request.
func (l *load) request(path string) ([]byte, error) {
	host := cmp.Or(l.host, l.addr.String())
	for what, s := range map[string]string{"host": host, "path": path} {
		if s == "" || strings.ContainsFunc(s, unprintable) {
			return nil, fmt.Errorf("%s: %q is empty or contains characters that are invalid in a request", what, s)
		}
	}
	if path[0] != '/' {
		return nil, fmt.Errorf("path must begin with / (got %q)", path)
	}
	if l.http2 {
		scheme := "http"
		if l.tls != nil {
			scheme = "https"
		}
		return prepareFrame(scheme, host, path)
	}
	connection := ""
	if !l.keepalive {
		connection = "Connection: close\r\n"
	}
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, connection), nil
}

func isSum(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// pinCertificate returns a TLS configuration that trusts only one certificate: the
// server's self-signed one.
func pinCertificate(sum string, http2 bool) (*tls.Config, error) {
	if !isSum(sum) {
		return nil, fmt.Errorf("tls must be the SHA-256 of the server's certificate in lower-case hexadecimal (got %q)", sum)
	}
	config := trusting(http2)
	config.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		if len(raw) == 0 {
			return errors.New("the server sent no certificate")
		}
		if got := sha256.Sum256(raw[0]); hex.EncodeToString(got[:]) != sum {
			return errors.New("the server sent a different certificate than tls names")
		}
		return nil
	}
	return config, nil
}

// trusting returns a TLS configuration that trusts every certificate: there is no chain to
// verify.
func trusting(http2 bool) *tls.Config {
	protocol := "http/1.1"
	if http2 {
		protocol = "h2"
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{protocol},
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if http2 && c.NegotiatedProtocol != protocol {
				return errNotNegotiated
			}
			return nil
		},
	}
}
