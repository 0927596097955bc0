package site

import (
	"path/filepath"
	"strings"
	"testing"
)

// multilingual is a site in two languages.
var multilingual = map[string]string{
	"config.sh.local": "SITE_TITLE=Harbor\nSITE_URL=https://example.com/blog\nSITE_LANG=en\nSITE_LANGS='en it'\n" +
		"AUTHOR_NAME=Ada\nDATE_FORMAT='%d %B %Y'\nTIMEZONE=UTC\n",
	"src/harbor.md":     "---\ntitle: The harbor\ndate: 2025-01-01\ntags: sea\nslug: harbor\n---\nBoats.\n",
	"src/harbor.it.md":  "---\ntitle: Il porto\ndate: 2025-01-01\ntags: mare\nslug: harbor\n---\nBarche.\n",
	"src/solo.md":       "---\ntitle: Solo in italiano\ndate: 2025-02-02\ntags: mare\nlang: it\n---\nTesto.\n",
	"src/alone.md":      "---\ntitle: Only in English\ndate: 2025-03-03\ntags: sea\n---\nText.\n",
	"pages/about.md":    "---\ntitle: About\ndate: 2025-01-01\nslug: about\n---\nWho.\n",
	"pages/about.it.md": "---\ntitle: Chi siamo\ndate: 2025-01-01\nslug: about\n---\nChi.\n",
}

// Each language has its own pages, lists, feeds and search; translations name each other.
func TestASiteInTwoLanguages(t *testing.T) {
	dir := blog(t, multilingual)
	if r := buildSite(t, dir, Option{}); r.Posts != 4 || r.Pages != 2 || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	got := tree(t, filepath.Join(dir, "output"))
	for name, want := range map[string][]string{
		"index.html": {`<html lang="en" dir="ltr">`, "The harbor", "Only in English", `href="it/" lang="it"`,
			`href="about/"`},
		"it/index.html": {`<html lang="it" dir="ltr">`, "Il porto", "Solo in italiano", "01 gennaio 2025",
			`href="../it/about/"`},
		"2025/01/01/harbor/index.html": {
			`<link rel="alternate" hreflang="it" href="https://example.com/blog/it/2025/01/01/harbor/">`,
			`<link rel="alternate" hreflang="en" href="https://example.com/blog/2025/01/01/harbor/">`,
			`<a href="../../../../it/2025/01/01/harbor/" lang="it" hreflang="it">`},
		"it/2025/01/01/harbor/index.html": {
			`<link rel="alternate" hreflang="en" href="https://example.com/blog/2025/01/01/harbor/">`,
			`<link rel="canonical" href="https://example.com/blog/it/2025/01/01/harbor/">`,
			`<meta property="og:locale" content="it">`, `"inLanguage":"it"`,
			`<a href="../../../../../2025/01/01/harbor/" lang="en" hreflang="en">`},
		// A post without a translation leads to the other language's home page.
		"2025/03/03/only-in-english/index.html": {`<a href="../../../../it/" lang="it" hreflang="it">`},
		"it/rss.xml": {"<language>it</language>", "Il porto",
			"https://example.com/blog/it/rss.xml"},
		"it/search/index.json":    {"barche"},
		"it/tags/mare/index.html": {"Solo in italiano"},
		"sitemap.xml": {`<loc>https://example.com/blog/it/2025/01/01/harbor/</loc>`,
			`<xhtml:link rel="alternate" hreflang="it" href="https://example.com/blog/it/about/"/>`},
	} {
		for _, w := range want {
			if !strings.Contains(got[name], w) {
				t.Errorf("%s lacks %s:\n%s", name, w, got[name])
			}
		}
	}
	for name, foreign := range map[string]string{"index.html": "Il porto", "it/index.html": "The harbor",
		"rss.xml": "Il porto", "it/atom.xml": "The harbor", "search/index.json": "barche", "tags/index.html": "mare"} {
		if strings.Contains(got[name], foreign) {
			t.Errorf("%s shows %q of the other language", name, foreign)
		}
	}
	if strings.Contains(got["2025/03/03/only-in-english/index.html"], `rel="alternate" hreflang`) {
		t.Error("a post without a translation names one")
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if broken, _, err := s.Check(); err != nil || len(broken) > 0 {
		t.Errorf("broken links: %+v, %v", broken, err)
	}
	// A change in one language does not touch the other.
	write(t, dir, "src/solo.md", multilingual["src/solo.md"]+"\nNuovo.\n")
	buildSite(t, dir, Option{})
	for name, text := range tree(t, filepath.Join(dir, "output")) {
		if got[name] != text && !strings.HasPrefix(name, "it/") {
			t.Errorf("%s changed", name)
		}
	}
}

// A post in a language that the site does not have is published, with a warning; so are
// languages without words.
func TestOtherLanguages(t *testing.T) {
	dir := blog(t, multilingual)
	write(t, dir, "src/nl.nl.md", "---\ntitle: De haven\ndate: 2025-01-05\n---\nBoten.\n")
	r := buildSite(t, dir, Option{})
	if r.Posts != 5 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `no language "nl"`) {
		t.Errorf("%+v", r)
	}
	dir = blog(t, map[string]string{"config.sh.local": "SITE_LANGS='en sv'\n",
		"src/a.sv.md": "---\ntitle: Hamnen\ndate: 2025-01-05\n---\nBåtar.\n"})
	r = buildSite(t, dir, Option{})
	if r.Posts != 1 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], `"sv"`) {
		t.Errorf("%+v", r)
	}
	if page := tree(t, filepath.Join(dir, "output"))["sv/index.html"]; !strings.Contains(page, `<html lang="sv"`) {
		t.Errorf("the page is\n%s", page)
	}
}
