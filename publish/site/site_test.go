package site

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestABlogOfBSSGBuildsUnchanged(t *testing.T) {
	dir := blog(t, sample)
	r := buildSite(t, dir, Option{})
	if r.Posts != 3 || r.Pages != 2 || r.Scheduled != 1 || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	got := tree(t, filepath.Join(dir, "output"))
	for _, name := range []string{"index.html", "page/2/index.html", "2025/04/01/first-post/index.html",
		"2025/05/06/second/index.html", "about/index.html", "imprint/index.html", "pages.html", "tags/index.html",
		"tags/bsd/index.html", "tags/bsd/rss.xml", "tags/c-plus-plus/index.html", "authors/index.html",
		"authors/grace/index.html", "authors/grace/rss.xml", "archives/index.html", "archives/2025/index.html",
		"archives/2025/05/index.html", "rss.xml", "atom.xml", "feed.json", "sitemap.xml", "robots.txt", "404.html",
		"search/index.html", "search/index.json", "js/search.js", "css/style.css", "favicon.ico"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing; there are %v", name, slices.Sorted(maps.Keys(got)))
		}
	}
	for name, text := range got {
		if strings.Contains(text, "Not yet.") || strings.Contains(text, "Later") || strings.Contains(text, "Idea") {
			t.Errorf("%s shows a post that is not published", name)
		}
	}
	post := got["2025/04/01/first-post/index.html"]
	for _, want := range []string{"<title>First: a post with a colon – Harbor &amp; Tide</title>",
		`<link rel="canonical" href="https://example.com/blog/2025/04/01/first-post/">`,
		`<meta property="og:type" content="article">`, `<meta name="twitter:card" content="summary_large_image">`,
		`"@type":"BlogPosting"`, `<h2 id="a-heading">A heading</h2>`, `<a href="../../../../about/">page</a>`,
		`<td class="align-right">2</td>`, `<span class="kd">func</span>`, "April 01, 2025", "by Grace", "1 min read",
		`<figcaption>A harbor</figcaption>`, "Related posts", "Second", "Updated"} {
		if !strings.Contains(post, want) {
			t.Errorf("the post lacks %s", want)
		}
	}
	if home := got["index.html"]; !strings.Contains(home, "Third") || strings.Contains(home, "The first one") {
		t.Error("the home page does not have the two newest posts")
	}
}

func TestAFuturePostIsPublishedWhenItsTimeHasCome(t *testing.T) {
	dir := blog(t, sample)
	buildSite(t, dir, Option{})
	r := buildSite(t, dir, Option{Now: now.AddDate(1, 0, 0)})
	if r.Posts != 4 || r.Scheduled != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(dir, "output/2027/01/01/later/index.html")); err != nil {
		t.Error(err)
	}
	// Its page goes when the post is taken back.
	if err := os.Remove(filepath.Join(dir, "src/later.md")); err != nil {
		t.Fatal(err)
	}
	buildSite(t, dir, Option{Now: now.AddDate(1, 0, 0)})
	if _, err := os.Stat(filepath.Join(dir, "output/2027")); !os.IsNotExist(err) {
		t.Errorf("the page of a deleted post: %v", err)
	}
}

