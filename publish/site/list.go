package site

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/lists"
	"bakeoff/publish/site/page"
	"bakeoff/publish/site/search"
)

// list is posts on one or several pages.
type list struct {
	kind, path, title, feed string
	entries                 []*entry
}

// planLists plans the home page and the pages of tags, authors and archives.
func (b *build) planLists(s *section) {
	home := list{kind: "home", path: s.prefix, title: b.cfg.Title, entries: s.posts}
	if s.home != nil {
		home.kind, home.path, home.title = "list", s.prefix+"posts/", s.locale.Say("all_posts")
	}
	b.planList(s, home)
	b.planGroups(s, s.tags, "tags", "posts_tagged", b.cfg.TagFeeds)
	b.planGroups(s, s.authors, "authors", "posts_by", b.cfg.AuthorFeeds)
	b.planArchives(s)
	if len(s.secondary) > 0 {
		var g page.Group
		for _, e := range s.secondary {
			g.Entries = append(g.Entries, page.Link{Label: e.Title, Path: e.path})
		}
		b.planIndex(s, s.prefix+"pages.html", s.locale.Say("pages"), []page.Group{g})
	}
}

// planGroups plans a list for each group of posts, and an index of the groups. name is the
// folder and the word for the groups, title the word for one.
func (b *build) planGroups(s *section, groups []*group, name, title string, feeds bool) {
	for _, g := range groups {
		l := list{kind: "list", path: g.path, title: s.locale.Say(title, g.label), entries: g.entries}
		if feeds {
			l.feed = g.path + b.cfg.FeedFile
		}
		b.planList(s, l)
	}
	if len(groups) > 0 {
		all := lists.Map(groups, entryGroup)
		b.planIndex(s, s.prefix+name+"/", s.locale.Say(name), []page.Group{{Entries: groupLinks(all)}})
	}
}

func entryGroup(g *group) page.Group {
	return page.Group{Label: g.label, Path: g.path, Count: len(g.entries)}
}

func groupLinks(groups []page.Group) []page.Link {
	var out []page.Link
	for _, g := range groups {
		out = append(out, page.Link{Label: g.Label, Path: g.Path, Count: g.Count})
	}
	return out
}

// planArchives plans the index of years, and a page for each year and month.
func (b *build) planArchives(s *section) {
	var years []page.Group
	for _, y := range s.years {
		g := entryGroup(y)
		var months []page.Group
		for _, m := range y.months {
			at := entryGroup(m)
			if b.cfg.ArchivesList {
				g.Entries = append(g.Entries, b.linksOf(s, m.entries)...)
			} else {
				g.Entries = append(g.Entries, groupLinks([]page.Group{at})...)
			}
			at.Entries = b.linksOf(s, m.entries)
			months = append(months, at)
			b.planIndex(s, m.path, s.locale.Say("posts_in", m.label), []page.Group{{Entries: at.Entries}})
		}
		years = append(years, g)
		b.planIndex(s, y.path, s.locale.Say("posts_in", y.label), months)
	}
	if len(years) > 0 {
		b.planIndex(s, s.prefix+"archives/", s.locale.Say("archives"), years)
	}
}

func (b *build) linksOf(s *section, entries []*entry) []page.Link {
	out := make([]page.Link, len(entries))
	for i, e := range entries {
		out[i] = b.linkTo(s, e)
	}
	return out
}

// planIndex plans a page of links.
func (b *build) planIndex(s *section, path, title string, groups []page.Group) {
	parts := []string{"index", s.key, path, title}
	for _, g := range groups {
		parts = append(parts, g.Label, g.Path, fmt.Sprint(g.Count))
		for _, l := range g.Entries {
			parts = append(parts, l.Label, l.Path, l.Date, fmt.Sprint(l.Count))
		}
	}
	b.addFile(fileOf(path), digestOf(parts...), func(w *bytes.Buffer) error {
		v := b.newView(s, "index", path)
		v.Title, v.Heading, v.Groups = title, title, groups
		return b.writePage(w, s, v)
	})
}

// fileOf is the file of a path.
func fileOf(path string) string {
	if path == "" || strings.HasSuffix(path, "/") {
		return path + "index.html"
	}
	return path
}

// planList plans a list, several pages if it is long.
func (b *build) planList(s *section, l list) {
	per := b.cfg.PostsPerPage
	total := max(1, (len(l.entries)+per-1)/per)
	at := func(n int) string {
		if n == 1 {
			return l.path
		}
		return fmt.Sprintf("%spage/%d/", l.path, n)
	}
	for n := 1; n <= total; n++ {
		shown := l.entries[min(len(l.entries), (n-1)*per):min(len(l.entries), n*per)]
		parts := []string{l.kind, s.key, at(n), l.title, l.feed, fmt.Sprint(n, total)}
		for _, e := range shown {
			parts = append(parts, e.summary)
			if b.cfg.IndexFull {
				parts = append(parts, b.bodyKey(e))
			}
		}
		b.addFile(fileOf(at(n)), digestOf(parts...), func(w *bytes.Buffer) error {
			v := b.newView(s, l.kind, at(n))
			if total > 1 {
				v.Pager = &page.Pager{Number: n, Total: total}
				if n > 1 {
					v.Pager.Newer = at(n - 1)
				}
				if n < total {
					v.Pager.Older = at(n + 1)
				}
			}
			return b.writeList(w, v, s, l, shown)
		})
	}
}

