package site

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

// said is what a command wrote so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

// page returns the status and the text of a page.
func page(t *testing.T, address string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serve builds again when a file changes: new, edited and deleted posts are shown. A
// mistake is named and ends nothing.
func TestServeFollowsChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blog")
	if err := site.Init(dir, "Harbor", time.Now()); err != nil {
		t.Fatal(err)
	}
	var out, errs said
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := Command(cli.NewStreams(nil, &out, &errs, func(string) string { return "" }), "test")
	c.SetArgs([]string{"serve", dir})
	c.SilenceErrors, c.SilenceUsage = true, true
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	url := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/`)
	soon(t, "serve prints no address", func() bool { return url.MatchString(out.String()) })
	home := url.FindString(out.String())
	if code, text := page(t, home); code != 200 || !strings.Contains(text, "Hello") {
		t.Errorf("%d\n%s", code, text)
	}
	post, address := filepath.Join(dir, "src", "tide.md"), home+"2025/01/02/tide/"
	put(t, post, "---\ntitle: Tide\ndate: 2025-01-02\n---\nIt rises.\n")
	soon(t, "the new post has no page", func() bool {
		code, text := page(t, address)
		return code == 200 && strings.Contains(text, "It rises.")
	})
	put(t, post, "---\ntitle: Tide\ndate: 2025-01-02\n---\nIt falls.\n")
	soon(t, "the page of the post is the old one", func() bool {
		_, text := page(t, address)
		return strings.Contains(text, "It falls.")
	})
	put(t, post, "---\ntitle: Tide\ndate: yesterday\n---\nIt rests.\n")
	soon(t, "the mistake is not named", func() bool { return strings.Contains(errs.String(), "src/tide.md:3") })
	if code, text := page(t, address); code != 200 || !strings.Contains(text, "It falls.") {
		t.Errorf("after a mistake: %d\n%s", code, text)
	}
	if err := os.Remove(post); err != nil {
		t.Fatal(err)
	}
	soon(t, "the deleted post has a page", func() bool { code, _ := page(t, address); return code == 404 })
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("serve did not end")
	}
	if n := strings.Count(errs.String(), "src/tide.md:3"); n != 1 {
		t.Errorf("the mistake is named %d times:\n%s", n, errs.String())
	}
}
