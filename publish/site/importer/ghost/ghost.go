// Package ghost reads exports of Ghost (https://docs.ghost.org/migration/custom): JSON with
// the tables of its database. It knows those of Ghost 0.4 to 6.
package ghost

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/importer"
)

var (
	wrapped = lazy.Compile(`^\s*\{\s*"db"\s*:\s*\[`)
	tables  = lazy.Compile(`^\s*\{\s*"(meta|data)"\s*:\s*\{`)
)

// Is reports whether a file begins like an export of Ghost.
func Is(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\ufeff"))
	return wrapped.Match(head) || tables.Match(head)
}

// database is an export, or the first part of one with "db".
type database struct {
	Data struct {
		Posts   []post     `json:"posts"`
		Meta    []postMeta `json:"posts_meta"`
		Users   []user     `json:"users"`
		Tags    []tag      `json:"tags"`
		Tagged  []relation `json:"posts_tags"`
		Authors []relation `json:"posts_authors"`
	} `json:"data"`
	DB []database `json:"db"`
}

// word is a value that is a text or a number: identifiers and dates of old versions are numbers.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	switch {
	case len(text) > 0 && text[0] == '"':
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return errors.New("expected a text or a number")
	case string(text) != "null":
		s = string(text)
	}
	*w = word(s)
	return nil
}

type post struct {
	ID         word `json:"id"`
	Title      word `json:"title"`
	Slug       word `json:"slug"`
	HTML       word `json:"html"`
	Mobiledoc  word `json:"mobiledoc"`
	Lexical    word `json:"lexical"`
	Markdown   word `json:"markdown"` // Ghost 0
	Image      word `json:"feature_image"`
	OldImage   word `json:"image"` // Ghost 0
	Type       word `json:"type"`
	Page       word `json:"page"` // Ghost 0 to 2
	Status     word `json:"status"`
	Visibility word `json:"visibility"`
	Published  word `json:"published_at"`
	Created    word `json:"created_at"`
	Updated    word `json:"updated_at"`
	Excerpt    word `json:"custom_excerpt"`
	About      word `json:"meta_description"`
	Author     word `json:"author_id"`
}

type postMeta struct {
	Post    word `json:"post_id"`
	Alt     word `json:"feature_image_alt"`
	Caption word `json:"feature_image_caption"`
	About   word `json:"meta_description"`
}

type user struct {
	ID    word `json:"id"`
	Name  word `json:"name"`
	Email word `json:"email"`
}

type tag struct {
	ID   word `json:"id"`
	Name word `json:"name"`
}

// relation joins a post with a tag or an author.
type relation struct {
	Post   word `json:"post_id"`
	Tag    word `json:"tag_id"`
	Author word `json:"author_id"`
}

// export is what is known of a whole file.
type export struct {
	importer.Export
	zone    *time.Location
	tags    map[word]string
	users   map[word]user
	meta    map[word]postMeta
	tagged  map[word][]word
	authors map[word][]word
}

// Read reads an export. zone is that of dates without one. A file that is not JSON is an error of
// kind fault.Invalid that names the line.
func Read(r io.Reader, file string, zone *time.Location) (importer.Export, error) {
	text, err := io.ReadAll(io.LimitReader(r, importer.MaxExport+1))
	if err != nil {
		return importer.Export{}, fault.Wrap(fault.Lab, "read", err)
	}
	if len(text) > importer.MaxExport {
		return importer.Export{}, fault.WithFix(fault.New(fault.Invalid, "%s: the export has more than %d MiB",
			safetext.Line(file), importer.MaxExport>>20), "delete what you do not need in Ghost, and export again")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var d database
	if err := json.Unmarshal(text, &d); err != nil {
		return importer.Export{}, jsonProblem(text, file, err)
	}
	if len(d.DB) > 0 {
		d = d.DB[0]
	}
	e := export{zone: zone, tags: map[word]string{}, users: map[word]user{}, meta: map[word]postMeta{},
		tagged: map[word][]word{}, authors: map[word][]word{}}
	e.index(&d)
	for i := range d.Data.Posts {
		e.takePost(&d.Data.Posts[i], fmt.Sprintf("%s: post %d", file, i+1))
	}
	for _, p := range e.Posts {
		if strings.Contains(p.Body+p.Image, `/content/images/`) {
			e.Note(file, "images stay on the server; copy its folder content/images to static/content/images")
			break
		}
	}
	return e.Export, nil
}

// jsonProblem is an error at the line where the JSON is wrong.
func jsonProblem(text []byte, file string, err error) error {
	offset := int64(len(text))
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = kind.Offset
	}
	return fault.WithFix(fault.New(fault.Invalid, "%s:%d: bakeoff cannot read this JSON: %s", safetext.Line(file),
		importer.LineAt(text, offset), safetext.Clip(safetext.Line(err.Error()), 200)),
		"export the content again in Ghost: Settings, Import/Export")
}

