// Package importer describes the posts of other systems as a site takes them. A package
// below it reads each system: an export may come from a stranger, so every read is bounded
// and nothing of it is executed or fetched.
package importer

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/html"

	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
)

// MaxExport bounds an export, in bytes.
const MaxExport = 256 << 20

// LinkPrefix begins a link to another file of an export, by the name of the file.
const LinkPrefix = "/-imported-"

// Post is a post or a page of another system.
type Post struct {
	Source string // what messages call it: a file with its line
	Stem   string // of its file; any text
	Page   bool
	Draft  bool
	HTML   bool // its text is HTML, not Markdown

	Title, Slug, Description, Image, Caption, Author, Email, Language string

	Date, Updated time.Time // zero: unknown
	Tags          []string
	Links         []string // what links of other posts call it
	Body          string
}

// Export is what an importer read.
type Export struct {
	Posts []Post
	Notes []string // what has no counterpart here
}

// Note adds a note about a source.
func (e *Export) Note(source, format string, args ...any) {
	e.Notes = append(e.Notes, safetext.Line(source)+": "+safetext.Line(fmt.Sprintf(format, args...)))
}

// Address is where the post will be on a site with these formats, from the root.
func (p *Post) Address(format string) string {
	at := content.Post{Slug: content.Slug(p.Slug), Date: p.Date}
	if at.Slug == "" {
		at.Slug = content.Slug(p.Title)
	}
	return "/" + content.Address(format, at) + "/"
}

// Text is the file of the post.
func (p *Post) Text() string {
	var f content.Front
	f.Field("title", p.Title)
	f.Date("date", p.Date)
	f.Date("lastmod", p.Updated)
	f.Tags(p.Tags)
	f.Field("slug", content.Slug(p.Slug))
	f.Field("description", p.Description)
	f.Field("image", p.Image)
	f.Field("image_caption", p.Caption)
	f.Field("author_name", p.Author)
	f.Field("author_email", p.Email)
	f.Field("lang", p.Language)
	if p.Draft {
		f.Field("draft", "true")
	}
	return f.String() + strings.TrimSpace(p.Body) + "\n"
}

// PlainText returns the text of a piece of HTML.
func PlainText(text string) string {
	z := html.NewTokenizer(strings.NewReader(text))
	var out strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(out.String())
		case html.TextToken:
			out.Write(z.Text())
		}
	}
}

// LineAt returns the line of an offset in a text.
func LineAt(text []byte, offset int64) int {
	return 1 + strings.Count(string(text[:min(max(offset, 0), int64(len(text)))]), "\n")
}
