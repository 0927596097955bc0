package markdown

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/lists"
	"bakeoff/publish/site/content"
)

// elements are those that an HTML text may have, with the attributes of each. Every other
// element is left out and its text stays.
var elements = map[atom.Atom]string{
	atom.A:          "href",
	atom.Abbr:       "",
	atom.Address:    "",
	atom.Article:    "",
	atom.Aside:      "",
	atom.B:          "",
	atom.Bdi:        "",
	atom.Bdo:        "",
	atom.Blockquote: "",
	atom.Br:         "",
	atom.Caption:    "",
	atom.Cite:       "",
	atom.Code:       "",
	atom.Col:        "span",
	atom.Colgroup:   "span",
	atom.Dd:         "",
	atom.Del:        "datetime",
	atom.Details:    "open",
	atom.Dfn:        "",
	atom.Div:        "",
	atom.Dl:         "",
	atom.Dt:         "",
	atom.Em:         "",
	atom.Figcaption: "",
	atom.Figure:     "",
	atom.Footer:     "",
	atom.H1:         "",
	atom.H2:         "",
	atom.H3:         "",
	atom.H4:         "",
	atom.H5:         "",
	atom.H6:         "",
	atom.Header:     "",
	atom.Hr:         "",
	atom.I:          "",
	atom.Img:        "",
	atom.Ins:        "datetime",
	atom.Kbd:        "",
	atom.Li:         "value",
	atom.Mark:       "",
	atom.Ol:         "start reversed type",
	atom.P:          "",
	atom.Pre:        "",
	atom.Q:          "",
	atom.Rp:         "",
	atom.Rt:         "",
	atom.Ruby:       "",
	atom.S:          "",
	atom.Samp:       "",
	atom.Section:    "",
	atom.Small:      "",
	atom.Span:       "",
	atom.Strong:     "",
	atom.Sub:        "",
	atom.Summary:    "",
	atom.Sup:        "",
	atom.Table:      "",
	atom.Tbody:      "",
	atom.Td:         "colspan rowspan headers",
	atom.Tfoot:      "",
	atom.Th:         "colspan rowspan headers scope",
	atom.Thead:      "",
	atom.Time:       "datetime",
	atom.Tr:         "",
	atom.U:          "",
	atom.Ul:         "",
	atom.Var:        "",
	atom.Wbr:        "",
}

// general are the attributes that every element may have.
const general = "id title lang dir"

// hiddenElements are left out with their text, because readers do not see it. Those that
// are true are named in a warning.
var hiddenElements = map[string]bool{"script": true, "style": true, "object": true, "embed": true, "applet": true,
	"svg": true, "math": true, "template": true, "form": true, "select": true, "textarea": true, "canvas": true,
	"noscript": false, "title": false, "meta": false, "link": false, "base": true, "frameset": true, "noembed": true,
	"noframes": true, "plaintext": true, "xmp": true, "input": false, "button": true, "source": false, "track": false}

// A bound in an expression copies its class as often: compiling these with their bounds took
// half of the time that every start of bakeoff needs.
var (
	safeID    = bounded{lazy.Compile(`^[\pL_][\pL\pN_.:-]*$`), 201}
	safeValue = bounded{lazy.Compile(`^[\pL\pN_.:+ -]*$`), 100}
)

// bounded is an expression for texts of at most this many characters.
type bounded struct {
	*lazy.Regexp
	most int
}

// MatchString tells whether the text is short enough and matches.
func (b bounded) MatchString(text string) bool {
	return utf8.RuneCountInString(text) <= b.most && b.Regexp.MatchString(text)
}

// RenderHTML returns the HTML of a text that is HTML, and what it says about itself. Without
// RawHTML, elements and attributes that could run, load or submit something are left out; an
// element that embeds another page becomes a link to it. HTML that is nested too deeply is an
// error of kind fault.Invalid.
func (e *Engine) RenderHTML(source []byte) (Rendered, Facts, error) {
	source = bytes.Map(func(r rune) rune {
		if r == hereMark || r == rootMark {
			return '\ufffd'
		}
		return r
	}, source)
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	parsed, err := html.ParseFragment(bytes.NewReader(source), body)
	if err != nil {
		return nil, Facts{}, fault.WithFix(fault.Wrap(fault.Invalid, "html", err), "nest its elements less deeply")
	}
	w := htmlWriter{nodes: nodes{opt: e.opt}, prose: prose{keepTerms: e.opt.Terms}, ids: map[string]bool{},
		dropped: map[string]bool{}, top: 7}
	for _, n := range parsed {
		w.findTop(n)
	}
	for _, n := range parsed {
		w.writeNode(n)
	}
	w.facts.Dropped = slices.Sorted(maps.Keys(w.dropped))
	w.prose.finish(&w.facts)
	return w.out.Bytes(), w.facts, w.problem
}