// index prepares the relations of the tables.
func (e *export) index(d *database) {
	for _, t := range d.Data.Tags {
		e.tags[t.ID] = string(t.Name)
	}
	for _, u := range d.Data.Users {
		e.users[u.ID] = u
	}
	for _, m := range d.Data.Meta {
		e.meta[m.Post] = m
	}
	for _, r := range d.Data.Tagged {
		e.tagged[r.Post] = append(e.tagged[r.Post], r.Tag)
	}
	for _, r := range d.Data.Authors {
		e.authors[r.Post] = append(e.authors[r.Post], r.Author)
	}
}

// takePost makes a post of a row. What Ghost does not show to everybody is a draft.
func (e *export) takePost(row *post, source string) {
	title := safetext.Clip(string(row.Title), 80)
	p := importer.Post{Source: source, HTML: true, Title: string(row.Title), Slug: string(row.Slug),
		Page: row.Type == "page" || row.Page == "1" || row.Page == "true"}
	if row.Slug != "" {
		p.Links = []string{importer.LinkPrefix + "/" + string(row.Slug)}
	}
	e.setStatus(&p, row, title)
	date := cmp.Or(row.Published, row.Created)
	var known bool
	if p.Date, known = e.dateOf(date); !known && !p.Draft {
		p.Draft = true
		e.Note(source, "%q has the date %q; it becomes a draft: write the date as 2026-01-31 12:00:00 +0100", title,
			safetext.Clip(string(date), 40))
	}
	// Ghost updates a post when it publishes it.
	if updated, ok := e.dateOf(row.Updated); ok && updated.Sub(p.Date) > 24*time.Hour {
		p.Updated = updated
	}
	for _, id := range e.tagged[row.ID] {
		if name := e.tags[id]; name != "" && !strings.HasPrefix(name, "#") { // those of Ghost itself
			p.Tags = append(p.Tags, name)
		}
	}
	var names []string
	for _, id := range append(e.authors[row.ID], row.Author) {
		if u := e.users[id]; u.Name != "" && !slices.Contains(names, string(u.Name)) {
			names = append(names, string(u.Name))
			p.Email = cmp.Or(p.Email, string(u.Email))
		}
	}
	p.Author = strings.Join(names, ", ")
	m := e.meta[row.ID]
	p.Description = string(cmp.Or(row.Excerpt, row.About, m.About))
	p.Image = strings.ReplaceAll(string(cmp.Or(row.Image, row.OldImage)), ghostURL, "")
	p.Caption = importer.PlainText(string(cmp.Or(m.Caption, m.Alt)))
	if p.Stem = string(row.Slug); p.Stem == "" {
		p.Stem = string(row.Title)
	}
	if !p.Page && !p.Date.IsZero() {
		p.Stem = p.Date.Format(time.DateOnly) + "-" + p.Stem
	}
	p.Body = e.bodyOf(&p, row)
	e.Posts = append(e.Posts, p)
}

// setStatus decides whether a post is a draft.
func (e *export) setStatus(p *importer.Post, row *post, title string) {
	switch row.Status {
	case "published", "scheduled":
	case "draft":
		p.Draft = true
	case "sent":
		p.Draft = true
		e.Note(p.Source, "%q was only sent by mail; it becomes a draft", title)
	default:
		p.Draft = true
		e.Note(p.Source, "%q has the unknown status %q; it becomes a draft", title, safetext.Clip(string(row.Status), 40))
	}
	if row.Visibility != "" && row.Visibility != "public" && !p.Draft {
		p.Draft = true
		e.Note(p.Source, "%q is for %s only; it becomes a draft", title, safetext.Clip(string(row.Visibility), 40))
	}
}

// dateOf reads a date: RFC 3339, SQL's, or milliseconds since 1970.
func (e *export) dateOf(text word) (time.Time, bool) {
	s := strings.TrimSpace(string(text))
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms > 0 && ms < 253402300800000 {
		return time.UnixMilli(ms).In(e.zone), true
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil && t.Year() >= 1000 {
		return t.In(e.zone), true
	}
	// SQL's dates are in UTC.
	if t, err := time.Parse("2006-01-02 15:04:05", s); err == nil && t.Year() >= 1000 {
		return t.In(e.zone), true
	}
	return time.Time{}, false
}

// ghostURL stands for the address of the blog.
const ghostURL = "__GHOST_URL__"

// ownAddress makes an address of the blog one of the site, or a link to another post.
func ownAddress(s string) string {
	return strings.NewReplacer(ghostURL+"/content/", "/content/", ghostURL, importer.LinkPrefix).Replace(s)
}
