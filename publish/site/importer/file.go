package importer

import (
	"path"
	"slices"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer/rest"
)

// File is a file of a folder that is imported.
type File struct {
	Name string // below the folder, with slashes
	Text string // without a byte order mark, lines end in \n
	Meta string // of the file of the same name that ends in .meta; "" without one
	Zone *time.Location
	Of   string // the program of the whole site; "" if it is unknown
	// Hidden says that a post without a status is not published.
	Hidden bool
}

// Field is a field of front matter.
type Field struct {
	Key, Value string // the key is in lower case
	Line       int
}

// NewPost begins the post of a file: its name, and what the name says.
func (f File) NewPost() Post {
	p := Post{Source: f.Name, HTML: !f.IsMarkdown()}
	p.Stem = strings.TrimSuffix(path.Base(f.Name), path.Ext(f.Name))
	for dir := range strings.SplitSeq(path.Dir(f.Name), "/") {
		p.Page = p.Page || dir == "pages" || dir == "stories"
	}
	if l := strings.TrimPrefix(path.Ext(p.Stem), "."); len(l) == 2 && content.Slug(l) == l {
		p.Stem, p.Language = strings.TrimSuffix(p.Stem, "."+l), l
	}
	return p
}

// IsMarkdown reports whether the text of a file is Markdown.
func (f File) IsMarkdown() bool {
	return slices.Contains([]string{".md", ".markdown", ".mkd", ".mdown"}, path.Ext(f.Name))
}

// SetBody sets the text of a post, which begins at a line of the file. reStructuredText becomes HTML.
func (f File) SetBody(p *Post, text string, line int) (err error) {
	if path.Ext(f.Name) == ".rst" {
		text, err = rest.ToHTML(text, f.Name, line)
	}
	p.Body = text
	return err
}

// Date reads a date of a field. An error names the line.
func (f File) Date(field Field) (time.Time, error) {
	t, err := content.ParseDate(field.Value, f.Zone)
	if err != nil {
		return t, fault.Wrap(fault.Invalid, content.PlaceText(f.Name, field.Line), err)
	}
	return t, nil
}

// Hides reports whether a post is a draft after a field such as draft: true.
func (f File) Hides(p *Post, field Field) (bool, error) {
	hides, err := content.Hides(field.Key, field.Value)
	return p.Draft || hides, fault.Wrap(fault.Invalid, content.PlaceText(f.Name, field.Line), err)
}

// SplitList splits a list at semicolons, or at commas if there are none.
func SplitList(value string) (out []string) {
	separator := ","
	if strings.Contains(value, ";") {
		separator = ";"
	}
	for _, s := range strings.Split(value, separator) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Finish makes a draft of a post that has no date, and notes what has no counterpart.
func (e *Export) Finish(p Post) {
	if p.Date.IsZero() && !p.Page && !p.Draft {
		p.Draft = true
		e.Note(p.Source, "no date; it becomes a draft: add a line date: 2026-01-31 12:00:00 +0100")
	}
	if line := content.HidingLine(p.Body); line > 0 && !p.HTML && !p.Draft {
		p.Draft = true
		e.Note(p.Source, "line %d of its text may be front matter that hides the post, so the post becomes a draft", line)
	}
	for _, m := range content.Shortcodes(p.Body) {
		e.Note(p.Source, "the shortcode %s stays as text", safetext.Clip(safetext.Line(m), 60))
	}
	e.Posts = append(e.Posts, p)
}
