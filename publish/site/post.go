package site

import (
	"bytes"
	"cmp"
	"html/template"
	"strings"
	"time"

	"bakeoff/publish/site/locale"
	"bakeoff/publish/site/markdown"
	"bakeoff/publish/site/page"
)

func (b *build) localeOf(code string) *locale.Locale {
	l, _ := locale.Of(cmp.Or(code, b.cfg.Language))
	return l
}

// dateText is a date as the settings want it.
func (b *build) dateText(l *locale.Locale, t time.Time) string {
	format := b.cfg.DateFormat
	if b.cfg.ShowZone && !strings.Contains(format, "%z") && !strings.Contains(format, "%Z") {
		format += " %z"
	}
	return l.Format(format, t)
}

// planPost plans the page of a post.
func (b *build) planPost(s *section, e *entry) {
	key := func() string {
		parts := []string{"post", s.key, e.summary, b.bodyKey(e)}
		for _, list := range [][]*entry{e.related, {e.previous, e.next}, e.others} {
			for _, r := range list {
				if r != nil {
					parts = append(parts, r.path, r.Title, r.Language, r.Date.Format(time.RFC3339))
				}
				parts = append(parts, "|")
			}
		}
		return digestOf(parts...)
	}
	b.artifacts = append(b.artifacts, artifact{name: e.path + "index.html", later: key, make: func(w *bytes.Buffer) error {
		body, err := b.bodyOf(e.Post)
		if err != nil {
			return err
		}
		b.release(e.Post)
		return b.writePage(w, s, b.postView(s, e, body))
	}})
}

// bodyKey is a digest of all that a post's text is rendered from.
func (b *build) bodyKey(e *entry) string {
	parts := []string{e.Digest}
	for _, i := range e.Images {
		parts = append(parts, b.pictureKey(i))
	}
	for _, ref := range e.Runs {
		parts = append(parts, b.runOf(ref).key)
	}
	return digestOf(parts...)
}

// postView is the page of a post.
func (b *build) postView(s *section, e *entry, body markdown.Rendered) page.View {
	v := b.newView(s, "post", e.path)
	if e.Page {
		v.Kind = "page"
	}
	v.Title, v.Heading, v.Author = e.Title, e.Title, e.author
	v.Description = cmp.Or(e.Description, e.Excerpt)
	p := b.summary(s, e, v.Root)
	p.Body = template.HTML(body.At(v.Root, "")) // package markdown escapes
	if p.Picture != nil {
		p.Picture.Lazy = false
	}
	for _, r := range e.related {
		p.Related = append(p.Related, b.linkTo(s, r))
	}
	if e.previous != nil {
		p.Previous = new(b.linkTo(s, e.previous))
	}
	if e.next != nil {
		p.Next = new(b.linkTo(s, e.next))
	}
	v.Post = &p
	v.Image = b.absolute(e.Image)
	v.Origins = page.Origins(append([]string{e.Image}, e.Images...))
	b.alternates(&v, s, e)
	v.Data = b.postData(s, e, v)
	return v
}

// mainFeeds is how many feeds every page announces.
const mainFeeds = 3

// newView is a page of a section with what all pages have.
func (b *build) newView(s *section, kind, path string) page.View {
	v := page.View{Site: s.site, Kind: kind, Path: path, Root: page.Root(path), Canonical: b.address(path)}
	v.Feeds = append(v.Feeds, page.Feed{Type: "application/rss+xml", Title: b.cfg.Title, Path: s.site.Feed},
		page.Feed{Type: "application/atom+xml", Title: b.cfg.Title, Path: s.prefix + "atom.xml"},
		page.Feed{Type: "application/feed+json", Title: b.cfg.Title, Path: s.prefix + "feed.json"})
	if len(b.sections) > 1 {
		for _, other := range b.sections {
			v.Languages = append(v.Languages, page.Link{Label: other.locale.Name, Path: other.prefix,
				Language: other.language, Current: other == s})
		}
	}
	return v
}

