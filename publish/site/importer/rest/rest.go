// Package rest turns reStructuredText into HTML: the part of it that blogs use
// (https://docutils.sourceforge.io/docs/ref/rst/restructuredtext.html). What it does not know
// is an error with its line: a text that lost a part would look complete.
package rest

import (
	"fmt"
	"strings"

	"golang.org/x/net/html"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/base/safetext"
	"bakeoff/publish/site/content"
)

// maxDepth bounds how deeply lists and quotations are nested.
const maxDepth = 50

// Fix says what to do with a text that the package cannot read.
const Fix = "convert the file with pandoc -f rst -t gfm, or change the line"

// line is a line of the source.
type line struct {
	text   string
	number int
}

func (l line) blank() bool { return strings.TrimSpace(l.text) == "" }

func (l line) indent() int { return len(l.text) - len(strings.TrimLeft(l.text, " ")) }

// reader turns the lines of a file into HTML.
type reader struct {
	file    string
	out     strings.Builder
	styles  []string          // of headings, the highest level first
	targets map[string]string // addresses by their names
}

// ToHTML returns the HTML of a text whose first line has the number first. An error is of kind
// fault.Invalid and names the file and the line.
func ToHTML(text, file string, first int) (string, error) {
	if len(text) > content.MaxFile {
		return "", fault.WithFix(fault.New(fault.Invalid, "%s has more than %d MiB", file, content.MaxFile>>20),
			"split the post")
	}
	r := reader{file: file, targets: map[string]string{}}
	var lines []line
	for i, l := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		l = strings.TrimRight(strings.ReplaceAll(l, "\t", "        "), " ")
		if m := target.FindStringSubmatch(l); m != nil {
			r.targets[targetName(m[1]+m[2])] = m[3]
			l = ""
		}
		lines = append(lines, line{l, first + i})
	}
	if err := r.blocks(lines, 0); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

// targetName compares names as reStructuredText does.
func targetName(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

func (r *reader) problem(at line, format string, args ...any) error {
	return fault.WithFix(fault.New(fault.Invalid, "%s:%d: bakeoff cannot turn this reStructuredText into HTML: %s",
		safetext.Line(r.file), at.number, safetext.Clip(safetext.Line(fmt.Sprintf(format, args...)), 120)), Fix)
}

var (
	target     = lazy.Compile("^\\.\\. _(?:`([^`]+)`|([^:`]+)): +(\\S+)$")
	bullet     = lazy.Compile(`^([*+•-])( +|$)`)
	numbered   = lazy.Compile(`^(?:\(?([0-9]{1,9}|[a-zA-Z#])[.)])( +|$)`)
	directive  = lazy.Compile(`^\.\. ([a-zA-Z0-9_:-]+?)::(?: +(.*))?$`)
	option     = lazy.Compile(`^:([a-zA-Z0-9_-]+):(?: +(.*))?$`)
	footnote   = lazy.Compile(`^\.\. \[[^\]]+\]`)
	substitute = lazy.Compile(`^\.\. \|[^|]+\|`)
	simpleRule = lazy.Compile(`^=+( +=+)+$`)
	gridRule   = lazy.Compile(`^\+([-=]+\+)+$`)
)

// blocks writes the elements of lines that have the same indentation, or more.
func (r *reader) blocks(lines []line, depth int) error {
	if depth > maxDepth && len(lines) > 0 {
		return r.problem(lines[0], "it is nested more than %d times", maxDepth)
	}
	for len(lines) > 0 {
		if lines[0].blank() {
			lines = lines[1:]
			continue
		}
		n, err := r.block(lines, depth)
		if err != nil {
			return err
		}
		lines = lines[max(n, 1):]
	}
	return nil
}

// block writes the element that begins a text, and returns how many lines it has.
func (r *reader) block(lines []line, depth int) (int, error) {
	l := lines[0].text
	switch {
	case strings.HasPrefix(l, " "):
		n := indented(lines)
		return n, r.wrapped("blockquote", lines[:n], depth)
	case strings.HasPrefix(l, ".."):
		return r.explicit(lines, depth)
	case simpleRule.MatchString(l):
		return r.simpleTable(lines)
	case gridRule.MatchString(l):
		return 0, r.problem(lines[0], "a table with a grid")
	case r.headingAt(lines) > 0:
		return r.heading(lines)
	case isRule(l) && len(l) >= 4:
		r.out.WriteString("<hr>\n")
		return 1, nil
	case bullet.MatchString(l):
		return r.list(lines, "ul", bullet, depth)
	case numbered.MatchString(l) && !continues(lines):
		return r.list(lines, "ol", numbered, depth)
	case strings.HasPrefix(l, "| "):
		return r.lineBlock(lines)
	case option.MatchString(l):
		return 0, r.problem(lines[0], "a list of fields")
	case strings.HasPrefix(l, ">>> "):
		n := until(lines, line.blank)
		r.code("pycon", lines[:n])
		return n, nil
	case len(lines) > 1 && lines[1].indent() > 0 && !lines[1].blank():
		return r.definitions(lines, depth)
	}
	return r.paragraph(lines, depth)
}

// continues reports whether a line with a number begins a paragraph: its second line has no
// indentation.
func continues(lines []line) bool {
	return len(lines) > 1 && !lines[1].blank() && lines[1].indent() == 0 && !numbered.MatchString(lines[1].text)
}

// until counts the lines before the first one with a property.
func until(lines []line, ends func(line) bool) int {
	for i, l := range lines {
		if i > 0 && ends(l) {
			return i
		}
	}
	return len(lines)
}

// indented counts the lines of an indented text, with the blank ones between them.
func indented(lines []line) int {
	n := 0
	for i, l := range lines {
		if !l.blank() && l.indent() == 0 {
			break
		}
		if !l.blank() {
			n = i + 1
		}
	}
	return n
}

// dedent removes the common indentation.
func dedent(lines []line) []line {
	least := -1
	for _, l := range lines {
		if !l.blank() && (least < 0 || l.indent() < least) {
			least = l.indent()
		}
	}
	out := make([]line, len(lines))
	for i, l := range lines {
		out[i] = line{l.text[min(max(least, 0), len(l.text)):], l.number}
	}
	return out
}

// wrapped writes indented lines inside of an element.
func (r *reader) wrapped(tag string, lines []line, depth int) error {
	r.out.WriteString("<" + tag + ">")
	err := r.blocks(dedent(lines), depth+1)
	r.out.WriteString("</" + tag + ">\n")
	return err
}

// isRule reports whether a line is one character of punctuation, repeated.
func isRule(s string) bool {
	if len(s) < 2 || !strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", rune(s[0])) {
		return false
	}
	return strings.Trim(s, s[:1]) == ""
}

