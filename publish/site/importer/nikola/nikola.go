// Package nikola reads the posts of Nikola (https://getnikola.com/handbook.html): lines such as
// ".. title: …" at the beginning of a file, in a comment of HTML or in a file of their own.
package nikola

import (
	"cmp"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/importer"
)

var (
	field = lazy.Compile(`^\.\. ([a-zA-Z_]+): ?(.*)$`)
	begin = lazy.Compile(`^\s*(<!--\s*)?\.\. (title|slug|date|tags|category|status|author|link|description|type|` +
		`hidetitle|updated|previewimage|password): ?`)
)

// linkTo begins a link to another post, which Nikola writes as link://slug/NAME.
const linkTo = importer.LinkPrefix + "/"

// Is reports whether a file has front matter of Nikola.
func Is(f importer.File) bool {
	return f.Meta != "" && begin.MatchString(f.Meta) || begin.MatchString(f.Text)
}

// Read adds the post of a file to an export. Front matter and reStructuredText that bakeoff cannot
// read are errors of kind fault.Invalid with their line.
func Read(f importer.File, e *importer.Export) error {
	head, body, line := split(f.Text)
	source := f
	if f.Meta != "" && begin.MatchString(f.Meta) {
		source.Name = strings.TrimSuffix(f.Name, extension(f.Name)) + ".meta"
		head, _, _ = split(f.Meta)
		body, line = f.Text, 1
	}
	p := f.NewPost()
	for _, field := range head {
		if err := setField(source, e, &p, field); err != nil {
			return err
		}
	}
	slug := cmp.Or(p.Slug, p.Stem)
	p.Links = []string{linkTo + "filename/" + f.Name}
	if p.Language == "" { // a translation has the slug of the original
		p.Links = append(p.Links, linkTo+"slug/"+slug)
	}
	body = strings.ReplaceAll(body, "link://", linkTo)
	body = strings.ReplaceAll(body, "<!-- TEASER_END -->", "")
	if err := f.SetBody(&p, body, line); err != nil {
		return err
	}
	e.Finish(p)
	return nil
}

func extension(name string) string {
	if at := strings.LastIndexByte(name, '.'); at > strings.LastIndexByte(name, '/') {
		return name[at:]
	}
	return ""
}

// split separates the front matter from the text, and returns the line at which the text begins.
func split(text string) (head []importer.Field, body string, line int) {
	lines := strings.Split(text, "\n")
	at, comment := 0, false
	for ; at < len(lines); at++ {
		l := strings.TrimRight(lines[at], " \t")
		if rest, ok := strings.CutPrefix(strings.TrimLeft(l, " \t"), "<!--"); ok && len(head) == 0 {
			comment = true
			l = strings.TrimLeft(rest, " \t")
		}
		ended := false
		if comment {
			l, _, ended = strings.Cut(l, "-->")
			l = strings.TrimSpace(l)
		}
		if m := field.FindStringSubmatch(l); m != nil {
			head = append(head, importer.Field{Key: strings.ToLower(m[1]), Value: strings.TrimSpace(m[2]), Line: at + 1})
		} else if l != "" && !ended || l == "" && len(head) > 0 && !comment {
			break // the text, or the blank line before it
		}
		if ended {
			at++
			break
		}
	}
	return head, strings.Join(lines[at:], "\n"), at + 1
}

// hiddenTags are tags by which old versions of Nikola know what is not published.
var hiddenTags = map[string]bool{"draft": true, "private": true}

func setField(f importer.File, e *importer.Export, p *importer.Post, field importer.Field) (err error) {
	switch field.Key {
	case "title":
		p.Title = field.Value
	case "slug":
		p.Slug = field.Value
	case "date":
		if field.Value != "" {
			p.Date, err = f.Date(field)
		}
	case "updated":
		if field.Value != "" {
			p.Updated, err = f.Date(field)
		}
	case "tags", "category", "categories":
		for _, t := range importer.SplitList(field.Value) {
			if hiddenTags[strings.ToLower(t)] {
				p.Draft = true
			} else if t != "mathjax" {
				p.Tags = append(p.Tags, t)
			}
		}
	case "description":
		p.Description = field.Value
	case "author":
		p.Author = field.Value
	case "previewimage":
		p.Image = field.Value
	case "status":
		switch strings.ToLower(field.Value) {
		case "", "published", "featured":
		case "draft":
			p.Draft = true
		default:
			p.Draft = true
			e.Note(f.Name, "the status is %s; it becomes a draft", safetext.Clip(field.Value, 40))
		}
	case "password":
		if field.Value != "" {
			p.Draft = true
			e.Note(f.Name, "it has a password; it becomes a draft")
		}
	case "has_math":
		if strings.EqualFold(field.Value, "true") || strings.EqualFold(field.Value, "yes") {
			e.Note(f.Name, "bakeoff does not draw formulas; they stay as text")
		}
	}
	return err
}
