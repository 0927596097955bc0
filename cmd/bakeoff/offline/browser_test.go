package offline

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/lab/store"
	"bakeoff/publish/pagetest"
)

// served starts a server. Pages that wait for events do not keep it from ending.
func served(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// The page of a run that goes on passes the checks of every page, and shows the next
// block without being loaded again.
func TestALiveRunInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	dir := earlier(t)
	writer, err := store.Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	run, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	live := liveHandler(run, "")
	if page := get(t, live, "/live").Body.String(); !strings.Contains(page, "The run continues: 2 blocks done, 0 void") ||
		!strings.Contains(page, "Estimates so far") {
		t.Fatalf("the page is\n%s", page)
	}
	watched := make(chan bool, 100)
	server := served(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			select {
			case watched <- true:
			default:
			}
		}
		live.ServeHTTP(rw, r)
	}))
	t.Run("run", func(t *testing.T) {
		b.Check(t, server+"/live", pagetest.Budget{Bytes: 30_000, Requests: 3, Shift: .02})
	})
	t.Run("folder", func(t *testing.T) {
		folder := &folderHandler{dir: filepath.Dir(dir), runs: map[string]http.Handler{}}
		page := served(t, folder)
		pagetest.Valid(t, page)
		b.Look(t, page, pagetest.Budget{Bytes: 10_000, Requests: 1, Shift: .02}, pagetest.View{Width: 360, Scheme: "dark"})
	})
	for len(watched) > 0 {
		<-watched
	}
	go func() {
		select {
		case <-watched:
			_ = writer.Append(store.Line{Type: store.LineBlock, At: time.Now().UTC(), Block: 2, Status: store.Void,
				Reason: "the test"})
		case <-t.Context().Done():
		}
	}()
	const changed = `window.same = true; new Promise(done => {
		const look = () => {
			const text = document.getElementById('main').textContent;
			if (text.includes('1 void')) done(String(window.same) + ' ' + text);
		};
		new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
		look();
	})`
	if got := b.Evaluate(t, server+"/live", changed); !strings.HasPrefix(got, "true ") {
		t.Errorf("the page was loaded again, or is\n%s", got)
	}
}
