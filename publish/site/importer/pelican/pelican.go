// Package pelican reads the posts of Pelican (https://docs.getpelican.com/en/latest/content.html):
// lines such as "Title: …" before a Markdown text, a list of fields in reStructuredText, and the
// head of an HTML document.
package pelican

import (
	"path"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
	"bakeoff/publish/site/importer"
)

var (
	plainField = lazy.Compile(`^ {0,3}([A-Za-z0-9_-]+):\s*(.*)$`) // as Python-Markdown reads it
	plainFence = lazy.Compile(`^-{3}(\s.*)?$`)
	plainEnd   = lazy.Compile(`^(-{3}|\.{3})(\s.*)?$`)
	restField  = lazy.Compile(`^:([A-Za-z][A-Za-z0-9_-]*):(?: +(.*)|\s*)$`)
	known      = lazy.Compile(`(?i)^(title|date|modified|category|tags|keywords|slug|authors?|summary|status|` +
		`lang|template|save_as|url|translation):`)
	htmlHead = lazy.Compile(`(?is)^\s*(<!DOCTYPE[^>]*>\s*)?<html[^>]*>\s*<head`)
	htmlBody = lazy.Compile(`(?is)<body[^>]*>(.*?)(</body>|$)`)
	ruleLine = lazy.Compile("^([!-/:-@\\[-`{-~])[!-/:-@\\[-`{-~]*$")
	dated    = lazy.Compile(`^([0-9]{4}-[0-9]{2}-[0-9]{2})`)
	ownLink  = lazy.Compile(`[{|](static|filename|attach|author|category|index|tag)[}|]([^\s"'<>)]*)`)
)

// Is reports whether a file has front matter of Pelican.
func Is(f importer.File) bool {
	switch path.Ext(f.Name) {
	case ".html", ".htm":
		return htmlHead.MatchString(f.Text)
	case ".rst":
		head, _, _ := splitRest(f.Text)
		return knows(head)
	}
	head, _, _ := splitPlain(f)
	return knows(head)
}

// knows reports whether one of the fields is Pelican's.
func knows(head []importer.Field) bool {
	return slices.ContainsFunc(head, func(field importer.Field) bool { return known.MatchString(field.Key + ":") })
}

// Read adds the post of a file to an export. Front matter and reStructuredText that bakeoff cannot
// read are errors of kind fault.Invalid with their line.
func Read(f importer.File, e *importer.Export) error {
	p := f.NewPost()
	var head []importer.Field
	body, line := f.Text, 1
	switch path.Ext(f.Name) {
	case ".html", ".htm":
		head = htmlFields(f.Text)
		if m := htmlBody.FindStringSubmatch(body); m != nil {
			body = m[1]
		}
	case ".rst":
		head, body, line = splitRest(f.Text)
	default:
		head, body, line = splitPlain(f)
	}
	if f.Hidden && !slices.ContainsFunc(head, func(field importer.Field) bool { return field.Key == "status" }) {
		p.Draft = true
	}
	for _, field := range head {
		if err := setField(f, e, &p, field); err != nil {
			return err
		}
	}
	if m := dated.FindString(p.Stem); m != "" && p.Date.IsZero() {
		if t, err := f.Date(importer.Field{Value: m}); err == nil {
			p.Date = t
		}
	}
	p.Links = []string{linkTo("/" + f.Name)}
	if err := f.SetBody(&p, ownLinks(f.Name, body), line); err != nil {
		return err
	}
	if strings.Contains(body, "{static}") || strings.Contains(body, "{attach}") {
		e.Note(f.Name, "it shows files of the site; copy those below the same folder to static")
	}
	p.Image = ownLinks(f.Name, p.Image)
	e.Finish(p)
	return nil
}

func linkTo(name string) string { return importer.LinkPrefix + path.Clean(name) }

// ownLinks replaces Pelican's links to files: {static}images/a.png, {filename}other.md.
func ownLinks(name, text string) string {
	return ownLink.ReplaceAllStringFunc(text, func(s string) string {
		m := ownLink.FindStringSubmatch(s)
		if s[0] == '|' && m[1] != "filename" && m[1] != "static" {
			return s
		}
		to, fragment, _ := strings.Cut(m[2], "#")
		if fragment != "" {
			fragment = "#" + fragment
		}
		if !strings.HasPrefix(to, "/") {
			to = "/" + path.Join(path.Dir(name), to)
		}
		switch m[1] {
		case "filename":
			if ext := path.Ext(to); ext == ".md" || ext == ".rst" || ext == ".html" || ext == ".markdown" {
				return linkTo(to) + fragment
			}
			return path.Clean(to) + fragment
		case "static", "attach":
			return path.Clean(to) + fragment
		case "tag":
			return "/tags/" + content.Slug(m[2]) + "/"
		case "author":
			return "/authors/" + content.Slug(m[2]) + "/"
		}
		return "/"
	})
}

