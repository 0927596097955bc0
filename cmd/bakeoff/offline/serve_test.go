package offline

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/cmd/bakeoff/cli"
)

func TestServeGivesOutTheRunAndNothingElse(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "run")
	for name, text := range map[string]string{
		"run/report/index.html":     "<p>the page",
		"run/results.json":          "{}",
		"run/raw/0-0/evil.html":     "<script>alert(1)</script>",
		"secret":                    "not yours",
		"run/report/index.html.not": "",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(base, "secret"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := cli.Local(runHandler(root.FS(), ""))
	for _, c := range []struct {
		method, host, path string
		code               int
		has, kind          string
	}{
		{"GET", "127.0.0.1:8080", "/", 302, "", ""},
		{"GET", "127.0.0.1:8080", "/report", 301, "", ""},
		{"GET", "127.0.0.1:8080", "/report/", 200, "the page", "text/html; charset=utf-8"},
		{"HEAD", "localhost", "/report/index.html", 200, "", "text/html; charset=utf-8"},
		{"GET", "127.0.0.1:8080", "/results.json", 200, "{}", "application/json"},
		{"GET", "127.0.0.1:8080", "/raw/0-0/evil.html", 200, "", "text/plain; charset=utf-8"},
		{"GET", "127.0.0.1:8080", "/raw/", 404, "", ""},
		{"GET", "127.0.0.1:8080", "/raw", 404, "", ""},
		{"GET", "127.0.0.1:8080", "/../secret", 404, "", ""},
		{"GET", "127.0.0.1:8080", "/report/../../secret", 404, "", ""},
		{"GET", "127.0.0.1:8080", "/link", 404, "", ""},
		{"GET", "127.0.0.1:8080", "//etc/passwd", 404, "", ""},
		{"GET", "bank.example", "/report/", 421, "", ""},
		{"POST", "127.0.0.1:8080", "/report/", 405, "", ""},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1/", nil)
		r.URL.Path, r.Host = c.path, c.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("%s %s%s: status %d, want %d", c.method, c.host, c.path, w.Code, c.code)
		}
		if !strings.Contains(w.Body.String(), c.has) || strings.Contains(w.Body.String(), "not yours") {
			t.Errorf("%s: body %q", c.path, w.Body)
		}
		if c.kind != "" && w.Header().Get("Content-Type") != c.kind {
			t.Errorf("%s: content type %q, want %q", c.path, w.Header().Get("Content-Type"), c.kind)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if c.code == 200 && (!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src")) {
			t.Errorf("%s: policy %q permits scripts", c.path, policy)
		}
	}
}
