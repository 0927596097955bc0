package site

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/publish/site"
)

// serve --edit prints the address of the editor with its key, and serves the site beside it.
func TestServeEdit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blog")
	if err := site.Init(dir, "Harbor", time.Now()); err != nil {
		t.Fatal(err)
	}
	var out, errs said
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := Command(cli.NewStreams(nil, &out, &errs, func(string) string { return "" }), "test")
	c.SetArgs([]string{"serve", "--edit", dir})
	c.SilenceErrors, c.SilenceUsage = true, true
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	url := regexp.MustCompile(`(http://127\.0\.0\.1:[0-9]+/)-edit/\?key=[A-Z0-9]+`)
	soon(t, "serve prints no address", func() bool { return url.MatchString(out.String()) })
	found := url.FindStringSubmatch(out.String())
	if code, text := page(t, found[1]); code != 200 || !strings.Contains(text, "Hello") {
		t.Errorf("the site: %d\n%s", code, text)
	}
	if code, text := page(t, found[1]+"-edit/"); code != 403 || strings.Contains(text, "token") {
		t.Errorf("the editor without its key: %d\n%s", code, text)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Jar: jar, Timeout: time.Minute}).Get(found[0])
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	policy := answer.Header.Get("Content-Security-Policy")
	if answer.StatusCode != 200 || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'") {
		t.Errorf("the editor: %d, %s", answer.StatusCode, policy)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("serve did not end")
	}
}
