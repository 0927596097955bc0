package markdown

import (
	"fmt"
	"strings"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// nodes renders what stands differently on a site than in plain CommonMark.
type nodes struct{ opt Option }

// RegisterFuncs implements renderer.NodeRenderer.
func (n *nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindLink, n.writeLink)
	r.Register(ast.KindAutoLink, n.autoLink)
	r.Register(ast.KindImage, n.writeImage)
	r.Register(ast.KindParagraph, n.paragraph)
	r.Register(ast.KindHeading, n.heading)
	r.Register(ast.KindFencedCodeBlock, n.writeCode)
	r.Register(ast.KindCodeBlock, n.writeCode)
	r.Register(east.KindTable, n.writeTable)
	r.Register(east.KindTableCell, n.writeCell)
	r.Register(east.KindTaskCheckBox, n.checkBox)
	r.Register(ast.KindRawHTML, n.rawInline)
	r.Register(ast.KindHTMLBlock, n.rawBlock)
}

// writeAddress writes the value of an href or src attribute.
func writeAddress(w util.BufWriter, dest []byte) {
	marker, rest, inside := splitDestination(string(dest))
	if inside {
		w.WriteByte(marker)
	}
	if first, _, _ := strings.Cut(rest, "/"); marker == hereMark && strings.Contains(first, ":") {
		rest = strings.ReplaceAll(first, ":", "%3A") + rest[len(first):] // no scheme
	}
	w.Write(util.EscapeHTML(util.URLEscape([]byte(rest), true)))
}

// allowed are the schemes that links may have. html/template has the same list, and tel.
var allowed = map[string]bool{"": true, "http": true, "https": true, "mailto": true, "tel": true}

func (n *nodes) writeLink(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	l := node.(*ast.Link)
	if !entering {
		w.WriteString("</a>")
		return ast.WalkContinue, nil
	}
	w.WriteString("<a")
	n.writeHref(w, string(l.Destination))
	writeTitle(w, l.Title)
	w.WriteByte('>')
	return ast.WalkContinue, nil
}

// writeHref writes the attribute of a link; none if the link may not lead there.
func (n *nodes) writeHref(w util.BufWriter, dest string) {
	if ref, ok := strings.CutPrefix(dest, "run:"); ok {
		if n.opt.RunLink == nil {
			return
		}
		if address := n.opt.RunLink(ref); address != "" {
			w.WriteString(` href="`)
			w.WriteByte(rootMark)
			w.Write(util.EscapeHTML(util.URLEscape([]byte(address), true)))
			w.WriteByte('"')
		}
		return
	}
	if allowed[schemeOf(dest)] {
		w.WriteString(` href="`)
		writeAddress(w, []byte(dest))
		w.WriteByte('"')
	}
}

// autoLink writes an address that stands in the text; one with another scheme stays text.
func (n *nodes) autoLink(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	l := node.(*ast.AutoLink)
	if !entering {
		return ast.WalkContinue, nil
	}
	url, label := l.URL(source), util.EscapeHTML(l.Label(source))
	if l.AutoLinkType == ast.AutoLinkEmail && schemeOf(string(url)) == "" {
		url = append([]byte("mailto:"), url...)
	}
	if s := schemeOf(string(url)); s == "" || !allowed[s] {
		w.Write(label)
		return ast.WalkContinue, nil
	}
	w.WriteString(`<a href="`)
	w.Write(util.EscapeHTML(util.URLEscape(url, false)))
	w.WriteString(`">`)
	w.Write(label)
	w.WriteString("</a>")
	return ast.WalkContinue, nil
}

func writeTitle(w util.BufWriter, t []byte) {
	if t != nil {
		w.WriteString(` title="`)
		w.Write(util.EscapeHTML(t))
		w.WriteByte('"')
	}
}

// writeImage writes an image with its size, and with its smaller versions, so that the page
// does not move while it loads and a phone loads a small one.
func (n *nodes) writeImage(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	i := node.(*ast.Image)
	return ast.WalkSkipChildren, n.image(w, string(i.Destination), plainText(i, source), i.Title, "")
}

// image writes an image; size are the attributes of one whose size the site does not know.
func (n *nodes) image(w util.BufWriter, dest, alt string, title []byte, size string) error {
	if ref, ok := strings.CutPrefix(dest, "run:"); ok {
		return n.writeEmbed(w, ref, alt)
	}
	if s := schemeOf(dest); s != "" && s != "http" && s != "https" {
		w.Write(util.EscapeHTML([]byte(alt)))
		return nil
	}
	w.WriteString(`<img src="`)
	writeAddress(w, []byte(dest))
	w.WriteString(`" alt="`)
	w.Write(util.EscapeHTML([]byte(alt)))
	w.WriteByte('"')
	writeTitle(w, title)
	if marker, rest, ok := splitDestination(dest); ok && marker == rootMark && n.opt.Picture != nil {
		if p, ok := n.opt.Picture(rest); ok {
			size = p.attributes()
		}
	}
	w.WriteString(size + ` loading="lazy">`)
	return nil
}

// attributes returns the size and the versions of a picture.
func (p Picture) attributes() string {
	var out strings.Builder
	if p.Width > 0 {
		fmt.Fprintf(&out, ` width="%d" height="%d"`, p.Width, p.Height)
	}
	if len(p.Sources) > 0 {
		out.WriteString(` srcset="`)
		for i, s := range p.Sources {
			if i > 0 {
				out.WriteString(", ")
			}
			out.WriteByte(rootMark)
			out.Write(util.EscapeHTML(util.URLEscape([]byte(s.Path), false)))
			fmt.Fprintf(&out, " %dw", s.Width)
		}
		out.WriteString(`" sizes="(max-width: 50rem) 100vw, 46rem"`)
	}
	return out.String()
}

