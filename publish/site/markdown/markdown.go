// Package markdown turns the text of posts into HTML: CommonMark and GFM by goldmark,
// code by chroma with classes, so that a strict Content-Security-Policy permits every
// page. HTML in the text is left out unless the site allows it.
//
// The HTML does not know where it will stand: links into the site begin with a marker,
// and Body.At replaces it by the way to the site's root.
package markdown

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Markers in rendered text. Text cannot contain them: CommonMark replaces NUL, and
// Render replaces the other.
const (
	rootMark = '\x00' // the site's root
	hereMark = '\x01' // the post's own folder
)

// Picture is what is known about an image of the site.
type Picture struct {
	Width, Height int
	Sources       []Source // smaller versions, the smallest first
}

// Source is one version of a picture; Path is below the site's root.
type Source struct {
	Path  string
	Width int
}

// Option is how texts are rendered.
type Option struct {
	RawHTML bool // keep HTML of the text
	Terms   bool // collect the words of texts for a search
	// Picture describes an image below the site's root; nil or false: unknown.
	Picture func(path string) (Picture, bool)
	// Embed returns the HTML of a reference to a run, such as ID/figure, and its
	// problem if there is none; nil: references are links that lead nowhere.
	Embed func(ref, alt string) (html []byte, problem string)
	// RunLink returns the address below the root of a reference to a run; "" or nil: the
	// link leads nowhere.
	RunLink func(ref string) string
	// Done and Open are the words for a checked and an unchecked box.
	Done, Open string
}

// Engine renders texts. It is safe for concurrent use.
type Engine struct {
	md  goldmark.Markdown
	opt Option
}

// New returns an engine.
func New(opt Option) *Engine {
	e := &Engine{opt: opt}
	r := []renderer.Option{renderer.WithNodeRenderers(util.Prioritized(&nodes{opt: opt}, 10))}
	if opt.RawHTML {
		r = append(r, html.WithUnsafe())
	}
	e.md = goldmark.New(
		goldmark.WithExtensions(extension.Linkify, extension.Strikethrough, extension.TaskList, extension.Footnote,
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithASTTransformers(
			util.Prioritized(transformer{}, 100))),
		goldmark.WithRendererOptions(r...),
	)
	return e
}

// Facts are what a text says about itself.
type Facts struct {
	Excerpt string // the first paragraphs as plain text
	Terms   string // words for the search, in lower case, each once
	Words   int
	Images  []string // "\x00" and a path below the root, "\x01" and one below the post, or an address
	Runs    []string
	RawHTML bool
	Dropped []string // elements of HTML that were left out
}

// Rendered is HTML with markers.
type Rendered []byte

// At returns the HTML for a page from which root leads to the site's root ("../../", or
// an address for feeds), and here to the post's own folder ("" on its own page).
func (r Rendered) At(root, here string) []byte {
	if bytes.IndexByte(r, rootMark) < 0 && bytes.IndexByte(r, hereMark) < 0 {
		return r
	}
	out := make([]byte, 0, len(r)+256)
	for _, c := range r {
		switch c {
		case rootMark:
			out = append(out, root...)
		case hereMark:
			out = append(out, here...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// Render returns the HTML of a text and what it says about itself.
func (e *Engine) Render(source []byte) (Rendered, Facts, error) {
	if bytes.IndexByte(source, hereMark) >= 0 {
		source = bytes.ReplaceAll(source, []byte{hereMark}, []byte("\ufffd"))
	}
	if bytes.IndexByte(source, rootMark) >= 0 {
		source = bytes.ReplaceAll(source, []byte{rootMark}, []byte("\ufffd"))
	}
	doc := e.md.Parser().Parse(text.NewReader(source))
	var f Facts
	e.collect(doc, source, &f)
	var out bytes.Buffer
	out.Grow(len(source) + len(source)/2)
	err := e.md.Renderer().Render(&out, source, doc)
	return out.Bytes(), f, err
}

// transformer prepares the tree: headings below the page's own, and alignment by class.
type transformer struct{}

func (transformer) Transform(doc *ast.Document, _ text.Reader, _ parser.Context) {
	top := 7
	var headings []*ast.Heading
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && entering {
			top = min(top, h.Level)
			headings = append(headings, h)
		}
		return ast.WalkContinue, nil
	})
	for _, h := range headings {
		// The page has one heading of the first level: the title.
		h.Level = min(h.Level+max(0, 2-top), 6)
	}
}

// splitDestination splits a destination into the kind of its base and the rest: "/x" is below the
// root, "x" below the post's folder, "#x" and addresses with a scheme are as they are.
func splitDestination(dest string) (marker byte, rest string, inside bool) {
	switch {
	case dest == "" || dest[0] == '#' || dest[0] == '?':
		return 0, dest, false
	case strings.HasPrefix(dest, "//"):
		return 0, dest, false
	case dest[0] == '/':
		return rootMark, dest[1:], true
	case schemeOf(dest) != "":
		return 0, dest, false
	}
	return hereMark, dest, true
}

// schemeOf returns the scheme of an address in lower case, or "".
func schemeOf(dest string) string {
	for i := 0; i < len(dest); i++ {
		c := dest[i] | 0x20
		switch {
		case dest[i] == ':':
			return strings.ToLower(dest[:i])
		case c >= 'a' && c <= 'z' || i > 0 && (dest[i] >= '0' && dest[i] <= '9' || strings.IndexByte("+-.", dest[i]) >= 0):
		default:
			return ""
		}
	}
	return ""
}
