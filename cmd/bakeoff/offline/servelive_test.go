package offline

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/lab/store"
	"bakeoff/publish/report"
	"bakeoff/publish/runsite"
)

const hostileRun = `20260102T030405Z-<script>alert(1)<`

// begun is a run that goes on; the lock of its journal is held.
func begun(t *testing.T, folder, name string) *store.Run {
	t.Helper()
	run, err := store.Create(filepath.Join(folder, name), time.Unix(1, 0), []byte("lab"), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	return run
}

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
	r.URL.Path = path
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A run is served while it goes on, without JavaScript too, and after it was killed.
func TestServeARunThatGoesOn(t *testing.T) {
	folder := t.TempDir()
	writer := begun(t, folder, hostileRun)
	run, err := store.Open(filepath.Join(folder, hostileRun))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	h := liveHandler(run, "")
	if w := get(t, h, "/"); w.Code != http.StatusFound || w.Header().Get("Location") != "live" {
		t.Errorf("/: %d to %q", w.Code, w.Header().Get("Location"))
	}
	w := get(t, h, "/live")
	page, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"The run continues: 0 blocks done", `http-equiv="refresh"`, "EventSource"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(policy, "unsafe-inline") ||
		!strings.Contains(policy, "connect-src 'self'") {
		t.Errorf("policy %q,\n%s", policy, page)
	}
	writer.Close() // as kill -9 does: the lock goes, the journal has no end
	wait(t, func() bool { return strings.Contains(get(t, h, "/live").Body.String(), "The run was interrupted") })
	page = get(t, h, "/live").Body.String()
	if strings.Contains(page, "refresh") || strings.Contains(page, "EventSource") {
		t.Error("the page of a run that does not go on refreshes itself")
	}
	// Resumed, it goes on for the same server.
	again, err := store.Resume(filepath.Join(folder, hostileRun))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	wait(t, func() bool { return strings.Contains(get(t, h, "/live").Body.String(), "The run continues") })
}

func wait(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen within a minute")
		}
	}
}

// The report of one of several runs links to their list; that of a run that is served alone
// has no such link.
func TestServeLinksToTheList(t *testing.T) {
	dir := earlier(t)
	for _, index := range []string{"", runsite.IndexOfReport} { // before and after an index was made
		if err := report.Write(dir, report.Option{Index: index}); err != nil {
			t.Fatal(err)
		}
		run, err := store.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		const link = `<a href="../../index.html">All runs</a>`
		if got := get(t, liveHandler(run, ""), "/report/").Body.String(); strings.Contains(got, "All runs") ||
			!strings.Contains(got, "Verdicts") {
			t.Errorf("a run alone links to a list, or has no page: %d bytes", len(got))
		}
		folder := &folderHandler{dir: filepath.Dir(dir), runs: map[string]http.Handler{}}
		if got := get(t, folder, "/"+filepath.Base(dir)+"/report/").Body.String(); strings.Count(got, link) != 1 {
			t.Errorf("%d links to the list", strings.Count(got, link))
		}
		if got := get(t, folder, "/index.html").Body.String(); !strings.Contains(got, "the newest first") {
			t.Errorf("the link leads to %q", got)
		}
	}
}

// Many browsers get an event for each step and one at the end; those beyond the bound are
// refused, and those that go away make room.
func TestServeEvents(t *testing.T) {
	folder := t.TempDir()
	writer := begun(t, folder, "run")
	run, err := store.Open(filepath.Join(folder, "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	srv := httptest.NewServer(liveHandler(run, ""))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(ctx context.Context) *http.Response {
		r, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	first := watch(t.Context())
	lines := bufio.NewScanner(first.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", want, lines.Err())
	}
	next("data: changed")
	for range maxWatchers - 1 { // none of them reads
		if r := watch(ctx); r.StatusCode != http.StatusOK {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	if r := watch(ctx); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: status %d", r.StatusCode)
	}
	if err := writer.Append(store.Line{Type: store.LineResume, At: time.Unix(2, 0)}); err != nil {
		t.Fatal(err)
	}
	next("data: changed")
	cancel()
	wait(t, func() bool {
		some, stop := context.WithCancel(t.Context())
		defer stop()
		return watch(some).StatusCode == http.StatusOK
	})
	writer.Close()
	next("event: end")
}

// The list says of a run that ended what it measured and how it ended.
func TestTheListDescribesRuns(t *testing.T) {
	dir := earlier(t)
	h := cli.Local(&folderHandler{dir: filepath.Dir(dir), runs: map[string]http.Handler{}})
	for range 2 { // the second time from memory
		page := get(t, h, "/").Body.String()
		wants := []string{"1 run, the newest first", filepath.Base(dir), "12 inconclusive", "emulated in software"}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("the list lacks %q:\n%s", want, page)
			}
		}
	}
	if err := os.Remove(filepath.Join(dir, "results.json")); err != nil {
		t.Fatal(err)
	}
	if page := get(t, h, "/").Body.String(); !strings.Contains(page, "no results yet") {
		t.Errorf("a run without results:\n%s", page)
	}
}

func TestServeAFolder(t *testing.T) {
	folder := t.TempDir()
	begun(t, folder, "20260101T000000Z-a")
	begun(t, folder, hostileRun).Close()
	if err := os.WriteFile(filepath.Join(folder, "secret"), []byte("not yours"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := cli.Local(&folderHandler{dir: folder, runs: map[string]http.Handler{}})
	page := get(t, h, "/").Body.String()
	if !strings.Contains(page, `href="/20260101T000000Z-a/"`) || !strings.Contains(page, "running") ||
		strings.Contains(page, "<script>alert") || strings.Index(page, "20260102") > strings.Index(page, "20260101") {
		t.Errorf("the list is\n%s", page)
	}
	for path, code := range map[string]int{"/20260101T000000Z-a": 301, "/20260101T000000Z-a/live": 200,
		"/20260101T000000Z-a/plan.json": 200, "/" + hostileRun + "/live": 200, "/secret/": 404, "/../secret": 404,
		"/..//etc/passwd": 404, "/nothing/": 404, "/20260101T000000Z-a/../secret": 404} {
		if w := get(t, h, path); w.Code != code || strings.Contains(w.Body.String(), "not yours") {
			t.Errorf("%s: status %d, want %d", path, w.Code, code)
		}
	}
	r := httptest.NewRequest("GET", "http://bank.example/20260101T000000Z-a/live", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("another host: status %d", w.Code)
	}
}
