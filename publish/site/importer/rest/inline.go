package rest

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"

	"bakeoff/base/lazy"
)

// The marks of inline text, at the beginning of a piece.
var (
	literalText = lazy.Compile("^(?s)``(\\S|\\S.*?\\S)``")
	strongText  = lazy.Compile(`^(?s)\*\*(\S|\S.*?\S)\*\*`)
	emphasis    = lazy.Compile(`^(?s)\*(\S|\S.*?\S)\*`)
	linkText    = lazy.Compile("^(?s)`([^`]+?)\\s*<([^`<>]+)>`__?")
	namedLink   = lazy.Compile("^(?s)`([^`]+)`_")
	roleText    = lazy.Compile("^(?s):([a-zA-Z][a-zA-Z0-9_:+.-]*):`([^`]+)`")
	titleText   = lazy.Compile("^(?s)`([^`]+)`")
	roleAfter   = lazy.Compile(`^:[a-zA-Z][a-zA-Z0-9_-]*:`)
	address     = lazy.Compile(`^https?://[^\s<>"'` + "`" + `*|\\]*[^\s<>"'` + "`" + `*|\\.,;:!?)\]]`)
	wordLink    = lazy.Compile(`^([\pL\pN](?:[\pL\pN._-]*[\pL\pN])?)_($|[^\pL\pN_])`)
	footLink    = lazy.Compile(`^\[[^\]\s]+\]_`)
	substituted = lazy.Compile(`^\|[^|\s](?:[^|]*[^|\s])?\|`)
)

// roles are the elements of roles.
var roles = map[string]string{"code": "code", "literal": "code", "emphasis": "em", "strong": "strong", "sub": "sub",
	"subscript": "sub", "sup": "sup", "superscript": "sup", "title": "cite", "title-reference": "cite", "t": "cite",
	"kbd": "kbd", "file": "code", "command": "code"}

// inline writes a text with its marks.
func (r *reader) inline(l line) error {
	s := l.text
	before := ' '
	for s != "" {
		n := 0
		if opens(before) {
			var err error
			if n, err = r.mark(s, l); err != nil {
				return err
			}
		}
		if n > 0 {
			before = rune(s[n-1])
			s = s[n:]
			continue
		}
		if s[0] == '\\' && len(s) > 1 {
			_, size := utf8.DecodeRuneInString(s[1:])
			if c := s[1 : 1+size]; c != " " && c != "\n" {
				r.out.WriteString(escapeText(c))
			}
			before, s = 'x', s[1+size:]
			if strings.HasPrefix(s, "`") || strings.HasPrefix(s, "*") || strings.HasPrefix(s, ":") {
				before = ' ' // an escaped space separates marks
			}
			continue
		}
		c, size := utf8.DecodeRuneInString(s)
		r.out.WriteString(escapeText(s[:size]))
		before, s = c, s[size:]
	}
	return nil
}

// opens reports whether a mark may follow a character.
func opens(before rune) bool {
	return unicode.IsSpace(before) || unicode.IsPunct(before) && before != '_' || strings.ContainsRune("<>=+|~$^", before)
}

// mark writes the marked text that begins s, and returns its length; 0 if there is none.
func (r *reader) mark(s string, at line) (int, error) {
	element := func(tag, text, all string) (int, error) {
		r.out.WriteString("<" + tag + ">" + escapeText(text) + "</" + tag + ">")
		return len(all), nil
	}
	link := func(to, text, all string) (int, error) {
		r.out.WriteString(`<a href="` + html.EscapeString(to) + `">` + escapeText(text) + "</a>")
		return len(all), nil
	}
	if m := literalText.FindStringSubmatch(s); m != nil {
		return element("code", m[1], m[0])
	}
	if m := strongText.FindStringSubmatch(s); m != nil {
		return element("strong", unescape(m[1]), m[0])
	}
	if m := emphasis.FindStringSubmatch(s); m != nil && !strings.HasPrefix(s, "**") {
		return element("em", unescape(m[1]), m[0])
	}
	if m := linkText.FindStringSubmatch(s); m != nil {
		to := strings.Join(strings.Fields(m[2]), "")
		if name, ok := strings.CutSuffix(to, "_"); ok && r.targets[targetName(name)] != "" {
			to = r.targets[targetName(name)]
		}
		r.targets[targetName(m[1])] = to
		return link(to, m[1], m[0])
	}
	if m := namedLink.FindStringSubmatch(s); m != nil && !strings.HasPrefix(s[len(m[0]):], "_") {
		to := r.targets[targetName(m[1])]
		if to == "" {
			return 0, r.problem(at, "no target is named %q", m[1])
		}
		return link(to, m[1], m[0])
	}
	if m := roleText.FindStringSubmatch(s); m != nil {
		tag, ok := roles[strings.ToLower(m[1])]
		if !ok {
			return 0, r.problem(at, "the role %q", m[1])
		}
		return element(tag, m[2], m[0])
	}
	if m := titleText.FindStringSubmatch(s); m != nil {
		if strings.HasPrefix(s[len(m[0]):], "__") || roleAfter.MatchString(s[len(m[0]):]) {
			return 0, r.problem(at, "the link or role %q", m[0])
		}
		return element("cite", m[1], m[0])
	}
	if m := address.FindString(s); m != "" {
		return link(m, m, m)
	}
	if m := footLink.FindString(s); m != "" {
		return 0, r.problem(at, "the footnote %q", m)
	}
	if m := substituted.FindString(s); m != "" {
		return 0, r.problem(at, "the substitution %q", m)
	}
	if m := wordLink.FindStringSubmatch(s); m != nil {
		if to := r.targets[targetName(m[1])]; to != "" {
			return link(to, m[1], m[1]+"_")
		}
	}
	return 0, nil
}

// escapeText escapes a text outside of attributes: quotes stay readable in an editor.
func escapeText(s string) string { return textEscapes.Replace(s) }

var textEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// unescape removes the backslashes of a text.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
