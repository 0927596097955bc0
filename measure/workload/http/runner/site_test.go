package runner

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/webroot"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

var loopback4 = netip.MustParseAddrPort("127.0.0.1:80")

func values(set param.Values) param.Values {
	p := param.Defaults(New().Doc().Params)
	for k, v := range set {
		p[k] = v
	}
	return p
}

// What cannot be served, or asked for, is refused before anything starts.
func TestSitesAndListsThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list")
	if err := os.WriteFile(list, []byte("/index.html\n/secret.html\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	target := execution.Target{Subject: &workloadtest.Instance{Information: driver.Info{Agent: "/a", Scratch: dir}},
		Peer: local.Conn{}, PeerAgent: "/a", Addr: loopback4.Addr()}
	for want, p := range map[string]param.Values{
		"must be example or":         {"site": "other"},
		"no such file":               {"site": dir + "/none"},
		"index.html is missing":      {"site": dir},
		"must be home, all or":       {"urls": "some"},
		"/secret.html is not in":     {"site": "example", "urls": list},
		"urls: open":                 {"site": "example", "urls": dir + "/nothing"},
		"http2 and ktls require":     {"http2": "true"},
		"http2 and ktls require tls": {"ktls": "true"},
	} {
		if err := New().Prepare(t.Context(), target, values(p)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", p, err, want)
		}
		if err := Check(values(p)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v without any environment: %v; want %q", p, err, want)
		}
	}
	if err := Check(values(param.Values{"site": "example"})); err != nil {
		t.Errorf("the example site: %v", err)
	}
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

// The example site, a folder, all of their files, both engines, over HTTP and
// HTTPS with HTTP/2 available, through a real nginx.
func TestSites(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"index.html": "<p>short", "a b.txt": "text", "sub/deep/x.css": "p{}"} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range []param.Values{
		{"site": "example", "urls": "all"},
		{"site": "example", "rate": "500/s", "urls": "all"},
		{"site": folder, "urls": "all"},
		{"site": "example", "urls": "all", "tls": "true", "http2": "true"},
	} {
		t.Run(set.Text("site")[:1]+set.Text("rate")+set.Text("tls"), func(t *testing.T) { served(t, set) })
	}
}

// served runs a trial and wants nothing but right responses.
func served(t *testing.T, set param.Values) (execution.Target, param.Values) {
	t.Helper()
	target, p, _ := prepared(t, set)
	raw, err := New().Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	var r wire.Result
	if err := json.Unmarshal(raw[workload.Work], &r); err != nil {
		t.Fatal(err)
	}
	if r.Work == 0 || len(r.Errors) > 0 || !r.Check.Verified {
		t.Errorf("%g requests, errors %v", r.Work, r.Errors)
	}
	if _, err := New().Parse(raw, p); err != nil {
		t.Error(err)
	}
	return target, p
}

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

// On a real machine it is either had, and the kernel counts it, or refused.
func TestKernelTLS(t *testing.T) {
	target := bare(t)
	p := values(param.Values{"tls": "true", "ktls": "true", "time": "200ms", "connections": "2"})
	err := New().Prepare(t.Context(), target, p)
	if err != nil {
		if !fault.Is(err, fault.Unsupported) || fault.Fix(err) == "" && !strings.Contains(err.Error(), "encrypted nothing") {
			t.Errorf("%v", err)
		}
		return
	}
	if _, err := New().Run(t.Context(), target, p); err != nil {
		t.Error(err)
	}
}