// headingAt returns the number of lines of a heading, 0 if there is none.
func (r *reader) headingAt(lines []line) int {
	if len(lines) >= 3 && isRule(lines[0].text) && !lines[1].blank() && lines[2].text == lines[0].text {
		return 3
	}
	if len(lines) >= 2 && !isRule(lines[0].text) && isRule(lines[1].text) && lines[0].indent() == 0 &&
		(len(lines[1].text) >= len([]rune(lines[0].text)) || len(lines[1].text) >= 4) {
		return 2
	}
	return 0
}

func (r *reader) heading(lines []line) (int, error) {
	n := r.headingAt(lines)
	text, style := lines[n-2], lines[n-1].text[:1]
	if n == 3 {
		style += "over"
	}
	level := 0
	for level < len(r.styles) && r.styles[level] != style {
		level++
	}
	if level == len(r.styles) {
		if level == 6 {
			return 0, r.problem(text, "headings have more than six levels")
		}
		r.styles = append(r.styles, style)
	}
	r.out.WriteString(fmt.Sprintf("<h%d>", level+1))
	err := r.inline(line{strings.TrimSpace(text.text), text.number})
	r.out.WriteString(fmt.Sprintf("</h%d>\n", level+1))
	return n, err
}

// list writes a list whose items begin with a mark.
func (r *reader) list(lines []line, tag string, mark *lazy.Regexp, depth int) (int, error) {
	start := ""
	if m := numbered.FindStringSubmatch(lines[0].text); m != nil && tag == "ol" {
		switch first := m[1]; {
		case first == "a" || first == "A" || first == "i" || first == "I":
			start = ` type="` + first + `"`
		case first != "1" && first != "#" && first[0] >= '0' && first[0] <= '9':
			start = ` start="` + first + `"`
		}
	}
	r.out.WriteString("<" + tag + start + ">")
	at := 0
	for at < len(lines) && mark.MatchString(lines[at].text) {
		n := 1 + indented(lines[at+1:])
		item := append([]line{}, lines[at:at+n]...)
		width := len(mark.FindString(item[0].text))
		item[0].text = strings.Repeat(" ", width) + item[0].text[width:]
		r.out.WriteString("<li>")
		if err := r.item(dedent(item), depth); err != nil {
			return 0, err
		}
		r.out.WriteString("</li>\n")
		for at += n; at < len(lines) && lines[at].blank(); at++ {
		}
	}
	r.out.WriteString("</" + tag + ">\n")
	return at, nil
}

// item writes an item; one paragraph needs no element.
func (r *reader) item(lines []line, depth int) error {
	for _, l := range lines {
		if l.blank() || l.indent() > 0 || bullet.MatchString(l.text) || strings.HasPrefix(l.text, "..") {
			return r.blocks(lines, depth+1)
		}
	}
	if len(lines) > 0 && strings.HasSuffix(lines[len(lines)-1].text, "::") {
		return r.blocks(lines, depth+1)
	}
	return r.inline(joined(lines))
}

