package rest

import (
	"strings"

	"golang.org/x/net/html"
)

// explicit writes what two dots begin: a directive, or a comment, which has no HTML.
func (r *reader) explicit(lines []line, depth int) (int, error) {
	n := 1 + indented(lines[1:])
	first := lines[0]
	switch {
	case footnote.MatchString(first.text):
		return 0, r.problem(first, "a footnote or a citation")
	case substitute.MatchString(first.text):
		return 0, r.problem(first, "a substitution")
	case strings.HasPrefix(first.text, ".. _") && strings.HasSuffix(first.text, ":"):
		return 1, nil // a target inside of the page: links to it are refused
	case strings.HasPrefix(first.text, ".. __:"):
		return 0, r.problem(first, "an anonymous target")
	}
	m := directive.FindStringSubmatch(first.text)
	if m == nil {
		return n, nil // a comment
	}
	if strings.EqualFold(strings.TrimSpace(first.text), ".. TEASER_END::") {
		return n, nil
	}
	d := directiveText{name: strings.ToLower(m[1]), argument: m[2], options: map[string]string{}, at: first}
	body := lines[1:n]
	for len(body) > 0 {
		o := option.FindStringSubmatch(strings.TrimSpace(body[0].text))
		if o == nil {
			break
		}
		d.options[strings.ToLower(o[1])] = o[2]
		body = body[1:]
	}
	d.body = body
	return n, r.directive(d, depth)
}

// directiveText is a directive as it stands in the file.
type directiveText struct {
	name, argument string
	options        map[string]string
	body           []line
	at             line
}

// notes are directives that are a paragraph of their own.
var notes = map[string]string{"note": "Note", "warning": "Warning", "tip": "Tip", "hint": "Hint",
	"important": "Important", "caution": "Caution", "attention": "Attention", "danger": "Danger", "error": "Error"}

func (r *reader) directive(d directiveText, depth int) error {
	if title, ok := notes[d.name]; ok {
		body := d.body
		if d.argument != "" {
			body = append([]line{{"   " + d.argument, d.at.number}}, indentedAs(body, "   ")...)
		}
		r.out.WriteString("<blockquote><p><strong>" + title + "</strong></p>\n")
		err := r.blocks(dedent(body), depth+1)
		r.out.WriteString("</blockquote>\n")
		return err
	}
	switch d.name {
	case "code", "code-block", "sourcecode":
		r.code(d.argument, d.body)
	case "image", "figure":
		return r.figure(d, depth)
	case "raw":
		if d.argument != "html" {
			return r.problem(d.at, "raw text of the format %q", d.argument)
		}
		r.out.WriteString(strings.TrimLeft(textOf(dedent(d.body)), "\n"))
	case "pull-quote", "epigraph", "highlights", "compound", "container":
		return r.wrapped("blockquote", d.body, depth)
	case "class":
		return r.blocks(dedent(d.body), depth+1) // of what it holds, or of what follows
	case "contents", "sectnum", "meta":
		// The page has none of them.
	case "youtube":
		address := html.EscapeString("https://www.youtube.com/watch?v=" + strings.TrimSpace(d.argument))
		r.out.WriteString(`<p><a href="` + address + `">` + address + "</a></p>\n")
	default:
		return r.problem(d.at, "the directive %q", d.name)
	}
	return nil
}

// indentedAs gives lines one indentation.
func indentedAs(lines []line, indent string) []line {
	out := dedent(lines)
	for i := range out {
		if !out[i].blank() {
			out[i].text = indent + out[i].text
		}
	}
	return out
}

// figure writes an image with its caption.
func (r *reader) figure(d directiveText, depth int) error {
	r.out.WriteString("<figure>")
	link := d.options["target"]
	if link != "" {
		r.out.WriteString(`<a href="` + html.EscapeString(link) + `">`)
	}
	r.out.WriteString(`<img src="` + html.EscapeString(strings.TrimSpace(d.argument)) + `" alt="` +
		html.EscapeString(d.options["alt"]) + `">`)
	if link != "" {
		r.out.WriteString("</a>")
	}
	var err error
	if strings.TrimSpace(textOf(d.body)) != "" {
		err = r.wrapped("figcaption", d.body, depth)
	}
	r.out.WriteString("</figure>\n")
	return err
}

func textOf(lines []line) string {
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(l.text + "\n")
	}
	return out.String()
}
