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
// in each line, as BSSG reads it. Unknown keys are allowed. A missing title or date is a
// warning; a date that cannot be read, or front matter that does not end, is an error of
// kind fault.Invalid that names the line.
func Parse(text []byte, src Source) (Doc, error) {
	d := Doc{Post: Post{File: src.File, Page: src.Page}, Line: 1}
	if len(text) > MaxFile {
		return d, fault.WithFix(fault.New(fault.Invalid, "%s has more than %d MiB", src.File, MaxFile>>20),
			"split the post")
	}
	front, body, lines, err := split(text, src.File)
	if err != nil {
		return d, err
	}
	d.Body, d.Line = body, lines+1
	d.Language = languageOf(src.File)
	for i, l := range front {
		key, value, ok := strings.Cut(l, ":")
		if !ok || strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		if err := d.set(strings.ToLower(strings.TrimSpace(key)), unquote(value), src.Location); err != nil {
			return d, fault.Wrap(fault.Invalid, place(src.File, i+2), err)
		}
	}
	d.complete(src)
	return d, nil
}

// split returns the lines of the front matter, the text after it, and the number of
// lines before the text.
func split(text []byte, file string) (front []string, body []byte, lines int, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if strings.TrimRight(string(first), "\r \t") != "---" {
		return nil, text, 0, nil
	}
	lines = 1
	for size := 0; len(rest) > 0; {
		var l []byte
		l, rest, _ = bytes.Cut(rest, []byte("\n"))
		lines++
		if strings.TrimRight(string(l), "\r \t") == "---" {
			return front, rest, lines, nil
		}
		if size += len(l); size > maxFront {
			break
		}
		front = append(front, strings.TrimRight(string(l), "\r"))
	}
	return nil, nil, 0, fault.WithFix(fault.New(fault.Invalid, "%s: front matter does not end", file),
		"end it with a line of three dashes (---)")
}

func (d *Doc) set(key, value string, zone *time.Location) (err error) {
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
		d.Secondary = truth(value)
	case "draft":
		d.Draft = truth(value)
	case "date":
		d.Date, err = ParseDate(value, zone)
	case "lastmod":
		if value != "" {
			d.Updated, err = ParseDate(value, zone)
		}
	}
	return err
}

// complete fills in what the front matter left out, and says so.
func (d *Doc) complete(src Source) {
	if d.Title == "" {
		d.Title = strings.TrimSuffix(path.Base(src.File), path.Ext(src.File))
		d.warn("no title; bakeoff uses the file name", "add a line title: … to its front matter")
	}
	if d.Date.IsZero() {
		d.Date = fixed(src.Modified.In(src.Location).Truncate(time.Second))
		if !d.Page {
			d.warn("no date; bakeoff uses the time of the file", "add a line date: 2026-01-31 12:00:00 +0100")
		}
	}
	given := d.Slug
	if d.Slug = Slug(cmpOr(given, d.Title)); d.Slug == "" {
		d.Slug = Slug(strings.TrimSuffix(path.Base(src.File), path.Ext(src.File)))
	}
	if d.Slug == "" {
		d.Slug = "post-" + Short(src.File)
	}
	if !utf8.Valid(d.Body) {
		d.Body = bytes.ToValidUTF8(d.Body, []byte("\ufffd"))
		d.warn("the text is not UTF-8; bakeoff replaces the bytes that are not", "convert the file to UTF-8")
	}
}

func (d *Doc) warn(what, fix string) {
	d.Warnings = append(d.Warnings, safetext.Line(d.File)+": "+what+"; "+fix)
}

// place names a line of a file.
func place(file string, line int) string { return fmt.Sprintf("%s:%d", safetext.Line(file), line) }

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

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		quote := s[:1]
		s = strings.ReplaceAll(s[1:n-1], `\`+quote, quote)
	}
	return s
}

func truth(s string) bool {
	switch strings.ToLower(s) {
	case "true", "yes", "1":
		return true
	}
	return false
}

// languageOf reads the language from a name such as post.it.md.
func languageOf(file string) string {
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
