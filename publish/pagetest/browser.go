package pagetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds one view of a page. Machines that run other tests are slow.
const patience = 3 * time.Minute

// Browser is a running Chromium.
type Browser struct {
	ctx context.Context
	axe string // its source
}

// Open starts a browser for a test and its subtests. It skips the test if the browser or
// a checker is missing, and names the package that provides it.
func Open(t *testing.T) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	program := Program(t)
	axe, err := os.ReadFile(filepath.Join(modules(t), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{axe: string(axe)}
	// The profile folder is not t.TempDir: a browser that ends late may still write to it.
	profile, err := os.MkdirTemp("", "pagetest")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // root cannot use it
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		cancel()
		end()
		os.RemoveAll(profile)
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	b.ctx = ctx
	return b
}

// Program is Chromium; without it, the test is skipped.
func Program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs Chromium: apt-get install chromium")
	return ""
}

// seen is what a browser saw of a page.
type seen struct {
	mutex      sync.Mutex // the browser reports from another goroutine
	bytes      int64
	requests   []string
	policy     string // of the response
	problems   []string
	measured   measured
	plain      string // the text without JavaScript
	violations []string
}

// measured is the answer of measureJS.
type measured struct {
	Over     int      `json:"over"`
	Wide     []string `json:"wide"`
	Shift    float64  `json:"shift"`
	Elements int      `json:"elements"`
	Policy   string   `json:"policy"`
	Text     string   `json:"text"`
}

// openPage shows a page in one view; plain: first without JavaScript, then with it.
func (b *Browser) openPage(t *testing.T, address *url.URL, v View, plain bool) *seen {
	t.Helper()
	tab, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	ctx, expire := context.WithTimeout(tab, patience)
	defer expire()
	// The first call starts the tab, which lives as long as its context.
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, b.prepare(v)); err != nil {
		t.Fatal(err)
	}
	s := &seen{}
	var err error
	if plain {
		if err = chromedp.Do(ctx, scripts(false), chromedp.Navigate(address.String())); err != nil {
			t.Fatalf("open %s without JavaScript: %v", address, err)
		}
		if s.plain, err = chromedp.Run(ctx, chromedp.Evaluate[string](textJS)); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Listen(ctx, func(event any) { s.noteEvent(address, event) }); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, scripts(true), chromedp.Navigate(address.String())); err != nil {
		t.Fatalf("open %s: %v", address, err)
	}
	s.measured, err = chromedp.Run(ctx, chromedp.Evaluate[measured](measureJS, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if folder := os.Getenv("BAKEOFF_PAGES"); folder != "" {
		writeScreenshot(ctx, t, folder, v)
	}
	s.violations = b.violations(ctx, t)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s
}

// prepare makes a tab report what it does, and sets the view.
func (b *Browser) prepare(v View) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
				return err
			}
			if _, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{}); err != nil {
				return err
			}
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.Scheme}}})
			return err
		}),
		chromedp.EmulateViewport(v.Width, 900),
	)
}

// scripts allows or forbids the page's scripts.
func scripts(allowed bool) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: !allowed})
		return err
	})
}

// noteEvent records an event.
func (s *seen) noteEvent(page *url.URL, event any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	problem := func(format string, args ...any) { s.problems = append(s.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if strings.HasPrefix(e.Request.URL, "data:") {
			return // a part of the page, or of the browser's own controls
		}
		s.requests = append(s.requests, e.Request.URL)
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != page.Scheme || u.Host != page.Host {
			problem("external request: %s", e.Request.URL)
		}
	case *network.EventDataReceived:
		s.bytes += e.DataLength
	case *network.EventResponseReceived:
		for name, value := range e.Response.Headers {
			if strings.EqualFold(name, "Content-Security-Policy") {
				s.policy = fmt.Sprint(value)
			}
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			problem("a request failed: %s", e.ErrorText)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			problem("logged: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			args, _ := json.Marshal(e.Args)
			problem("console.error: %s", args)
		}
	case *runtime.EventExceptionThrown:
		problem("exception: %s", e.ExceptionDetails.Text)
	}
}

// writeScreenshot writes a screenshot of the whole page.
func writeScreenshot(ctx context.Context, t *testing.T, folder string, v View) {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Errorf("screenshot: %v", err)
		return
	}
	name := strings.NewReplacer("/", "_", " ", "_").Replace(t.Name()) + ".png"
	if err := os.WriteFile(filepath.Join(folder, name), png, 0o666); err != nil {
		t.Error(err)
	}
}

// Evaluate opens a page with JavaScript and returns what an expression in it gives, for
// tests of what a page's own script or style does. in is the view; without one, it is that of
// the browser.
func (b *Browser) Evaluate(t *testing.T, page, expression string, in ...View) string {
	t.Helper()
	tab, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	ctx, expire := context.WithTimeout(tab, patience)
	defer expire()
	for _, v := range in {
		if err := chromedp.Do(ctx, b.prepare(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(addressOf(t, page).String())); err != nil {
		t.Fatal(err)
	}
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