// htmlWriter writes a tree of HTML for a page of the site.
type htmlWriter struct {
	nodes
	prose
	out     bytes.Buffer
	facts   Facts
	top     int             // the highest level of its headings
	ids     map[string]bool // that were given
	dropped map[string]bool // elements that were left out
	heading bool            // inside of a heading
	problem error
}

// findTop finds the highest level of headings, and the identifiers.
func (w *htmlWriter) findTop(n *html.Node) {
	for c := range n.Descendants() {
		w.top = min(w.top, headingLevel(c))
	}
	w.top = min(w.top, headingLevel(n))
}

// headingLevel returns 1 to 6 for a heading, and 7 for what is none.
func headingLevel(n *html.Node) int {
	if n.Type == html.ElementNode && len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
		return int(n.Data[1] - '0')
	}
	return 7
}

func (w *htmlWriter) writeChildren(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		w.writeNode(c)
	}
}

func (w *htmlWriter) writeNode(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		w.writeText(n)
	case html.ElementNode:
		w.writeElement(n)
	}
}

func (w *htmlWriter) writeText(n *html.Node) {
	if w.opt.RawHTML && n.Parent != nil && rawText[n.Parent.Data] {
		w.out.WriteString(n.Data) // neither text nor words of the post
		return
	}
	w.prose.add(&w.facts, n.Data, w.heading)
	w.out.WriteString(html.EscapeString(n.Data))
}

// rawText are elements whose text is not escaped.
var rawText = map[string]bool{"script": true, "style": true, "iframe": true, "noembed": true, "noframes": true,
	"plaintext": true, "xmp": true, "noscript": true}

func (w *htmlWriter) writeElement(n *html.Node) {
	switch {
	case n.DataAtom == atom.Img:
		w.writeImage(n)
		return
	case n.DataAtom == atom.Pre:
		w.writePre(n)
		return
	case n.DataAtom == atom.P && onlyRun(n):
		w.writeChildren(n) // the figure is a block
		return
	case w.opt.RawHTML && n.DataAtom != atom.Title && n.DataAtom != atom.Meta:
	case n.DataAtom == atom.Iframe, n.DataAtom == atom.Video, n.DataAtom == atom.Audio:
		w.writeEmbedded(n)
		return
	default:
		if named, hide := hiddenElements[n.Data]; hide || n.Namespace != "" {
			if named {
				w.dropped[n.Data] = true
			}
			return
		}
		if _, ok := elements[n.DataAtom]; !ok {
			w.writeChildren(n)
			return
		}
	}
	w.writeTag(n)
}

// writeTag writes an element that is kept.
func (w *htmlWriter) writeTag(n *html.Node) {
	tag, end := n.Data, ""
	level := headingLevel(n)
	if level <= 6 {
		// The page has one heading of the first level: the title.
		tag, w.heading = fmt.Sprintf("h%d", min(level+max(0, 2-w.top), 6)), true
	}
	if n.DataAtom == atom.Table {
		w.out.WriteString(`<div class="scroll" tabindex="0">`)
		end = "</div>"
	}
	w.out.WriteString("<" + tag)
	w.writeAttributes(n)
	w.out.WriteByte('>')
	if void[n.DataAtom] {
		w.prose.separate()
		return
	}
	w.writeChildren(n)
	w.out.WriteString("</" + tag + ">" + end)
	if level <= 6 {
		w.heading = false
	}
	if !inline[n.DataAtom] {
		w.prose.separate()
	}
}

var void = map[atom.Atom]bool{atom.Br: true, atom.Hr: true, atom.Col: true, atom.Wbr: true, atom.Input: true,
	atom.Source: true, atom.Track: true, atom.Area: true, atom.Embed: true, atom.Link: true, atom.Base: true,
	atom.Param: true}

// inline are elements that do not end a word.
var inline = map[atom.Atom]bool{atom.A: true, atom.Abbr: true, atom.B: true, atom.Code: true, atom.Em: true,
	atom.I: true, atom.S: true, atom.Small: true, atom.Span: true, atom.Strong: true, atom.Sub: true, atom.Sup: true,
	atom.U: true, atom.Mark: true, atom.Kbd: true, atom.Q: true, atom.Var: true, atom.Samp: true}

func (w *htmlWriter) writeAttributes(n *html.Node) {
	allowedHere := strings.Fields(elements[n.DataAtom] + " " + general)
	id := ""
	for _, a := range n.Attr {
		switch {
		case a.Namespace != "":
		case a.Key == "id" || a.Key == "name" && n.DataAtom == atom.A:
			if id == "" && safeID.MatchString(a.Val) && !w.ids[a.Val] {
				id = a.Val
			}
		case a.Key == "href" && n.DataAtom == atom.A:
			w.writeHref(a.Val)
		case w.opt.RawHTML || slices.Contains(allowedHere, a.Key) && (a.Key == "title" || safeValue.MatchString(a.Val)):
			w.writeAttribute(a.Key, a.Val)
		case a.Key == "align" && (n.DataAtom == atom.Td || n.DataAtom == atom.Th) && alignments[a.Val]:
			w.writeAttribute("class", "align-"+a.Val)
		}
	}
	if headingLevel(n) <= 6 && id == "" {
		id = w.uniqueID(content.Slug(textOf(n)))
	}
	if id != "" {
		w.ids[id] = true
		w.writeAttribute("id", id)
	}
}

