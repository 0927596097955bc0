package site

import (
	"encoding/xml"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmcdole/gofeed"
)

func TestFeedsAreReadBack(t *testing.T) {
	files := map[string]string{}
	for name, text := range sample {
		files[name] = text
	}
	files["config.sh.local"] += "RSS_INCLUDE_FULL_CONTENT=true\n"
	files["src/evil.md"] = "---\ntitle: ]]> & <b>" + evil + "\ndate: 2025-06-01\ntags: <x>, bsd\n" +
		"---\n]]> text\x01\x0b [a](/about/)\n"
	dir := blog(t, files)
	buildSite(t, dir, Option{})
	got := tree(t, filepath.Join(dir, "output"))
	for _, name := range []string{"rss.xml", "atom.xml", "feed.json", "tags/bsd/rss.xml", "authors/grace/rss.xml"} {
		f, err := gofeed.NewParser().ParseString(got[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// What RSS 2.0 and RFC 4287 require of a feed and of its items.
		if f.Title == "" || f.Link == "" || !strings.HasPrefix(f.Link, "https://example.com/blog/") || len(f.Items) == 0 {
			t.Errorf("%s: title %q, link %q, %d items", name, f.Title, f.Link, len(f.Items))
		}
		seen := map[string]bool{}
		var last time.Time
		for i, item := range f.Items {
			if item.Title == "" || item.GUID == "" || seen[item.GUID] || item.PublishedParsed == nil ||
				!strings.HasPrefix(item.Link, "https://example.com/blog/20") || item.Content == "" {
				t.Errorf("%s: item %+v", name, item)
				continue
			}
			seen[item.GUID] = true
			if i > 0 && item.PublishedParsed.After(last) {
				t.Errorf("%s is not sorted", name)
			}
			last = *item.PublishedParsed
			if strings.Contains(item.Content, `href="/`) || strings.Contains(item.Content, `href="../`) {
				t.Errorf("%s: a relative link in %s", name, item.Content)
			}
		}
		if name == "rss.xml" && f.Items[0].Title != "]]> & <b>"+evil {
			t.Errorf("the title is %q", f.Items[0].Title)
		}
	}
	var urls struct {
		URL []struct {
			Loc     string `xml:"loc"`
			LastMod string `xml:"lastmod"`
		} `xml:"url"`
	}
	if err := xml.Unmarshal([]byte(got["sitemap.xml"]), &urls); err != nil {
		t.Fatal(err)
	}
	if len(urls.URL) < 10 {
		t.Errorf("the site map has %d pages", len(urls.URL))
	}
	for _, u := range urls.URL {
		file := strings.TrimPrefix(u.Loc, "https://example.com/blog/")
		if _, ok := got[file+"index.html"]; !ok {
			t.Errorf("the site map names %s, which does not exist", u.Loc)
		}
		if u.LastMod != "" {
			if _, err := time.Parse(time.RFC3339, u.LastMod); err != nil {
				t.Error(err)
			}
		}
	}
}
