package site

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/locale"
	"bakeoff/publish/site/page"
)

// entry is a post in its place.
type entry struct {
	*content.Post
	path     string // below the root, with a slash at its end
	author   string
	summary  string // digest of what other pages show of it
	tags     []*group
	writer   *group
	related  []*entry
	previous *entry // the older one
	next     *entry
	others   []*entry // in other languages

	once    sync.Once
	html    template.HTML // its summary, with rootToken
	problem error
}

// group is the posts of a tag, an author, a year or a month.
type group struct {
	label, path string
	entries     []*entry
	date        time.Time // of an archive
	months      []*group
}

// section is the part of a site in one language.
type section struct {
	language string
	prefix   string // "" for the first language, "it/" for others
	locale   *locale.Locale
	site     *page.Site
	key      string
	shared   sync.Map // parts of pages by the way to the root

	posts, pages, secondary []*entry
	home                    *entry // a page instead of the list of posts
	tags, authors, years    []*group
}

// sortPosts puts the posts into their sections.
func (b *build) sortPosts() error {
	for _, code := range b.cfg.Languages {
		l, ok := locale.Of(code)
		if !ok {
			b.addWarning(fmt.Sprintf("bakeoff has no words for the language %q; its pages use English ones", code))
		}
		s := &section{language: code, locale: l}
		if len(b.sections) > 0 {
			s.prefix = strings.ToLower(code) + "/"
		}
		b.sections = append(b.sections, s)
	}
	taken := map[string]string{}
	for _, p := range b.posts {
		if p.Draft && !b.opt.Drafts {
			continue
		}
		if !p.Until.IsZero() && !p.Until.After(b.opt.Now) {
			b.result.Expired++
			continue
		}
		b.noteDate(p.Until)
		if !p.Due(b.opt.Now) && !b.opt.Future {
			b.result.Scheduled++
			b.noteDate(p.DueFrom())
			continue
		}
		s := b.sectionOf(p)
		e := &entry{Post: p, author: cmp.Or(p.Author, b.cfg.Author)}
		format := b.cfg.SlugFormat
		if p.Page {
			format = b.cfg.PageFormat
		}
		e.path = s.prefix + content.Address(format, *p) + "/"
		if p.Page && p.Slug == "index" {
			e.path = s.prefix
		}
		if other, ok := taken[e.path]; ok {
			return fault.WithFix(fault.New(fault.Invalid, "%s and %s have the same address /%s", other,
				safetext.Line(p.File), e.path), "give one of them another slug")
		}
		taken[e.path] = safetext.Line(p.File)
		s.addEntry(e)
	}
	for _, s := range b.sections {
		b.orderPosts(s)
	}
	b.translate()
	return nil
}

func (b *build) sectionOf(p *content.Post) *section {
	for _, s := range b.sections {
		if strings.EqualFold(p.Language, s.language) {
			return s
		}
	}
	if p.Language != "" {
		b.addWarning(fmt.Sprintf("%s: the site has no language %q; add it to SITE_LANGS in config.sh.local",
			safetext.Line(p.File), p.Language))
	}
	return b.sections[0]
}

func (s *section) addEntry(e *entry) {
	switch {
	case e.path == s.prefix:
		s.home = e
	case e.Page && e.Secondary:
		s.secondary = append(s.secondary, e)
	case e.Page:
		s.pages = append(s.pages, e)
	default:
		s.posts = append(s.posts, e)
	}
}