var alignments = map[string]bool{"left": true, "center": true, "right": true}

// uniqueID returns an identifier that no other element has.
func (w *htmlWriter) uniqueID(base string) string {
	base = cmp.Or(base, "heading")
	id := base
	for i := 1; w.ids[id]; i++ {
		id = fmt.Sprintf("%s-%d", base, i)
	}
	return id
}

func (w *htmlWriter) writeAttribute(key, value string) {
	w.out.WriteString(" " + key + `="` + html.EscapeString(value) + `"`)
}

// writeHref writes the address of a link.
func (w *htmlWriter) writeHref(dest string) {
	dest = strings.TrimSpace(dest)
	if ref, ok := strings.CutPrefix(dest, "run:"); ok {
		w.facts.Runs = append(w.facts.Runs, ref)
	}
	w.buffered(func(out util.BufWriter) { w.nodes.writeHref(out, dest) })
}

// buffered calls f with a writer of the type that goldmark's functions want.
func (w *htmlWriter) buffered(f func(util.BufWriter)) { f(bufWriter{&w.out}) }

// bufWriter makes a buffer a writer of goldmark.
type bufWriter struct{ *bytes.Buffer }

func (bufWriter) Flush() error   { return nil }
func (bufWriter) Buffered() int  { return 0 }
func (bufWriter) Available() int { return 0 }

// writeImage writes an image as Markdown's are written.
func (w *htmlWriter) writeImage(n *html.Node) {
	dest, alt := strings.TrimSpace(attribute(n, "src")), attribute(n, "alt")
	w.facts.addImage(dest)
	w.prose.add(&w.facts, alt, w.heading)
	var title []byte
	if t := attribute(n, "title"); t != "" {
		title = []byte(t)
	}
	size := ""
	if wide, high := attribute(n, "width"), attribute(n, "height"); pixels.MatchString(wide) &&
		pixels.MatchString(high) {
		size = fmt.Sprintf(` width="%s" height="%s"`, wide, high)
	}
	w.buffered(func(out util.BufWriter) {
		if err := w.nodes.image(out, dest, alt, title, size); err != nil && w.problem == nil {
			w.problem = err
		}
	})
}

var pixels = lazy.Compile(`^[1-9][0-9]{0,4}$`)

// writePre writes a block of code, highlighted if it names its language as HTML's
// specification proposes: <code class="language-go">.
func (w *htmlWriter) writePre(n *html.Node) {
	language := ""
	for c := range n.Descendants() {
		for class := range strings.FieldsSeq(attribute(c, "class")) {
			if l, ok := strings.CutPrefix(class, "language-"); ok {
				language = l
			}
		}
	}
	w.buffered(func(out util.BufWriter) {
		if err := writeHighlighted(out, language, textOf(n)); err != nil && w.problem == nil {
			w.problem = err
		}
	})
}

// writeEmbedded writes a link to what an element would embed: the policy of the pages does not
// let it load.
func (w *htmlWriter) writeEmbedded(n *html.Node) {
	address := attribute(n, "src")
	for c := range n.Descendants() {
		if address == "" && c.DataAtom == atom.Source {
			address = attribute(c, "src")
		}
	}
	if strings.HasPrefix(address, "//") {
		address = "https:" + address
	}
	if s := schemeOf(strings.TrimSpace(address)); address == "" || !allowed[s] {
		w.dropped[n.Data] = true
		return
	}
	w.out.WriteString("<a")
	w.writeHref(address)
	w.out.WriteString(">" + html.EscapeString(address) + "</a> ")
}

// onlyRun reports whether a paragraph holds nothing but the figure of a run.
func onlyRun(n *html.Node) bool {
	runs := 0
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		switch {
		case c.Type == html.TextNode && strings.TrimSpace(c.Data) == "":
		case c.DataAtom == atom.Img && strings.HasPrefix(attribute(c, "src"), "run:"):
			runs++
		default:
			return false
		}
	}
	return runs > 0
}

func attribute(n *html.Node, key string) string {
	a, _ := lists.Find(n.Attr, func(a html.Attribute) bool { return a.Key == key && a.Namespace == "" })
	return a.Val
}

// textOf returns the text of a node without markup.
func textOf(n *html.Node) string {
	var out strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			out.WriteString(c.Data)
		} else if c.DataAtom == atom.Br {
			out.WriteByte('\n')
		}
	}
	return out.String()
}
