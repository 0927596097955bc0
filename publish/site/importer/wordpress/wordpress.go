// Package wordpress reads exports of WordPress: WXR, which is RSS with elements of its own
// (https://wordpress.org/documentation/article/tools-export-screen/).
package wordpress

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"path"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/base/unit"
	"bakeoff/publish/site/importer"
)

// Is reports whether a file begins like an export of WordPress.
func Is(head []byte) bool {
	return bytes.Contains(head, []byte("<rss")) && bytes.Contains(head, []byte("://wordpress.org/export/"))
}

// author is a writer of the blog.
type author struct {
	Login string `xml:"author_login"`
	Email string `xml:"author_email"`
	Name  string `xml:"author_display_name"`
}

// item is a post, page, attachment, or something else that WordPress keeps.
type item struct {
	Title      string     `xml:"title"`
	Link       string     `xml:"link"`
	Creator    string     `xml:"creator"`
	Encoded    []encoded  `xml:"encoded"`
	ID         string     `xml:"post_id"`
	Date       string     `xml:"post_date"`
	GMT        string     `xml:"post_date_gmt"`
	Updated    string     `xml:"post_modified"`
	UpdatedGMT string     `xml:"post_modified_gmt"`
	Name       string     `xml:"post_name"`
	Status     string     `xml:"status"`
	Parent     string     `xml:"post_parent"`
	Type       string     `xml:"post_type"`
	Password   string     `xml:"post_password"`
	Attachment string     `xml:"attachment_url"`
	Categories []category `xml:"category"`
	Meta       []meta     `xml:"postmeta"`
	Comments   []struct{} `xml:"comment"`

	line int
}

// encoded is a text or an excerpt; its name space says which.
type encoded struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
}

type category struct {
	Domain string `xml:"domain,attr"`
	Name   string `xml:",chardata"`
}

type meta struct {
	Key   string `xml:"meta_key"`
	Value string `xml:"meta_value"`
}

// export is what is known of a whole file.
type export struct {
	importer.Export
	file    string
	zone    *time.Location
	base    string // the address of the blog
	authors map[string]author
	items   []item
	images  map[string]string // addresses of attachments by their number
	left    map[string]int    // items of other types
}

// Read reads an export. zone is that of dates whose distance from UTC the file does not say. A
// file that is not XML is an error of kind fault.Invalid that names the line.
func Read(r io.Reader, file string, zone *time.Location) (importer.Export, error) {
	e := export{file: file, zone: zone, authors: map[string]author{}, images: map[string]string{},
		left: map[string]int{}}
	if err := e.readItems(r); err != nil {
		return importer.Export{}, err
	}
	comments := 0
	for i := range e.items {
		comments += len(e.items[i].Comments)
		e.takePost(&e.items[i])
	}
	if comments > 0 {
		e.Note(file, "%s left out", unit.Count(comments, "comment"))
	}
	for _, kind := range []string{"nav_menu_item", "revision", "custom_css", "customize_changeset", "wp_global_styles",
		"oembed_cache", "wp_navigation", "wp_template", "wp_template_part", "attachment"} {
		delete(e.left, kind) // they belong to WordPress itself, or to posts
	}
	for kind, n := range e.left {
		e.Note(file, "%d items of the type %s are left out", n, kind)
	}
	if len(e.images) > 0 {
		e.Note(file, "%d attachments stay on the server; copy its folder wp-content/uploads to static/wp-content/uploads",
			len(e.images))
	}
	return e.Export, nil
}

// readItems reads the elements of the channel.
func (e *export) readItems(r io.Reader) error {
	d := xml.NewDecoder(&printable{io.LimitReader(r, importer.MaxExport+1)})
	inChannel, ended := false, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return e.problem(d, err)
		}
		if end, ok := token.(xml.EndElement); ok && end.Name.Local == "channel" {
			ended = true
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		line, _ := d.InputPos()
		switch start.Name.Local {
		case "rss":
		case "channel":
			inChannel = true
		case "item":
			it := item{line: line}
			err = d.DecodeElement(&it, &start)
			e.addItem(it)
		case "author", "wp_author":
			var a author
			err = d.DecodeElement(&a, &start)
			e.authors[a.Login] = a
		case "base_blog_url":
			err = d.DecodeElement(&e.base, &start)
			e.base = strings.TrimRight(strings.TrimSpace(e.base), "/")
		default:
			err = d.Skip()
		}
		if err != nil {
			return e.problem(d, err)
		}
	}
	if !inChannel || !ended {
		line, _ := d.InputPos()
		return fault.WithFix(fault.New(fault.Invalid, "%s:%d: the export does not end with </channel>",
			safetext.Line(e.file), line), "export all content again in WordPress: Tools, Export")
	}
	return nil
}

// problem is an error at the line that the decoder reached.
func (e *export) problem(d *xml.Decoder, err error) error {
	line, _ := d.InputPos()
	fix := "export all content again in WordPress: Tools, Export"
	if d.InputOffset() > importer.MaxExport {
		err, fix = fault.New(fault.Invalid, "the export has more than %d MiB", importer.MaxExport>>20),
			"export posts and pages one year at a time"
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s:%d: bakeoff cannot read this XML: %s", safetext.Line(e.file), line,
		safetext.Clip(safetext.Line(err.Error()), 200)), fix)
}