// An edit must not leave a file as it was that a full build would make otherwise.
func TestIncrementalBuildsEqualFullOnes(t *testing.T) {
	dir := blog(t, sample)
	edits := []struct {
		what string
		do   func()
	}{
		{"first build", func() {}},
		{"text", func() {
			write(t, dir, "src/2025-05-06-second.md", "---\ntitle: Second\ndate: 2025-05-06\ntags: bsd\n---\nNew.\n")
		}},
		{"title", func() {
			write(t, dir, "src/2025-05-06-second.md", "---\ntitle: Two\ndate: 2025-05-06\ntags: bsd\n---\nNew.\n")
		}},
		{"tags", func() {
			write(t, dir, "src/2025-05-06-second.md", "---\ntitle: Two\ndate: 2025-05-06\ntags: web, new\n---\nNew.\n")
		}},
		{"date", func() {
			write(t, dir, "src/2025-05-06-second.md", "---\ntitle: Two\ndate: 2024-05-06\ntags: web\n---\nNew.\n")
		}},
		{"new post", func() {
			write(t, dir, "src/n.md", "---\ntitle: N\ndate: 2025-06-01\ntags: web\n---\n![i](/i.png)\n")
		}},
		{"image", func() {
			write(t, dir, "static/i.png", pngOf(t, 1000, 400))
		}},
		{"other image", func() {
			write(t, dir, "static/i.png", pngOf(t, 700, 400))
		}},
		{"page", func() {
			write(t, dir, "pages/more.md", "---\ntitle: More\ndate: 2025-01-01\n---\nx\n")
		}},
		{"author", func() {
			write(t, dir, "src/n.md", "---\ntitle: N\ndate: 2025-06-01\nauthor_name: Linus\n---\nx\n")
		}},
		{"settings", func() {
			write(t, dir, "config.sh.local", sample["config.sh.local"]+"POSTS_PER_PAGE=1\nRSS_INCLUDE_FULL_CONTENT=true\n")
		}},
		{"theme", func() {
			write(t, dir, "config.sh.local", sample["config.sh.local"]+"THEME=default\nINDEX_SHOW_FULL_CONTENT=true\n")
		}},
		{"gone", func() {
			os.Remove(filepath.Join(dir, "src/n.md"))
		}},
		{"damaged output", func() {
			write(t, dir, "output/index.html", "damaged")
		}},
		{"home page", func() {
			write(t, dir, "pages/index.md", "---\ntitle: Welcome\ndate: 2025-01-01\nslug: index\n---\nHello.\n")
		}},
	}
	for _, e := range edits {
		e.do()
		buildSite(t, dir, Option{})
		got := tree(t, filepath.Join(dir, "output"))
		full := filepath.Join(t.TempDir(), "full")
		if err := os.CopyFS(full, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(filepath.Join(full, "output"))
		os.Remove(filepath.Join(full, stateFile))
		buildSite(t, full, Option{})
		want := tree(t, filepath.Join(full, "output"))
		for name, text := range want {
			if got[name] != text {
				t.Errorf("after %s: %s differs from a full build", e.what, name)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("after %s: %s is left over", e.what, name)
			}
		}
		if r := buildSite(t, dir, Option{}); r.Files.Written != 0 || r.Files.Removed != 0 {
			t.Errorf("after %s: a second build writes %d files and removes %d", e.what, r.Files.Written, r.Files.Removed)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, file, text, want string
	}{
		{"date", "src/a.md", "---\ntitle: A\ndate: yesterday\n---\n", "src/a.md:3"},
		{"front matter", "src/a.md", "---\ntitle: A\n", "has no closing line"},
		{"same address", "src/a.md", "---\ntitle: Second\ndate: 2025-05-06\n---\n", "same address"},
		{"address of an index", "pages/t.md", "---\ntitle: T\nslug: tags\n---\n", "two pages have the address /tags/"},
		{"a command", "config.sh.local", "SITE_TITLE=a\nrm -rf /\n", "config.sh.local:2"},
		{"a substitution", "config.sh.local", "SITE_TITLE=\"$(id)\"\n", "expansion"},
		{"outside", "config.sh.local", "OUTPUT_DIR=../elsewhere\n", "inside of the site"},
		{"overlap", "config.sh.local", "OUTPUT_DIR=src/out\n", "overlap"},
	} {
		dir := blog(t, sample)
		write(t, dir, c.file, c.text)
		_, err := tryBuild(dir, Option{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestEmptyFoldersAndNoSettings(t *testing.T) {
	dir := blog(t, map[string]string{"src/.keep": "", "pages/.keep": ""})
	r := buildSite(t, dir, Option{})
	if r.Posts != 0 || !strings.Contains(tree(t, filepath.Join(dir, "output"))["index.html"], "My Journal") {
		t.Errorf("%+v", r)
	}
}

// An HTML file is a post like any other: in lists, feeds and the search.
func TestHTMLPosts(t *testing.T) {
	dir := blog(t, map[string]string{
		"config.sh.local": "SITE_URL=https://example.com\nTIMEZONE=UTC\nRSS_INCLUDE_FULL_CONTENT=true\n",
		"src/old.html": "---\ntitle: Old post\ndate: 2025-01-02\ntags: bsd\n---\n<h1>Head</h1>\n<p>Harbor <b>words</b> " +
			"<a href=\"/about/\">a</a></p><script>alert(1)</script>\n",
		"pages/about.htm":  "<html><head><title>About us</title></head><body><p>Who.</p></body></html>",
		"drafts/idea.html": "---\ntitle: Idea\ndate: 2025-01-02\n---\n<p>Idea</p>",
		"src/later.html":   "---\ntitle: Later\ndate: 2027-01-02\n---\n<p>Later</p>",
	})
	r := buildSite(t, dir, Option{})
	if r.Posts != 1 || r.Pages != 1 || r.Scheduled != 1 || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "src/old.html: bakeoff leaves out <script>") {
		t.Errorf("%+v", r)
	}
	files := tree(t, filepath.Join(dir, "output"))
	for name, want := range map[string]string{
		"2025/01/02/old-post/index.html": `<h2 id="head">Head</h2>`, "index.html": "Harbor words",
		"tags/bsd/index.html": "Old post",
		"rss.xml":             "Harbor &lt;b&gt;words", "search/index.json": "harbor", "about-us/index.html": "<p>Who.</p>"} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s has no %q:\n%s", name, want, files[name])
		}
	}
	again := buildSite(t, dir, Option{})
	if len(again.Warnings) != 1 || again.Files.Written != 0 {
		t.Errorf("the second build: %+v", again)
	}
}
