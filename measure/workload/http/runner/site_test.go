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
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/http/server"
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
		if err := server.Check(values(p)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v without any environment: %v; want %q", p, err, want)
		}
	}
	if err := server.Check(values(param.Values{"site": "example"})); err != nil {
		t.Errorf("the example site: %v", err)
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