func (e *export) addItem(it item) {
	switch it.Type {
	case "post", "page":
		e.items = append(e.items, it)
	case "attachment":
		e.images[it.ID] = it.Attachment
	default:
		e.left[safetext.Clip(it.Type, 40)]++
	}
}

// takePost makes a post of an item. What WordPress does not show to everybody is a draft.
func (e *export) takePost(it *item) {
	source := fmt.Sprintf("%s:%d", e.file, it.line)
	p := importer.Post{Source: source, Page: it.Type == "page", HTML: true, Slug: nameOf(it), Links: e.linksTo(it.Link),
		Title: cmp.Or(importer.PlainText(it.Title), it.Title)} // WordPress shows a title as HTML
	switch it.Status {
	case "publish", "future":
	case "draft", "pending", "auto-draft":
		p.Draft = true
	case "private":
		p.Draft = true
		e.Note(source, "%q is private; it becomes a draft", safetext.Clip(it.Title, 80))
	case "trash", "inherit":
		e.Note(source, "%q is in the trash; it is left out", safetext.Clip(it.Title, 80))
		return
	default:
		p.Draft = true
		e.Note(source, "%q has the unknown status %q; it becomes a draft", safetext.Clip(it.Title, 80),
			safetext.Clip(it.Status, 40))
	}
	if it.Password != "" {
		p.Draft = true
		e.Note(source, "%q has a password; it becomes a draft", safetext.Clip(it.Title, 80))
	}
	var known bool
	if p.Date, known = e.dateOf(it.Date, it.GMT); !known && !p.Draft {
		p.Draft = true
		e.Note(source, "%q has the date %q; it becomes a draft: write the date as 2026-01-31 12:00:00 +0100",
			safetext.Clip(it.Title, 80), safetext.Clip(it.Date, 40))
	}
	if updated, ok := e.dateOf(it.Updated, it.UpdatedGMT); ok && updated.After(p.Date) {
		p.Updated = updated
	}
	a := e.authors[it.Creator]
	if p.Author, p.Email = html.UnescapeString(a.Name), a.Email; p.Author == "" {
		p.Author = it.Creator
	}
	for _, c := range it.Categories {
		if c.Domain == "category" && !strings.EqualFold(c.Name, "Uncategorized") || c.Domain == "post_tag" {
			p.Tags = append(p.Tags, html.UnescapeString(c.Name)) // WordPress stores News &amp; Weather
		}
	}
	text := ""
	for _, t := range it.Encoded {
		if strings.Contains(t.XMLName.Space, "/excerpt/") {
			p.Description = importer.PlainText(t.Text)
		} else {
			text = t.Text
		}
	}
	for _, m := range it.Meta {
		if m.Key == "_thumbnail_id" {
			p.Image = e.ownAddress(e.images[m.Value])
		}
	}
	p.Stem = cmp.Or(p.Slug, it.Title)
	if !p.Page && !p.Date.IsZero() {
		p.Stem = p.Date.Format(time.DateOnly) + "-" + p.Stem
	}
	p.Body = e.bodyOf(source, text)
	e.Posts = append(e.Posts, p)
}

// nameOf is the name of an item in its address, which WordPress stores in the form of addresses:
// caff%c3%a8.
func nameOf(it *item) string {
	if name, err := url.PathUnescape(it.Name); err == nil {
		return name
	}
	return it.Name
}

// linksTo are the addresses by which posts link to one.
func (e *export) linksTo(link string) []string {
	for _, base := range e.bases() {
		if rest, ok := strings.CutPrefix(link, base+"/"); ok {
			return lists.Map(e.bases(), func(b string) string { return b + "/" + rest })
		}
	}
	return []string{link}
}

// dateOf reads a date of the blog's own zone and the same date in UTC: their distance is the zone.
func (e *export) dateOf(local, gmt string) (time.Time, bool) {
	const layout = "2006-01-02 15:04:05"
	l, errLocal := time.ParseInLocation(layout, strings.TrimSpace(local), e.zone)
	if errLocal != nil || l.Year() < 1000 {
		return time.Time{}, false
	}
	u, err := time.Parse(layout, strings.TrimSpace(gmt))
	if err != nil || u.Year() < 1000 {
		return l, true
	}
	wall, _ := time.Parse(layout, strings.TrimSpace(local))
	offset := wall.Sub(u)
	if offset < -14*time.Hour || offset > 14*time.Hour || offset%time.Minute != 0 {
		return l, true
	}
	return u.In(time.FixedZone("", int(offset/time.Second))), true
}

// ownAddress makes an address of the blog's uploads one of the site.
func (e *export) ownAddress(address string) string {
	for _, base := range e.bases() {
		if rest, ok := strings.CutPrefix(address, base+"/wp-content/uploads/"); ok {
			return path.Clean("/wp-content/uploads/" + rest)
		}
	}
	return address
}

// bases are the addresses that a blog may have had.
func (e *export) bases() []string {
	_, host, ok := strings.Cut(e.base, "://")
	if !ok || host == "" {
		return nil
	}
	return []string{"https://" + host, "http://" + host}
}

// printable replaces the control characters that XML forbids: WordPress writes what it has.
type printable struct{ r io.Reader }

func (p *printable) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	for i, c := range b[:n] {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			b[i] = ' '
		}
	}
	return n, err
}