// alternates names a post's translations, and makes the menu of languages lead to them.
func (b *build) alternates(v *page.View, s *section, e *entry) {
	for _, o := range e.others {
		for i, other := range b.sections {
			if strings.HasPrefix(o.path, other.prefix) && b.sectionOf(o.Post) == other {
				v.Alternates = append(v.Alternates, page.Alternate{Language: other.language, Address: b.address(o.path)})
				v.Languages[i].Path = o.path
			}
		}
	}
}

// summary is a post as a list shows it.
func (b *build) summary(s *section, e *entry, root string) page.Post {
	p := page.Post{Locale: s.locale, Root: root, Path: e.path, Title: e.Title, Page: e.Page,
		Excerpt: cmp.Or(e.Description, e.Excerpt), Date: e.Date.Format(time.RFC3339),
		DateText: b.dateText(s.locale, e.Date), Minutes: minutes(e.Words), AuthorName: e.author}
	if e.writer != nil {
		p.AuthorPath = e.writer.path
	}
	if b.cfg.ShowUpdated && e.Updated.After(e.Date) {
		p.Updated, p.UpdatedText = e.Updated.Format(time.RFC3339), b.dateText(s.locale, e.Updated)
	}
	for _, t := range e.tags {
		p.Tags = append(p.Tags, page.Link{Label: t.label, Path: t.path})
	}
	if e.Image != "" {
		p.Picture = b.featured(e, root)
	}
	return p
}

// featured is a post's image.
func (b *build) featured(e *entry, root string) *page.Picture {
	p := &page.Picture{Alt: cmp.Or(e.Caption, e.Title), Caption: e.Caption, Lazy: true}
	if page.Origin(e.Image) != "" {
		p.Source = e.Image
		return p
	}
	if strings.Contains(e.Image, ":") || strings.HasPrefix(e.Image, "//") {
		return nil // neither a path nor an address that a page may load
	}
	path := strings.TrimLeft(e.Image, "/")
	p.Source = page.At(root, path)
	if known, ok := b.pictures[path]; ok {
		p.Width, p.Height = known.Width, known.Height
		p.Set = template.Srcset(known.Set(root))
	}
	return p
}

// absolute is the address of an image for other servers.
func (b *build) absolute(image string) string {
	switch {
	case image == "" || page.Origin(image) != "":
		return image
	case strings.Contains(image, ":") || strings.HasPrefix(image, "//"):
		return ""
	}
	return b.address(strings.TrimLeft(image, "/"))
}

func (b *build) linkTo(s *section, e *entry) page.Link {
	return page.Link{Label: e.Title, Path: e.path, Date: e.Date.Format(time.RFC3339),
		DateText: s.locale.Format("%Y-%m-%d", e.Date)}
}

// perMinute is how many words are read in a minute.
const perMinute = 200

func minutes(words int) int { return max(1, (words+perMinute-1)/perMinute) }

// postData describes a post to search engines: https://schema.org/BlogPosting.
func (b *build) postData(s *section, e *entry, v page.View) map[string]any {
	kind := "BlogPosting"
	if e.Page {
		kind = "WebPage"
	}
	d := map[string]any{"@context": "https://schema.org", "@type": kind, "headline": e.Title, "name": e.Title,
		"url": v.Canonical, "inLanguage": s.language, "datePublished": e.Date.Format(time.RFC3339),
		"author":           map[string]any{"@type": "Person", "name": e.author},
		"isPartOf":         map[string]any{"@type": "WebSite", "name": b.cfg.Title, "url": b.address(s.prefix)},
		"mainEntityOfPage": v.Canonical}
	if v.Description != "" {
		d["description"] = v.Description
	}
	if !e.Updated.IsZero() {
		d["dateModified"] = e.Updated.Format(time.RFC3339)
	}
	if v.Image != "" {
		d["image"] = v.Image
	}
	if len(e.Tags) > 0 {
		d["keywords"] = strings.Join(e.Tags, ", ")
	}
	if !e.Page {
		d["wordCount"] = e.Words
	}
	return d
}
