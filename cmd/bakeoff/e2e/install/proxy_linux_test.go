package install

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// mirror is a proxy for apt on the loopback interface. It keeps what it fetched from
// Debian's mirrors in a folder, and asks again only for what may change.
type mirror struct {
	dir  string
	port int
	// record is the folder of an installation: when it begins to destroy, the proxy serves nothing
	// more. late is the number of requests after that.
	record atomic.Pointer[string]
	late   atomic.Int64
}

// startMirror starts the proxy.
func startMirror(t *testing.T, dir string) *mirror {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{dir: dir, port: l.Addr().(*net.TCPAddr).Port}
	s := &http.Server{Handler: m}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return m
}

// gone reports whether an installation has begun to destroy.
func (m *mirror) gone() bool {
	record := m.record.Load()
	if record == nil {
		return false
	}
	text, _ := os.ReadFile(filepath.Join(*record, "journal.ndjson"))
	return bytes.Contains(text, []byte(`"step":"wipe-signatures"`))
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.gone() {
		m.late.Add(1)
		http.Error(w, "the mirror is gone", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead ||
		r.URL.Host != "deb.debian.org" && r.URL.Host != "security.debian.org" {
		http.Error(w, "this proxy serves Debian's mirrors only", http.StatusForbidden)
		return
	}
	file := filepath.Join(m.dir, r.URL.Host, filepath.FromSlash(path.Clean("/"+r.URL.Path)))
	_, missing := os.Stat(file)
	fixed := strings.HasSuffix(file, ".deb") || strings.Contains(file, "/by-hash/")
	if missing != nil || !fixed {
		status, err := fetch(r.URL.String(), file)
		if status == http.StatusNotFound {
			http.NotFound(w, r)
			return
		}
		if err != nil && missing != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	http.ServeFile(w, r, file)
}

// fetch downloads a file. A download that does not end leaves nothing.
func fetch(url, file string) (status int, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".download")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	if _, err = io.Copy(f, resp.Body); err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	return resp.StatusCode, err
}
