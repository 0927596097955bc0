package site

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"bakeoff/cmd/bakeoff/cli"
)

func TestServeGivesOutTheSiteToThisMachineOnly(t *testing.T) {
	h := cli.Local(handler(fstest.MapFS{"index.html": {Data: []byte("home")}, "a/index.html": {Data: []byte("page a")},
		"404.html": {Data: []byte("none")}, "css/style.css": {Data: []byte("x{}")}}))
	for _, c := range []struct {
		method, host, path string
		code               int
		has                string
	}{
		{"GET", "127.0.0.1:8000", "/", 200, "home"},
		{"GET", "localhost", "/a/", 200, "page a"},
		{"GET", "localhost", "/a", 301, ""},
		{"HEAD", "localhost", "/a/index.html", 200, ""},
		{"GET", "localhost", "/css/style.css", 200, "x{}"},
		{"GET", "localhost", "/missing", 404, "none"},
		{"GET", "localhost", "/../x", 404, "none"},
		{"GET", "localhost", "//a/", 404, "none"},
		{"GET", "rebound.example", "/", 421, "127.0.0.1"},
		{"POST", "localhost", "/", 405, ""},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1/", nil)
		r.URL.Path, r.Host = c.path, c.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.has) {
			t.Errorf("%s %s%s: %d %q, want %d %q", c.method, c.host, c.path, w.Code, w.Body, c.code, c.has)
		}
		if c.code == 200 && w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", c.path)
		}
	}
}
