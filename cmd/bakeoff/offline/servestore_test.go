package offline

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/judge/analysis"
	"bakeoff/judge/history"
	"bakeoff/lab/archive/bundle"
	"bakeoff/lab/archive/index"
)

// hostileRecord is a run whose texts are a stranger's.
func hostileRecord(digits string) index.Entry {
	const script = "<script>alert(1)</script>"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return index.Entry{Bundle: "sha256:" + strings.Repeat(digits, 32), Past: &history.Run{},
		Record: bundle.Record{Run: script, Lab: script, Began: at, Ended: at, Reason: script,
			Machine: map[string]string{"machine": script}, Labels: map[string]string{"commit": script},
			Comparisons: []bundle.Comparison{{Contender: script, Cell: script, Metric: script, Primary: true,
				Verdict: analysis.Worse}}}}
}

// The list of the newest runs follows the store, the pages are built again, and no text of
// a run is more than text.
func TestServeAStore(t *testing.T) {
	place := filepath.Join(t.TempDir(), "index.sqlite")
	open := func() *index.Index {
		x, err := index.Open(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x
	}
	writer := open()
	if err := writer.Add(t.Context(), hostileRecord("a1")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	h := &storeHandler{reader: reader{Streams: cli.NewStreams(nil, &out, &out, os.Getenv), version: "test"}, x: open(),
		site: filepath.Join(t.TempDir(), "site")}
	if err := h.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.files = os.DirFS(h.site)
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() { defer close(followed); h.followStore(ctx) }()
	defer func() { stop(); <-followed }()
	srv := httptest.NewServer(h)
	defer srv.Close()
	browser, leave := context.WithCancel(t.Context())
	defer leave()
	events := eventsOf(browser, t, srv.URL+"/events")
	waitFor := func(text string) {
		t.Helper()
		for !strings.Contains(get(t, h, "/live").Body.String(), text) {
			if event, ok := <-events; !ok {
				t.Fatalf("the events ended; the last was %q", event)
			}
		}
	}
	waitFor("1 run.")
	if err := writer.Add(t.Context(), hostileRecord("b2")); err != nil {
		t.Fatal(err)
	}
	waitFor("2 runs.")
	for _, name := range []string{"/", "/index.html", "/index/search.html", "/index/changes.html",
		"/index/2026-01/a1a1a1a1a1a1a1a1.html", "/index/2026-01/b2b2b2b2b2b2b2b2.html"} {
		w := get(t, h, name)
		if w.Code != 200 || strings.Contains(w.Body.String(), "<script>alert") {
			t.Errorf("%s: %d\n%s", name, w.Code, w.Body)
		}
	}
	if all := get(t, h, "/index/search.html").Body.String(); !strings.Contains(all, "&lt;script&gt;alert") {
		t.Errorf("the texts are missing:\n%s", all)
	}
	for _, name := range []string{"/.bakeoff-site.json", "/../index.sqlite", "/index"} {
		if w := get(t, h, name); w.Code != 404 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// eventsOf are the events that a server sends until ctx ends.
func eventsOf(ctx context.Context, t *testing.T, url string) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			if strings.HasPrefix(in.Text(), "data: ") {
				lines <- in.Text()
			}
		}
	}()
	return lines
}