// lineBlock writes lines that stay lines.
func (r *reader) lineBlock(lines []line) (int, error) {
	n := until(lines, func(l line) bool { return !strings.HasPrefix(l.text, "|") })
	r.out.WriteString("<p>")
	for i, l := range lines[:n] {
		if i > 0 {
			r.out.WriteString("<br>\n")
		}
		if err := r.inline(line{strings.TrimSpace(l.text[1:]), l.number}); err != nil {
			return 0, err
		}
	}
	r.out.WriteString("</p>\n")
	return n, nil
}

// definitions writes terms with their indented definitions.
func (r *reader) definitions(lines []line, depth int) (int, error) {
	r.out.WriteString("<dl>")
	at := 0
	for at+1 < len(lines) && lines[at].indent() == 0 && !lines[at].blank() && lines[at+1].indent() > 0 {
		r.out.WriteString("<dt>")
		if err := r.inline(lines[at]); err != nil {
			return 0, err
		}
		r.out.WriteString("</dt>")
		n := indented(lines[at+1:])
		if err := r.wrapped("dd", lines[at+1:at+1+n], depth); err != nil {
			return 0, err
		}
		for at += 1 + n; at < len(lines) && lines[at].blank(); at++ {
		}
	}
	r.out.WriteString("</dl>\n")
	return at, nil
}

// paragraph writes a paragraph, and the literal text that two colons at its end announce.
func (r *reader) paragraph(lines []line, depth int) (int, error) {
	n := until(lines, line.blank)
	text := joined(lines[:n])
	literal := strings.HasSuffix(text.text, "::")
	if literal {
		text.text = strings.TrimSuffix(text.text, ":")
		if before := strings.TrimSuffix(text.text, " :"); before != text.text || text.text == ":" {
			text.text = strings.TrimSpace(strings.TrimSuffix(text.text, ":"))
		}
	}
	if text.text != "" {
		r.out.WriteString("<p>")
		if err := r.inline(text); err != nil {
			return 0, err
		}
		r.out.WriteString("</p>\n")
	}
	if !literal {
		return n, nil
	}
	more := indented(lines[n:])
	if more == 0 {
		return 0, r.problem(lines[n-1], "no indented text follows the two colons")
	}
	r.code("", lines[n:n+more])
	return n + more, nil
}

func joined(lines []line) line {
	words := lists.Map(lines, func(l line) string { return strings.TrimSpace(l.text) })
	return line{strings.Join(words, "\n"), lines[0].number}
}

// code writes literal text.
func (r *reader) code(language string, lines []line) {
	for len(lines) > 0 && lines[0].blank() {
		lines = lines[1:]
	}
	class := ""
	if language != "" {
		class = ` class="language-` + html.EscapeString(language) + `"`
	}
	r.out.WriteString("<pre><code" + class + ">")
	for _, l := range dedent(lines) {
		r.out.WriteString(escapeText(l.text) + "\n")
	}
	r.out.WriteString("</code></pre>\n")
}

// simpleTable writes a table between rules of equal signs.
func (r *reader) simpleTable(lines []line) (int, error) {
	var starts []int
	rule := lines[0].text
	for i := range rule {
		if rule[i] == '=' && (i == 0 || rule[i-1] == ' ') {
			starts = append(starts, i)
		}
	}
	var rules []int
	end := 0
	for i, l := range lines {
		if simpleRule.MatchString(l.text) {
			rules = append(rules, i)
			if i > 0 && (len(rules) == 3 || i+1 == len(lines) || lines[i+1].blank()) {
				end = i + 1
				break
			}
		}
	}
	if end == 0 {
		return 0, r.problem(lines[0], "a table without its last rule")
	}
	r.out.WriteString("<table>")
	tag := "td"
	if len(rules) == 3 {
		tag = "th"
	}
	for _, l := range lines[1 : end-1] {
		switch {
		case simpleRule.MatchString(l.text):
			tag = "td"
			continue
		case l.blank():
			continue
		case strings.Trim(l.text, "- ") == "" || strings.HasPrefix(l.text, " "):
			return 0, r.problem(l, "a table whose cells span lines or columns")
		}
		r.out.WriteString("<tr>")
		runes := []rune(l.text)
		for c, from := range starts {
			to := len(runes)
			if c+1 < len(starts) {
				to = min(starts[c+1], len(runes))
			}
			r.out.WriteString("<" + tag + ">")
			if from < to {
				if err := r.inline(line{strings.TrimSpace(string(runes[from:to])), l.number}); err != nil {
					return 0, err
				}
			}
			r.out.WriteString("</" + tag + ">")
		}
		r.out.WriteString("</tr>\n")
	}
	r.out.WriteString("</table>\n")
	return end, nil
}
