// Package pagetest checks pages in tests as a reader's browser shows them: Debian's
// Chromium, 360 and 1440 wide, light and dark.
//
// A page passes if
//
//   - axe-core finds no violation (https://github.com/dequelabs/axe-core),
//   - html-validate finds no mistake against the HTML standard (https://html-validate.org),
//   - the browser logs no error and requests nothing from another origin,
//   - the page has a Content-Security-Policy,
//   - nothing makes it scroll sideways,
//   - it shows the same text without JavaScript,
//   - and it stays within its Budget.
//
// `./setup.sh test` installs the browser and, with npm, the two checkers, whose versions
// and sums npm/package-lock.json pins. A test is skipped where one of them is missing.
package pagetest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/lists"
)

// Budget bounds what a page costs its reader in one view.
type Budget struct {
	Bytes    int64 // of the page and all that it loads, as the browser receives them
	Requests int   // that of the page counts too
	// Shift is the cumulative layout shift (https://web.dev/articles/cls). Up to 0.1 is good.
	Shift float64
}

// View is how a reader looks at a page.
type View struct {
	Width  int64  // of the window, in CSS pixels
	Scheme string // light or dark
}

func (v View) String() string { return fmt.Sprintf("%d-%s", v.Width, v.Scheme) }

var views = []View{{360, "light"}, {360, "dark"}, {1440, "light"}, {1440, "dark"}}

// Check fails the test t unless page passes every check in every view. page is the path
// of a file, or an http URL of this machine. The test logs what the page costs. With
// BAKEOFF_PAGES=FOLDER, Check also writes a screenshot of every view to that folder.
func (b *Browser) Check(t *testing.T, page string, budget Budget) {
	t.Helper()
	Valid(t, page)
	b.lookInViews(t, page, budget, views, true)
}

// Look does a part of Check in these views, in all if there are none: it neither checks
// the rules of HTML, nor compares the page with that without JavaScript. It is for pages
// whose markup is that of a page that Check saw, with another style sheet.
func (b *Browser) Look(t *testing.T, page string, budget Budget, in ...View) {
	t.Helper()
	if len(in) == 0 {
		in = views
	}
	b.lookInViews(t, page, budget, in, false)
}

// Valid fails the test t unless the pages follow the HTML standard. It checks all of them
// in one process.
func Valid(t *testing.T, pages ...string) {
	t.Helper()
	addresses := lists.Map(pages, func(page string) *url.URL { return addressOf(t, page) })
	found := mistakes(t, modules(t), addresses...)
	for _, m := range found[:min(len(found), 20)] {
		t.Error(m)
	}
}

// addressOf returns the URL of a page.
func addressOf(t *testing.T, page string) *url.URL {
	t.Helper()
	if strings.HasPrefix(page, "http://") {
		u, err := url.Parse(page)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	path, err := filepath.Abs(page)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return &url.URL{Scheme: "file", Path: path}
}

// lookInViews checks a page in views; plain compares it with the page without JavaScript.
func (b *Browser) lookInViews(t *testing.T, page string, budget Budget, in []View, plain bool) {
	t.Helper()
	address := addressOf(t, page)
	for _, v := range in {
		if !t.Run(v.String(), func(t *testing.T) { b.checkView(t, address, v, budget, plain) }) {
			return // the other views repeat most of it
		}
	}
}

// checkView checks a page in one view.
func (b *Browser) checkView(t *testing.T, address *url.URL, v View, budget Budget, plain bool) {
	t.Helper()
	seen := b.openPage(t, address, v, plain)
	m := seen.measured
	t.Logf("%s: %d bytes, %d requests, layout shift %.3f, %d elements", address.Path, seen.bytes, len(seen.requests),
		m.Shift, m.Elements)
	for _, problem := range seen.problems {
		t.Error(problem)
	}
	if seen.bytes == 0 || seen.bytes > budget.Bytes {
		t.Errorf("%d bytes; the budget is %d", seen.bytes, budget.Bytes)
	}
	if len(seen.requests) > budget.Requests {
		t.Errorf("%d requests; the budget is %d: %q", len(seen.requests), budget.Requests, seen.requests)
	}
	if m.Shift > budget.Shift {
		t.Errorf("the layout shifts by %.3f; the budget is %.3f", m.Shift, budget.Shift)
	}
	if m.Over > 0 {
		t.Errorf("the page is %d pixels too wide; beyond the edge: %s", m.Over, strings.Join(m.Wide, ", "))
	}
	if m.Policy == "" && seen.policy == "" {
		t.Error("no Content-Security-Policy")
	}
	if plain && seen.plain != m.Text {
		t.Errorf("without JavaScript the page shows other text:\n%s\nand with it:\n%s", excerpt(seen.plain, m.Text),
			excerpt(m.Text, seen.plain))
	}
	for _, x := range seen.violations {
		t.Error(x)
	}
}

// excerpt is where a differs from b.
func excerpt(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return strings.ToValidUTF8(a[max(0, i-40):min(len(a), i+120)], "")
}
