// Package nikola reads the posts of Nikola (https://getnikola.com/handbook.html): lines such as
// ".. title: …" at the beginning of a file, in a comment of HTML or in a file of their own.
package nikola

import (
	"cmp"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
)

var (
	field = lazy.Compile(`^\.\. ([a-zA-Z_]+): ?(.*)$`)
	begin = lazy.Compile(`^\s*(<!--\s*)?\.\. (title|slug|date|tags|category|status|author|link|description|type|` +
		`hidetitle|updated|previewimage|password): ?`)
)

// linkTo begins a link to another post, which Nikola writes as link://slug/NAME.
const linkTo = importer.LinkPrefix + "/"

// fence is the line before front matter in YAML or TOML.
var fence = lazy.Compile(`^\s*(---|\+\+\+)[ \t]*\n`)

// Is reports whether a file has front matter of Nikola. That in YAML and TOML is also the one of other programs.
func Is(f importer.File) bool {
	if fence.MatchString(f.Text) {
		return f.Of == "nikola" || isHead(f.Meta)
	}
	return f.Meta != "" || begin.MatchString(f.Text)
}

// isHead reports whether a text begins with front matter.
func isHead(text string) bool { return begin.MatchString(text) || fence.MatchString(text) }

// Read adds the post of a file to an export. Front matter and reStructuredText that bakeoff cannot
// read are errors of kind fault.Invalid with their line.
func Read(f importer.File, e *importer.Export) error {
	source, text := f, f.Text
	if f.Meta != "" && (isHead(f.Meta) || !isHead(f.Text)) {
		source.Name, text = strings.TrimSuffix(f.Name, extension(f.Name))+".meta", f.Meta
	}
	head, body, line, err := split(text, source.Name)
	if err != nil {
		return err
	}
	if source.Name != f.Name {
		if len(head) == 0 {
			return fault.WithFix(fault.New(fault.Invalid, "%s: bakeoff does not know this front matter",
				content.PlaceText(source.Name, 1)), "write lines such as .. title: …")
		}
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

// split separates the front matter of a file from the text, and returns the line at which the text begins.
func split(text, file string) (head []importer.Field, body string, line int, err error) {
	if fence.MatchString(text) {
		fields, body, err := content.Fields(text, file)
		line = 1 + strings.Count(strings.TrimSuffix(text, body), "\n")
		return lists.Map(fields, func(f content.HeadField) importer.Field { return importer.Field(f) }), body, line, err
	}
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
	return head, strings.Join(lines[at:], "\n"), at + 1, nil
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
	case "draft", "published":
		p.Draft, err = f.Hides(p, field)
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
