package site

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"bakeoff/publish/site/feed"
)

// planFeeds plans the feeds of a section.
func (b *build) planFeeds(s *section) {
	main := b.feedOf(s, s.prefix, b.cfg.Title, b.cfg.Description)
	b.planFeed(s, s.prefix+b.cfg.FeedFile, main, s.posts, feed.RSS)
	b.planFeed(s, s.prefix+"atom.xml", main, s.posts, feed.Atom)
	b.planFeed(s, s.prefix+"feed.json", main, s.posts, feed.JSON)
	if b.cfg.TagFeeds {
		for _, t := range s.tags {
			f := b.feedOf(s, t.path, b.cfg.Title+" – "+t.label, s.locale.Say("posts_tagged", t.label))
			b.planFeed(s, t.path+b.cfg.FeedFile, f, t.entries, feed.RSS)
		}
	}
	if b.cfg.AuthorFeeds {
		for _, a := range s.authors {
			f := b.feedOf(s, a.path, b.cfg.Title+" – "+a.label, s.locale.Say("posts_by", a.label))
			b.planFeed(s, a.path+b.cfg.FeedFile, f, a.entries, feed.RSS)
		}
	}
}

func (b *build) feedOf(s *section, path, title, description string) feed.Feed {
	return feed.Feed{Title: title, Description: cmp.Or(description, title), Home: b.address(path), Language: s.language,
		Author: b.cfg.Author}
}

func (b *build) planFeed(s *section, name string, f feed.Feed, entries []*entry,
	write func(feed.Feed) ([]byte, error)) {
	entries = entries[:min(len(entries), b.cfg.FeedItems)]
	f.Self = b.address(name)
	parts := []string{"feed", s.key, f.Title, f.Description, f.Self, fmt.Sprint(b.cfg.FeedFull)}
	for _, e := range entries {
		parts = append(parts, e.summary)
		if b.cfg.FeedFull {
			parts = append(parts, b.bodyKey(e))
		}
	}
	b.addFile(name, digestOf(parts...), func(w *bytes.Buffer) error {
		for _, e := range entries {
			i := feed.Item{Title: e.Title, Link: b.address(e.path), Summary: cmp.Or(e.Description, e.Excerpt, e.Title),
				Author: e.author, Tags: e.Tags, Published: e.Date, Updated: e.Updated, Image: b.absolute(e.Image)}
			if b.cfg.FeedFull {
				body, err := b.bodyOf(e.Post)
				if err != nil {
					return err
				}
				i.Content = string(body.At(b.cfg.URL+"/", i.Link))
			}
			f.Items = append(f.Items, i)
		}
		text, err := write(f)
		w.Write(text)
		return err
	})
}

// planSitemap plans the map of all pages.
func (b *build) planSitemap() {
	var pages []feed.Page
	for _, s := range b.sections {
		newest := time.Time{}
		if len(s.posts) > 0 {
			newest = s.posts[0].Date
		}
		pages = append(pages, feed.Page{Address: b.address(s.prefix), Changed: newest})
		for _, list := range [][]*entry{s.posts, s.pages, s.secondary} {
			for _, e := range list {
				pages = append(pages, b.sitemapPage(e))
			}
		}
		for _, list := range [][]*group{s.tags, s.authors, s.years} {
			for _, g := range list {
				pages = append(pages, feed.Page{Address: b.address(g.path), Changed: g.entries[0].Date})
			}
		}
	}
	pages = append(pages, b.mappedRuns()...)
	if len(pages) <= feed.MaxPages {
		b.addBytes("sitemap.xml", feed.Sitemap(pages))
		return
	}
	var parts []string
	for n := 0; n*feed.MaxPages < len(pages); n++ {
		name := fmt.Sprintf("sitemap-%d.xml", n+1)
		b.addBytes(name, feed.Sitemap(pages[n*feed.MaxPages:min(len(pages), (n+1)*feed.MaxPages)]))
		parts = append(parts, b.address(name))
	}
	b.addBytes("sitemap.xml", feed.Index(parts))
}

func (b *build) sitemapPage(e *entry) feed.Page {
	p := feed.Page{Address: b.address(e.path), Changed: e.Date}
	if e.Updated.After(e.Date) {
		p.Changed = e.Updated
	}
	for _, o := range e.others {
		p.Alternates = append(p.Alternates, feed.Alternate{Language: b.sectionOf(o.Post).language,
			Address: b.address(o.path)})
	}
	return p
}