// orderPosts sorts the posts, the newest first, and groups them.
func (b *build) orderPosts(s *section) {
	slices.SortFunc(s.posts, func(x, y *entry) int {
		return cmp.Or(y.Date.Compare(x.Date), strings.Compare(x.File, y.File))
	})
	byTitle := func(x, y *entry) int {
		return cmp.Or(strings.Compare(x.Title, y.Title), strings.Compare(x.File, y.File))
	}
	slices.SortFunc(s.pages, byTitle)
	slices.SortFunc(s.secondary, byTitle)
	tags, authors := newGroups(s.prefix+"tags/"), newGroups(s.prefix+"authors/")
	for i, e := range s.posts {
		if i > 0 {
			e.next, s.posts[i-1].previous = s.posts[i-1], e
		}
		if b.cfg.Tags {
			for _, t := range e.Tags {
				e.tags = append(e.tags, tags.addEntry(t, e))
			}
		}
		if b.cfg.Authors && e.author != "" {
			e.writer = authors.addEntry(e.author, e)
		}
	}
	s.tags, s.authors = tags.sortedGroups(), authors.sortedGroups()
	if b.cfg.Archives {
		s.archive()
	}
	for _, list := range [][]*entry{s.posts, s.pages, s.secondary, {s.home}} {
		parallel(len(list), func(i int) {
			if list[i] != nil {
				list[i].summarize(b)
			}
		})
	}
	if b.cfg.Related && b.cfg.Tags && b.cfg.RelatedCount > 0 {
		relatePosts(s, b.cfg.RelatedCount)
	}
}

// groups collects groups by the slug of their label.
type groups struct {
	base string
	by   map[string]*group
}

func newGroups(base string) *groups { return &groups{base, map[string]*group{}} }

func (g *groups) addEntry(label string, e *entry) *group {
	slug := content.Slug(label)
	if slug == "" {
		slug = "x-" + content.Short(label)
	}
	at, ok := g.by[slug]
	if !ok {
		at = &group{label: label, path: g.base + slug + "/"}
		g.by[slug] = at
	}
	if n := len(at.entries); n == 0 || at.entries[n-1] != e {
		at.entries = append(at.entries, e)
	}
	return at
}

func (g *groups) sortedGroups() []*group {
	out := make([]*group, 0, len(g.by))
	for _, at := range g.by {
		out = append(out, at)
	}
	slices.SortFunc(out, func(x, y *group) int {
		return cmp.Or(strings.Compare(strings.ToLower(x.label), strings.ToLower(y.label)), strings.Compare(x.path, y.path))
	})
	return out
}

// archive groups the posts by year and month.
func (s *section) archive() {
	var year, month *group
	for _, e := range s.posts {
		if year == nil || year.date.Year() != e.Date.Year() {
			label := fmt.Sprint(e.Date.Year())
			year = &group{label: label, path: s.prefix + "archives/" + fmt.Sprintf("%04d/", e.Date.Year()), date: e.Date}
			s.years = append(s.years, year)
			month = nil
		}
		if month == nil || month.date.Month() != e.Date.Month() {
			month = &group{label: s.locale.Month(e.Date), date: e.Date,
				path: fmt.Sprintf("%s%02d/", year.path, int(e.Date.Month()))}
			year.months = append(year.months, month)
		}
		year.entries, month.entries = append(year.entries, e), append(month.entries, e)
	}
}

// summarize computes the digest of what other pages show of a post.
func (e *entry) summarize(b *build) {
	parts := []string{e.path, e.Title, e.Excerpt, e.Description, e.author, e.Email, e.Image, e.Caption,
		e.Date.Format(time.RFC3339), e.Updated.Format(time.RFC3339), fmt.Sprint(e.Words), b.pictureKey(e.Image)}
	for _, t := range e.tags {
		parts = append(parts, t.label, t.path)
	}
	if e.writer != nil {
		parts = append(parts, e.writer.path)
	}
	e.summary = digestOf(parts...)
}

// translate connects the posts whose files differ only in their language.
func (b *build) translate() {
	if len(b.sections) < 2 {
		return
	}
	by := map[string][]*entry{}
	for _, s := range b.sections {
		for _, list := range [][]*entry{s.posts, s.pages, s.secondary, {s.home}} {
			for _, e := range list {
				if e != nil {
					stem := content.Stem(e.File, e.Language)
					by[stem] = append(by[stem], e)
				}
			}
		}
	}
	for _, same := range by {
		if len(same) > 1 {
			for _, e := range same {
				e.others = same
			}
		}
	}
}

// address is the absolute address of a path below the root.
func (b *build) address(path string) string {
	return b.cfg.URL + "/" + (&url.URL{Path: path}).EscapedPath()
}
