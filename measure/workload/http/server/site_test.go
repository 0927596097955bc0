package server

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload/http"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn/local"
)

var loopback4 = netip.MustParseAddrPort("127.0.0.1:80")

func values(set param.Values) param.Values {
	p := param.Defaults(http.Workload{}.Doc().Params)
	for k, v := range set {
		p[k] = v
	}
	return p
}

// A list of the user's is taken as it stands, and what it does not say is
// taken from the site.
func TestListOfTheUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("/\n/style.css\n/\n/none status=404\n/about.html contains=About\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	site := webroot.Example()
	urls, err := urlsOf(site, values(param.Values{"urls": file}))
	if err != nil || len(urls) != 5 || urls[0].Path != "/" || urls[0].Sum != site.Home().Sum() || urls[2] != urls[0] ||
		urls[3].Status != 404 || urls[3].Sum != "" || urls[4].Sum != "" || urls[4].Contains != "About" {
		t.Errorf("%+v, %v", urls, err)
	}
}

// The ports that an environment publishes are those at which its server listens.
func TestPorts(t *testing.T) {
	for _, set := range []param.Values{{}, {"server": http.Lighttpd}, {"server": http.Own, "port": "80"}} {
		p := values(set)
		target := execution.Target{Subject: subject{}, Peer: local.Conn{}, PeerAgent: "/agent",
			Addr: netip.MustParseAddr("198.18.0.2"), Listen: netip.IPv4Unspecified()}
		s, err := New(target, p)
		if err != nil {
			t.Fatal(err)
		}
		if got := Ports(p); len(got) != 2 || got[0] != s.Addr().Port() || got[1] != ResponderPort {
			t.Errorf("%v: published %v, and it listens at %v", set, got, s.Addr())
		}
		if at := s.target.ListenAddr(s.Addr()); !s.isUsers() && !strings.Contains(s.config(s, ""), at.Addr().String()) {
			t.Errorf("it does not listen at %v: %s", at, s.config(s, ""))
		}
	}
}

// subject is an environment that is only described.
type subject struct{ driver.Instance }

func (subject) Info() driver.Info { return driver.Info{Scratch: "/tmp"} }

const (
	withKTLS = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 1.1.1 (running with OpenSSL 3.0.19 27 Jan 2026)\n"
	oldNginx = "nginx version: nginx/1.18.0\nbuilt with OpenSSL 3.0.2\n"
)

func TestKernelTLSIsNeverLeftOutSilently(t *testing.T) {
	const counts = "TlsCurrTxSw                     \t0\nTlsTxSw                         \t0\nTlsTxDevice            " +
		"         \t0\n"
	for _, c := range []struct{ counts, build, want string }{
		{counts, withKTLS, ""},
		{counts, "nginx version: nginx/1.27.0\nbuilt with OpenSSL 3.5.1 1 Jul 2025\n", ""},
		{"", withKTLS, "no TLS of its own"},
		{counts, oldNginx, "older than 1.21.4"},
		{counts, "nginx version: nginx/1.24.0\nbuilt with OpenSSL 1.1.1w\n", "OpenSSL 3.0"},
		{counts, "nginx version: nginx/1.24.0\nbuilt with LibreSSL 3.8\n", "OpenSSL 3.0"},
		{counts, "angie", "older"},
	} {
		if got := withoutKernelTLS(c.counts, c.build); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, %q: %q; want %q", c.counts, c.build, got, c.want)
		}
	}
}

// HTTP/2 is in the configuration if the generator uses it, and nothing changes
// for other cells, whose plans may be older than the parameter.
func TestConfigurationForHTTP2(t *testing.T) {
	config := func(p param.Values) string {
		return (&Server{params: values(p), addr: loopback4, dir: "/d"}).nginx("")
	}
	if plain := config(param.Values{"protocol": "http/2"}); !strings.Contains(plain,
		"listen 127.0.0.1:80 http2 backlog") ||
		strings.Contains(plain, "ssl") || !strings.Contains(plain, "sendfile off") {
		t.Errorf("without TLS: %s", plain)
	}
	secure := config(param.Values{"protocol": "http/2", "tls": "true"})
	if secure != config(param.Values{"http2": "true", "tls": "true"}) ||
		!strings.Contains(secure, "listen 127.0.0.1:80 ssl http2 backlog") {
		t.Errorf("with TLS: %s", secure)
	}
	if config(nil) != config(param.Values{"protocol": ""}) || strings.Contains(config(nil), "http2") {
		t.Errorf("HTTP/1.1: %s", config(nil))
	}
}