// rootToken stands for the way to the root in a summary that is kept: nobody can write it
// into a post.
var rootToken = "root-" + rand.Text() + "/"

// summaryAt returns a post as a list shows it. A post is in several lists, so its summary
// is kept.
func (b *build) summaryAt(s *section, e *entry, root string) (template.HTML, error) {
	if b.cfg.IndexFull {
		body, err := b.bodyOf(e.Post)
		if err != nil {
			return "", err
		}
		p := b.summary(s, e, root)
		p.Body = template.HTML(body.At(root, root+e.path)) // package markdown escapes
		return page.Summary(p)
	}
	e.once.Do(func() { e.html, e.problem = page.Summary(b.summary(s, e, rootToken)) })
	return template.HTML(strings.ReplaceAll(string(e.html), rootToken, root)), e.problem
}

// writePage writes a page, with the parts that it shares with others.
func (b *build) writePage(w *bytes.Buffer, s *section, v page.View) error {
	if v.Kind != "search" && v.Kind != "notfound" && len(v.Alternates) == 0 && len(v.Feeds) == mainFeeds &&
		!slices.ContainsFunc(s.site.Menu, func(l page.Link) bool { return l.Path == v.Path }) {
		made, _ := s.shared.LoadOrStore(v.Root, sync.OnceValues(v.Share))
		shared, err := made.(func() (*page.Shared, error))()
		if err != nil {
			return err
		}
		v.Shared = shared
	}
	return v.Write(w)
}

func (b *build) writeList(w *bytes.Buffer, v page.View, s *section, l list, shown []*entry) error {
	v.Title, v.Heading = l.title, l.title
	if v.Pager != nil && v.Pager.Number > 1 {
		v.Title += ", " + s.locale.Say("page_of", v.Pager.Number, v.Pager.Total)
	}
	if l.kind == "home" {
		v.Description = b.cfg.Description
		v.Data = map[string]any{"@context": "https://schema.org", "@type": "WebSite", "name": b.cfg.Title,
			"description": b.cfg.Description, "url": b.address(s.prefix), "inLanguage": s.language}
	}
	if l.feed != "" {
		v.Feed = l.feed
		v.Feeds = append(v.Feeds, page.Feed{Type: "application/rss+xml", Title: l.title, Path: l.feed})
	}
	var images []string
	for _, e := range shown {
		images = append(images, e.Image)
		if b.cfg.IndexFull {
			images = append(images, e.Images...)
		}
		html, err := b.summaryAt(s, e, v.Root)
		if err != nil {
			return err
		}
		v.Summaries = append(v.Summaries, html)
	}
	v.Origins = page.Origins(images)
	return b.writePage(w, s, v)
}

// planSearch plans the search page and its index.
func (b *build) planSearch(s *section) {
	if !b.cfg.Search {
		return
	}
	all := append(append([]*entry{}, s.posts...), s.pages...)
	all = append(all, s.secondary...)
	titles, terms := []string{"search", s.key}, []string{"terms"}
	for _, e := range all {
		titles = append(titles, e.path, e.Title, e.Date.Format(time.RFC3339))
		terms = append(terms, e.path, e.Title, e.Terms)
	}
	runs := b.foundRuns()
	for _, r := range runs {
		titles, terms = append(titles, r.Path, r.Title), append(terms, r.Path, r.Title, r.Terms)
	}
	path, index := s.prefix+"search/", s.prefix+"search/index.json"
	b.addFile(path+"index.html", digestOf(titles...), func(w *bytes.Buffer) error {
		v := b.newView(s, "search", path)
		v.Title, v.Heading, v.Index = s.locale.Say("search"), s.locale.Say("search"), index
		v.Groups = []page.Group{{Label: s.locale.Say("all_posts"), Entries: b.linksOf(s, all)}}
		if len(runs) > 0 {
			v.Groups = append(v.Groups, page.Group{Label: s.locale.Say("runs"), Entries: lists.Map(runs, foundLink)})
		}
		return v.Write(w)
	})
	b.addFile(index, digestOf(terms...), func(w *bytes.Buffer) error {
		var entries []search.Entry
		for _, e := range all {
			entries = append(entries, search.Entry{Path: e.path, Title: e.Title, Date: e.Date.Format(time.DateOnly),
				Terms: e.Terms})
		}
		entries = append(entries, runs...)
		text, err := search.Index(entries)
		w.Write(text)
		return err
	})
}

// planNotFound plans the page that servers show for wrong addresses. It can stand at any
// address, so its links are absolute.
func (b *build) planNotFound() {
	s := b.sections[0]
	b.addFile("404.html", digestOf("404", s.key, b.cfg.URL), func(w *bytes.Buffer) error {
		v := b.newView(s, "notfound", "404.html")
		v.Title, v.Heading, v.NoIndex = s.locale.Say("not_found"), s.locale.Say("not_found"), true
		v.Root = basePath(b.cfg.URL)
		return v.Write(w)
	})
}

// basePath is the path of the site's root on its server.
func basePath(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if _, path, ok := strings.Cut(rest, "/"); ok {
		return "/" + path + "/"
	}
	return "/"
}
