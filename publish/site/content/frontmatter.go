package content

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Source is what Parse must know of a file besides its bytes.
type Source struct {
	File     string         // below the site
	Page     bool           // in the folder of pages
	Modified time.Time      // the date of a file that names none
	Location *time.Location // of dates without a zone
}

// Parse reads a file: front matter between two lines of three dashes, one "key: value"
// in each line, as BSSG reads it. A value of several lines is read as YAML: lists, blocks of
// text. An HTML file may have a head instead. Unknown keys are allowed. A missing title or
// date is a warning. A value that cannot be read, front matter that does not end, and the
// front matter of another program are errors of kind fault.Invalid that name the line:
// published as text, they would show a draft.
func Parse(text []byte, src Source) (Doc, error) {
	d := Doc{Post: Post{File: src.File, Page: src.Page}, Line: 1}
	if len(text) > MaxFile {
		return d, fault.WithFix(fault.New(fault.Invalid, "%s has more than %d MiB", src.File, MaxFile>>20),
			"split the post")
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return d, fault.WithFix(fault.New(fault.Invalid, "%s has zero bytes, so it is not text in UTF-8", src.File),
			"save it as UTF-8")
	}
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
		d.addWarning("the text is not UTF-8; bakeoff replaces the invalid bytes", "convert the file to UTF-8")
	}
	text = bytes.TrimLeftFunc(text, invisible) // a byte order mark is one
	head := text[:min(len(text), maxFront)]
	if bytes.ContainsFunc(head, invisible) {
		head = []byte(visible(string(head)))
	}
	kind, line := foreign(head)
	if first, _, _ := bytes.Cut(text, []byte("\n")); kind == "" && !IsHTML(src.File) && !beginsFront(first) {
		if line = HidingLine(string(head)); line > 0 {
			kind = "not between two lines of ---"
		}
	}
	if kind != "" {
		return d, fault.WithFix(fault.New(fault.Invalid, "%s: this front matter is %s; a file must begin with "+
			"---, lines such as \"title: …\", and a second ---", PlaceText(src.File, line), kind),
			"run bakeoff site import FOLDER SITE, which reads that of Hugo and Pelican, or rewrite the front matter")
	}
	front, body, lines, err := splitFrontMatter(text, src.File)
	if err != nil {
		return d, err
	}
	d.Body, d.Line = body, lines+1
	d.Language = LanguageOf(src.File)
	fields, err := fieldsOf(front)
	if err != nil {
		return d, fault.Wrap(fault.Invalid, safetext.Line(src.File), err)
	}
	if lines == 0 && IsHTML(src.File) {
		fields = htmlHead(text)
	}
	for _, f := range fields {
		if err := d.readField(f, src.Location); err != nil {
			return d, fault.Wrap(fault.Invalid, PlaceText(src.File, f.line), err)
		}
	}
	d.complete(src)
	return d, nil
}

func beginsFront(line []byte) bool { return string(bytes.TrimRight(line, "\r \t")) == "---" }

// splitFrontMatter returns the lines of the front matter, the text after it, and the number of
// lines before the text.
func splitFrontMatter(text []byte, file string) (front []string, body []byte, lines int, err error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if !beginsFront(first) {
		return nil, text, 0, nil
	}
	lines = 1
	for size := 0; len(rest) > 0; {
		var l []byte
		l, rest, _ = bytes.Cut(rest, []byte("\n"))
		lines++
		switch strings.TrimRight(string(l), "\r \t") {
		case "---", "...": // YAML's two ends of a document
			return front, rest, lines, nil
		}
		if size += len(l); size > maxFront {
			break
		}
		front = append(front, strings.TrimRight(string(l), "\r"))
	}
	return nil, nil, 0, fault.WithFix(fault.New(fault.Invalid, "%s: the front matter has no closing line", file),
		"end it with a line of three dashes (---)")
}