func (n *nodes) writeEmbed(w util.BufWriter, ref, alt string) error {
	if n.opt.Embed != nil {
		if html, problem := n.opt.Embed(ref, alt); problem == "" {
			_, err := w.Write(html)
			return err
		}
	}
	w.WriteString(`<strong class="missing">`)
	w.Write(util.EscapeHTML([]byte(alt + " (run:" + ref + ")")))
	w.WriteString(`</strong>`)
	return nil
}

// paragraph leaves out the paragraph around a figure of a run, which is a block.
func (n *nodes) paragraph(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if i, ok := node.FirstChild().(*ast.Image); ok && node.ChildCount() == 1 &&
		strings.HasPrefix(string(i.Destination), "run:") {
		return ast.WalkContinue, nil
	}
	if entering {
		w.WriteString("<p>")
	} else {
		w.WriteString("</p>\n")
	}
	return ast.WalkContinue, nil
}

// heading writes a heading; its number makes it a target of links.
func (n *nodes) heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	if !entering {
		fmt.Fprintf(w, "</h%d>\n", h.Level)
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<h%d", h.Level)
	if id, ok := h.AttributeString("id"); ok {
		if b, ok := id.([]byte); ok {
			w.WriteString(` id="`)
			w.Write(util.EscapeHTML(b))
			w.WriteByte('"')
		}
	}
	w.WriteByte('>')
	return ast.WalkContinue, nil
}

var formatter = chromahtml.New(chromahtml.WithClasses(true), chromahtml.TabWidth(4),
	chromahtml.WithPreWrapper(wrapper{}))

// noStyle has no colors: the style sheet of the theme has them. Package styles of chroma would
// read its seventy styles at each start of bakeoff.
var noStyle = chroma.MustNewStyle("none", chroma.StyleEntries{})

// wrapper makes a block of code reachable by keyboard, because it may scroll.
type wrapper struct{}

func (wrapper) Start(bool, string) string { return `<pre tabindex="0" class="chroma"><code>` }
func (wrapper) End(bool) string           { return "</code></pre>\n" }

// maxCode bounds code that is highlighted, in bytes: lexers are slow on long lines.
const maxCode = 256 << 10

// writeCode writes a block of code, highlighted if it names a language.
func (n *nodes) writeCode(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if f, ok := node.(*ast.FencedCodeBlock); ok {
		language = string(f.Language(source))
	}
	return ast.WalkSkipChildren, writeHighlighted(w, language, string(node.Lines().Value(source)))
}

// writeHighlighted writes code, highlighted if the language is known.
func writeHighlighted(w util.BufWriter, language, text string) error {
	if lexer := lexers.Get(language); language != "" && lexer != nil && len(text) <= maxCode {
		if tokens, err := chroma.Coalesce(lexer).Tokenise(nil, text); err == nil {
			return formatter.Format(w, noStyle, tokens)
		}
	}
	w.WriteString(`<pre tabindex="0" class="chroma"><code>`)
	w.Write(util.EscapeHTML([]byte(text)))
	_, err := w.WriteString("</code></pre>\n")
	return err
}

// writeTable puts a table into a box that scrolls, so that the page does not.
func (n *nodes) writeTable(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		w.WriteString("<div class=\"scroll\" tabindex=\"0\"><table>\n")
	} else {
		w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

func (n *nodes) writeCell(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	c := node.(*east.TableCell)
	tag := "td"
	if c.Parent().Kind() == east.KindTableHeader {
		tag = "th"
	}
	if !entering {
		fmt.Fprintf(w, "</%s>\n", tag)
		return ast.WalkContinue, nil
	}
	w.WriteString("<" + tag)
	if tag == "th" {
		w.WriteString(` scope="col"`)
	}
	if c.Alignment != east.AlignNone {
		fmt.Fprintf(w, ` class="align-%s"`, c.Alignment)
	}
	w.WriteByte('>')
	return ast.WalkContinue, nil
}

func (n *nodes) checkBox(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		mark, word := "☐", n.opt.Open
		if node.(*east.TaskCheckBox).IsChecked {
			mark, word = "☑", n.opt.Done
		}
		fmt.Fprintf(w, `<span class="task" role="img" aria-label="%s">%s</span> `,
			util.EscapeHTML([]byte(word)), mark)
	}
	return ast.WalkContinue, nil
}

func (n *nodes) rawInline(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering && n.opt.RawHTML {
		w.Write(node.(*ast.RawHTML).Segments.Value(source))
	}
	return ast.WalkSkipChildren, nil
}

func (n *nodes) rawBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.HTMLBlock)
	if n.opt.RawHTML {
		if entering {
			w.Write(h.Lines().Value(source))
		} else if h.HasClosure() {
			w.Write(h.ClosureLine.Value(source))
		}
	}
	return ast.WalkContinue, nil
}

// plainText returns the text of a node without markup.
func plainText(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			switch c := c.(type) {
			case *ast.Text:
				out.Write(c.Segment.Value(source))
				if c.SoftLineBreak() {
					out.WriteByte(' ')
				}
			case *ast.String:
				out.Write(c.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// Set returns the versions of a picture as the value of a srcset attribute, for a page
// from which root leads to the site's root.
func (p Picture) Set(root string) string {
	var parts []string
	for _, s := range p.Sources {
		parts = append(parts, fmt.Sprintf("%s%s %dw", root, util.URLEscape([]byte(s.Path), false), s.Width))
	}
	return strings.Join(parts, ", ")
}