// splitPlain separates the lines before the first blank one from a Markdown text. On a site of Pelican, they
// may be between two lines of ---, and are YAML if they can be: a plug-in reads it.
func splitPlain(f importer.File) (head []importer.Field, body string, line int) {
	lines := strings.Split(f.Text, "\n")
	at := 0
	for ; at < len(lines) && strings.TrimSpace(lines[at]) == ""; at++ {
	}
	fenced := f.Of == "pelican" && at < len(lines) && plainFence.MatchString(lines[at])
	if fenced {
		if fields, body, err := content.Fields(f.Text, f.Name); err == nil {
			return lists.Map(fields, func(f content.HeadField) importer.Field { return importer.Field(f) }), body,
				1 + strings.Count(strings.TrimSuffix(f.Text, body), "\n")
		}
		at++
	}
	for ; at < len(lines); at++ {
		l := strings.TrimRight(lines[at], " \t")
		m := plainField.FindStringSubmatch(l)
		switch {
		case (fenced || len(head) > 0) && plainEnd.MatchString(l):
			return head, strings.Join(lines[at+1:], "\n"), at + 2
		case m != nil:
			head = append(head, importer.Field{Key: strings.ToLower(m[1]), Value: strings.TrimSpace(m[2]), Line: at + 1})
		case len(head) > 0 && strings.HasPrefix(l, "    "):
			last := &head[len(head)-1]
			last.Value = strings.TrimSpace(last.Value + " " + strings.TrimSpace(l))
		default:
			if l != "" && len(head) == 0 || fenced {
				return nil, f.Text, 1
			}
			return head, strings.Join(lines[at:], "\n"), at + 1
		}
	}
	return head, "", at + 1
}

// splitRest separates the title and the list of fields from a reStructuredText.
func splitRest(text string) (head []importer.Field, body string, line int) {
	lines := strings.Split(text, "\n")
	at := 0
	blank := func() {
		for ; at < len(lines) && strings.TrimSpace(lines[at]) == ""; at++ {
		}
	}
	blank()
	title := at
	if at < len(lines) && isRule(lines[at], 3) {
		title++ // a line above the title
	}
	if title+1 < len(lines) && isRule(lines[title+1], min(3, len(lines[title]))) && !isRule(lines[title], 3) {
		head = append(head, importer.Field{Key: "title", Value: strings.TrimSpace(lines[title]), Line: title + 1})
		at = title + 2
	}
	blank()
	for at < len(lines) {
		m := restField.FindStringSubmatch(strings.TrimRight(lines[at], " \t"))
		if m == nil {
			break
		}
		field := importer.Field{Key: strings.ToLower(m[1]), Value: strings.TrimSpace(m[2]), Line: at + 1}
		for at++; at < len(lines) && strings.HasPrefix(lines[at], " ") && strings.TrimSpace(lines[at]) != ""; at++ {
			field.Value = strings.TrimSpace(field.Value + " " + strings.TrimSpace(lines[at]))
		}
		head = append(head, field)
	}
	return head, strings.Join(lines[min(at, len(lines)):], "\n"), at + 1
}

// isRule reports whether a line has one punctuation mark alone, at least so many times.
func isRule(l string, least int) bool {
	l = strings.TrimRight(l, " \t")
	return l != "" && len(l) >= least && ruleLine.MatchString(l) && strings.Trim(l, l[:1]) == ""
}

// htmlFields are those of the head of a document.
func htmlFields(text string) (head []importer.Field) {
	return lists.Map(content.HTMLHead([]byte(text)), func(f content.HeadField) importer.Field { return importer.Field(f) })
}

func setField(f importer.File, e *importer.Export, p *importer.Post, field importer.Field) (err error) {
	if field.Value == "" {
		return nil
	}
	switch field.Key {
	case "title":
		p.Title = field.Value
	case "slug":
		p.Slug = field.Value
	case "date":
		p.Date, err = f.Date(field)
	case "modified", "lastmod":
		p.Updated, err = f.Date(field)
	case "tags", "keywords":
		p.Tags = append(p.Tags, importer.SplitList(field.Value)...)
	case "category":
		p.Tags = append(p.Tags, field.Value)
	case "author", "authors", "author_name":
		p.Author = strings.Join(importer.SplitList(field.Value), ", ")
	case "summary", "description":
		p.Description = field.Value
	case "image", "cover", "featured_image", "header_cover":
		p.Image = field.Value
	case "lang":
		if content.Slug(field.Value) != field.Value || len(field.Value) != 2 {
			return fault.WithFix(fault.New(fault.Invalid, "%s: %q is not a language",
				content.PlaceText(f.Name, field.Line), safetext.Clip(field.Value, 40)), "write two letters, such as fr")
		}
		p.Language = field.Value
	case "draft", "published":
		p.Draft, err = f.Hides(p, field)
	case "status":
		switch strings.ToLower(field.Value) {
		case "published":
		case "draft":
			p.Draft = true
		default:
			p.Draft = true
			e.Note(f.Name, "the status is %s; it becomes a draft", safetext.Clip(field.Value, 40))
		}
	}
	return err
}