// setField takes a value in one line.
func (d *Doc) setField(key, value string, zone *time.Location) (err error) {
	value = safetext.Line(value)
	switch key {
	case "title":
		d.Title = value
	case "slug":
		d.Slug = value
	case "description":
		d.Description = value
	case "image":
		d.Image = value
	case "image_caption":
		d.Caption = value
	case "author_name", "author":
		d.Author = value
	case "author_email":
		d.Email = value
	case "lang", "language":
		d.Language = value
	case "tags":
		d.Tags = tagList(value)
	case "secondary":
		d.Secondary, err = parseTruth(value)
	case "draft", "published", "headless", "status":
		var hides bool
		hides, err = Hides(key, value)
		d.Draft = d.Draft || hides
	case "hidden", "private", "unlisted", "visibility": // other programs
		if value != "" && strings.ToLower(value) != "public" && strings.ToLower(value) != "false" {
			d.addWarning(key+" has no effect here, so the post is published", "write draft: true to hide it")
		}
	case "date":
		d.Date, err = ParseDate(beforeComment(value), zone)
	case "lastmod", "publishdate", "expirydate":
		if value != "" {
			at := map[string]*time.Time{"lastmod": &d.Updated, "publishdate": &d.From, "expirydate": &d.Until}[key]
			*at, err = ParseDate(beforeComment(value), zone)
		}
	case "categories", "category", "taxonomies":
		if value != "" || key == "taxonomies" { // Zola's taxonomies are in the lines after it
			d.addWarning("bakeoff does not use "+key, "add them to tags; bakeoff site import does")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// complete fills in what the front matter left out, and says so.
func (d *Doc) complete(src Source) {
	if d.Title == "" {
		d.Title = strings.TrimSuffix(path.Base(src.File), path.Ext(src.File))
		d.addWarning("no title; bakeoff uses the file name", "add a line title: … to its front matter")
	}
	if d.Date.IsZero() {
		d.Date = d.From
	}
	if d.Date.IsZero() {
		d.Date = withoutZoneName(src.Modified.In(src.Location).Truncate(time.Second))
		if !d.Page {
			d.addWarning("no date; bakeoff uses the time of the file", "add a line date: 2026-01-31 12:00:00 +0100")
		}
	}
	given := d.Slug
	if d.Slug = Slug(cmpOr(given, d.Title)); d.Slug == "" {
		d.Slug = Slug(strings.TrimSuffix(path.Base(src.File), path.Ext(src.File)))
	}
	if d.Slug == "" {
		d.Slug = "post-" + Short(src.File)
	}
	if line := markupLine(d.Body); line > 0 && !IsHTML(src.File) {
		d.addWarning(fmt.Sprintf("line %d has a shortcode of Hugo or a tag of Jekyll, which bakeoff shows as text",
			d.Line+line-1), "write it in Markdown")
	}
}

// markupLine returns the first line of a text in Markdown with a shortcode of Hugo, or a tag of Jekyll, outside
// of blocks of code and before the first quote of code; 0 if there is none.
func markupLine(body []byte) int {
	number, fence := 0, ""
	for line := range bytes.Lines(body) {
		number++
		text := strings.TrimSpace(string(line))
		switch {
		case fence != "":
			if strings.HasPrefix(text, fence) {
				fence = ""
			}
		case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
			fence = text[:3]
		case bytes.HasPrefix(line, []byte("    ")), bytes.HasPrefix(line, []byte("\t")):
		default:
			text, _, _ = strings.Cut(text, "`")
			if strings.Contains(text, "{{<") || strings.Contains(text, "{{%") || strings.Contains(text, "{% ") {
				return number
			}
		}
	}
	return 0
}

func (d *Doc) addWarning(what, fix string) {
	d.Warnings = append(d.Warnings, safetext.Line(d.File)+": "+what+"; "+fix)
}

// PlaceText names a line of a file.
func PlaceText(file string, line int) string { return fmt.Sprintf("%s:%d", safetext.Line(file), line) }

func cmpOr(a, b string) string {
	if strings.TrimSpace(a) != "" {
		return a
	}
	return b
}

// tagList splits at commas; YAML's brackets and quotes are removed. A tag appears once.
func tagList(value string) []string {
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		value = value[1 : len(value)-1]
	}
	var out []string
	seen := map[string]bool{}
	for _, t := range strings.Split(value, ",") {
		t = strings.Join(strings.Fields(unquote(t)), " ")
		if key := Slug(t); key != "" && !seen[key] && len(out) < maxTags {
			seen[key] = true
			out = append(out, safetext.Clip(t, 80))
		}
	}
	return out
}

// unquote removes quotes around a text, unless they end inside it. A quote in it has a backslash,
// or, in single quotes, is doubled.
func unquote(s string) string {
	s = strings.TrimSpace(s)
	n := len(s)
	if n < 2 || s[0] != '"' && s[0] != '\'' || s[n-1] != s[0] {
		return s
	}
	quote := s[:1]
	escapes := []string{`\` + quote}
	if quote == "'" {
		escapes = append(escapes, "''")
	}
	inner, bare := s[1:n-1], s[1:n-1]
	for _, e := range escapes {
		inner, bare = strings.ReplaceAll(inner, e, quote), strings.ReplaceAll(bare, e, "")
	}
	if strings.Contains(bare, quote) {
		return s
	}
	return inner
}

// beforeComment returns a value that cannot contain " #" without the comment after it.
func beforeComment(value string) string {
	before, _, _ := strings.Cut(value, " #")
	return before
}

// parseTruth reads YAML's words for true and false, with a comment after them. Another word is
// an error: nobody knows whether it keeps a draft from being published.
func parseTruth(s string) (bool, error) {
	switch strings.ToLower(unquote(beforeComment(s))) {
	case "true", "yes", "1", "on", "y":
		return true, nil
	case "", "false", "no", "0", "off", "n", "null", "~":
		return false, nil
	}
	return false, fault.WithFix(fault.New(fault.Invalid, "%q is neither true nor false", safetext.Clip(s, 40)),
		"write true or false")
}

// LanguageOf reads the language from a name such as post.it.md; "" if it has none.
func LanguageOf(file string) string {
	stem := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if l := strings.TrimPrefix(path.Ext(stem), "."); len(l) == 2 && strings.ToLower(l) == l && Slug(l) == l {
		return l
	}
	return ""
}

// Stem returns what a file shares with its translations: its name without the language.
func Stem(file, language string) string {
	stem := strings.TrimSuffix(file, path.Ext(file))
	return strings.TrimSuffix(stem, "."+language)
}
