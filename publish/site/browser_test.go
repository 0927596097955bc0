package site

import (
	"os"
	"path/filepath"
	"testing"

	"bakeoff/publish/pagetest"
	"bakeoff/publish/site/theme"
)

// What a page of a site may cost its reader.
var budget = pagetest.Budget{Bytes: 60_000, Requests: 4, Shift: .02}

// samplePost is the page of the sample that has every element.
const samplePost = "2026/01/20/elements/index.html"

// The pages as a browser shows them, narrow and wide, light and dark.
func TestPagesInABrowser(t *testing.T) {
	b := pagetest.Open(t)
	all := filepath.Join(t.TempDir(), "all")
	preview, err := Preview(all, "", now, "test")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(all, theme.Default)
	for name, page := range map[string]string{"home": "index.html", "post": samplePost, "tags": "tags/index.html",
		"search": "search/index.html"} {
		t.Run(name, func(t *testing.T) { b.Check(t, filepath.Join(out, page), budget) })
	}
	const search = `const f = document.getElementById('search-text'); f.value = 'tide';
		f.dispatchEvent(new Event('input'));
		new Promise(done => setTimeout(() => done(
			String([...document.querySelectorAll('#search-list > li')].filter(r => !r.hidden).length)), 500))`
	if got := b.Evaluate(t, filepath.Join(out, "search/index.html"), search); got != "1" {
		t.Errorf("the search shows %s posts, want 1", got)
	}
	t.Run("themes", func(t *testing.T) { themesInABrowser(t, b, all) })
	t.Run("preview", func(t *testing.T) {
		pagetest.Valid(t, preview)
		// Its frames are pages of their own.
		b.Look(t, preview, pagetest.Budget{Bytes: 2_000_000, Requests: 200, Shift: .02},
			pagetest.View{Width: 1440, Scheme: "dark"})
	})
	t.Run("right to left", func(t *testing.T) { rightToLeftInABrowser(t, b) })
	t.Run("languages", func(t *testing.T) { languagesInABrowser(t, b) })
	t.Run("run", func(t *testing.T) { runInABrowser(t, b) })
}

// long reports whether proofs may take minutes.
func long() bool { return os.Getenv("BAKEOFF_TEST_LONG") != "" }

// themesInABrowser looks at the same pages with every theme: the home page in one view,
// and if there is time, a post and all views.
func themesInABrowser(t *testing.T, b *pagetest.Browser, all string) {
	for _, name := range theme.Names() {
		if name == theme.Default {
			continue
		}
		home := filepath.Join(all, name, "index.html")
		if !long() {
			t.Run(name, func(t *testing.T) { b.Look(t, home, budget, pagetest.View{Width: 360, Scheme: "dark"}) })
			continue
		}
		t.Run(name+"/home", func(t *testing.T) { b.Look(t, home, budget) })
		t.Run(name+"/post", func(t *testing.T) { b.Look(t, filepath.Join(all, name, samplePost), budget) })
	}
}

// arabic is a site that is written from right to left.
var arabic = map[string]string{
	"config.sh.local": "SITE_TITLE='دفتر الميناء'\nSITE_DESCRIPTION='ملاحظات من الرصيف'\nSITE_LANG=ar\n" +
		"SITE_URL=https://example.com\nAUTHOR_NAME='ليلى'\nPOSTS_PER_PAGE=2\n",
	"src/one.md": "---\ntitle: تسعة أنظمة ووصلة واحدة\ndate: 2025-01-01\ntags: شبكات, BSD\nslug: one\n---\n" +
		"نص من اليمين إلى اليسار مع [رابط](/about/) و`code` وكلمة English.\n\n## قائمة\n\n- أول\n  1. ثان\n\n" +
		"> اقتباس\n\n| نظام | عدد |\n|---|--:|\n| alpha | 64,000 |\n\n```go\nfunc main() {}\n```\n",
	"src/two.md":     "---\ntitle: ثان\ndate: 2025-01-02\ntags: BSD\n---\nنص قصير.\n",
	"src/three.md":   "---\ntitle: ثالث\ndate: 2025-01-03\ntags: BSD\n---\nنص قصير.\n",
	"pages/about.md": "---\ntitle: عن الموقع\ndate: 2025-01-01\nslug: about\n---\nمن يكتب هنا.\n",
}

func rightToLeftInABrowser(t *testing.T, b *pagetest.Browser) {
	dir := blog(t, arabic)
	names := []string{theme.Default}
	if long() {
		names = theme.Names()
	}
	for _, name := range names {
		out := filepath.Join(t.TempDir(), name)
		buildSite(t, dir, Option{Theme: name, Output: out})
		home, post := filepath.Join(out, "index.html"), filepath.Join(out, "2025/01/01/one/index.html")
		if name == theme.Default {
			pagetest.Valid(t, home, post)
		}
		t.Run(name+"/home", func(t *testing.T) { b.Look(t, home, budget, pagetest.View{Width: 360, Scheme: "light"}) })
		t.Run(name+"/post", func(t *testing.T) { b.Look(t, post, budget, pagetest.View{Width: 1440, Scheme: "dark"}) })
	}
}

func languagesInABrowser(t *testing.T, b *pagetest.Browser) {
	dir := blog(t, multilingual)
	buildSite(t, dir, Option{})
	post := filepath.Join(dir, "output/it/2025/01/01/harbor/index.html")
	pagetest.Valid(t, post, filepath.Join(dir, "output/it/index.html"))
	b.Look(t, post, budget, pagetest.View{Width: 360, Scheme: "dark"})
}

// runInABrowser looks at a post with figures and tables of a run.
func runInABrowser(t *testing.T, b *pagetest.Browser) {
	dir := blog(t, embedding)
	unpackRun(t, filepath.Join(dir, "runs"), quickRun)
	names := []string{theme.Default}
	if long() {
		names = theme.Names()
	}
	for _, name := range names {
		out := filepath.Join(t.TempDir(), name)
		buildSite(t, dir, Option{Theme: name, Output: out})
		post := filepath.Join(out, "2025/01/01/a/index.html")
		if name == theme.Default {
			pagetest.Valid(t, post)
		}
		t.Run(name, func(t *testing.T) {
			b.Look(t, post, pagetest.Budget{Bytes: 120_000, Requests: 4, Shift: .02},
				pagetest.View{Width: 360, Scheme: "dark"}, pagetest.View{Width: 1440, Scheme: "light"})
		})
	}
}
