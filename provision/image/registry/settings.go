package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/yamltree"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
)

// The environment variables with the settings of registries.
const (
	// VarMirrors lists mirrors: docker.io=https://mirror.example/hub,ghcr.io=…. A mirror
	// is asked before its registry.
	VarMirrors = "BAKEOFF_REGISTRY_MIRRORS"
	// VarPlain lists registries that are reached over HTTP without TLS:
	// registry.example:5000,….
	VarPlain = "BAKEOFF_REGISTRY_HTTP"
)

// Mirror is a registry with copies of the repositories of another one.
type Mirror struct {
	Of     string // docker.io
	Host   string // mirror.example:5000
	Prefix string // of all repositories: hub
	Plain  bool   // HTTP without TLS
}

// Settings are those of the environment variables.
type Settings struct {
	Mirrors []Mirror
	Plain   []string
}

// SettingsOf reads the environment variables. Errors are of kind fault.Invalid.
func SettingsOf(getenv func(string) string) (Settings, error) {
	var s Settings
	for word := range splitList(getenv(VarMirrors)) {
		of, where, ok := strings.Cut(word, "=")
		m := Mirror{Of: of}
		where, m.Plain = strings.CutPrefix(where, "http://")
		where = strings.TrimPrefix(where, "https://")
		m.Host, m.Prefix, _ = strings.Cut(strings.TrimSuffix(where, "/"), "/")
		if !ok || !hostForm.MatchString(of) || !hostForm.MatchString(m.Host) || m.Prefix != "" &&
			!prefixForm.MatchString(m.Prefix) {
			return s, fault.WithFix(fault.New(fault.Invalid, "%s: %s does not name a mirror", VarMirrors, yamltree.Show(word)),
				"write REGISTRY=https://HOST[:PORT][/PREFIX], such as docker.io=https://mirror.example")
		}
		s.Mirrors = append(s.Mirrors, m)
	}
	for word := range splitList(getenv(VarPlain)) {
		if !hostForm.MatchString(word) {
			return s, fault.WithFix(fault.New(fault.Invalid, "%s: %s does not name a registry", VarPlain, yamltree.Show(word)),
				"write HOST[:PORT], such as registry.example:5000")
		}
		s.Plain = append(s.Plain, word)
	}
	return s, nil
}

var (
	hostForm   = lazy.Compile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
	prefixForm = lazy.Compile(`^[a-z0-9][a-z0-9._/-]*$`)
)

func splitList(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for w := range strings.SplitSeq(list, ",") {
			if w = strings.TrimSpace(w); w != "" && !yield(w) {
				return
			}
		}
	}
}

// place is where an image can be pulled from.
type place struct {
	host, repository string
	mirror           bool
}

// places are the mirrors of a registry, and then the registry.
func (s Settings) places(r reference.Reference) []place {
	var out []place
	for _, m := range s.Mirrors {
		if m.Of == r.Host {
			out = append(out, place{host: m.Host, repository: strings.TrimPrefix(m.Prefix+"/"+r.Repository, "/"), mirror: true})
		}
	}
	return append(out, place{host: r.Host, repository: r.Repository})
}

// allowsHTTP tells whether a registry may be reached without TLS: if a setting says so, or if
// it is on this machine.
func (s Settings) allowsHTTP(host string) bool {
	for _, p := range s.Plain {
		if p == host {
			return true
		}
	}
	for _, m := range s.Mirrors {
		if m.Plain && m.Host == host {
			return true
		}
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// Guard returns a transport that refuses requests without TLS to hosts that do not permit
// them, and that gives up a server which sends no answer. next makes the requests; nil is
// the default, with the proxies of the environment.
func (s Settings) Guard(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = defaultTransport
	}
	return guarded{s, next}
}

// guarded refuses requests without TLS to registries that do not permit them, whoever
// asks for them: a name, a redirect or a challenge.
type guarded struct {
	Settings
	next http.RoundTripper
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "http" && !g.allowsHTTP(r.URL.Host) {
		return nil, fault.WithFix(fault.New(fault.Unsupported, "%s answers only over HTTP without TLS", r.URL.Host),
			"set "+VarPlain+"="+r.URL.Host+" if you trust the network to it")
	}
	return g.next.RoundTrip(r)
}

// limited reads the answers of registries, within a bound, before the library has them: it
// ignores what follows the JSON, and does not close what it cannot parse. Blobs, the only requests that ask for no
// encoding, have bounds of their own.
type limited struct{ next http.RoundTripper }

func (b limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil || r.Header.Get("Accept-Encoding") == "identity" {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, layout.MaxDocument+1))
	if err = errors.Join(err, resp.Body.Close()); err == nil && len(body) > layout.MaxDocument {
		err = fault.New(fault.Invalid, "the registry's answer has more than %d bytes", layout.MaxDocument)
	}
	document := r.Method == http.MethodGet && resp.StatusCode == http.StatusOK && r.URL.Path != "/v2/"
	if err == nil && document && !json.Valid(body) {
		err = fault.New(fault.Invalid, "the registry's answer is damaged: it is not JSON")
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
