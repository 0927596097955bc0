package ghost

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"golang.org/x/net/html"

	"bakeoff/base/safetext"
	"bakeoff/publish/site/importer"
)

// maxDepth bounds how deeply the elements of a document are nested.
const maxDepth = 100

// bodyOf returns the text of a post. Ghost keeps it as HTML, and as the document of one of its
// editors: Lexical since version 5, Mobiledoc since 1, and Markdown before. The HTML is best;
// a draft may have none.
func (e *export) bodyOf(p *importer.Post, row *post) string {
	body := string(row.HTML)
	var err error
	w := writer{}
	switch {
	case strings.TrimSpace(body) != "":
	case strings.HasPrefix(strings.TrimSpace(string(row.Lexical)), "{"):
		body, err = w.lexical(string(row.Lexical))
	case strings.HasPrefix(strings.TrimSpace(string(row.Mobiledoc)), "{"):
		body, err = w.mobiledoc(string(row.Mobiledoc))
	case row.Markdown != "":
		body, p.HTML = string(row.Markdown), false
	}
	if err != nil {
		p.Draft = true
		e.Note(p.Source, "bakeoff cannot read the text of %q (%s); it becomes a draft", safetext.Clip(p.Title, 80),
			safetext.Clip(err.Error(), 200))
	}
	for _, name := range w.unknown {
		e.Note(p.Source, "the card %s has no counterpart; it is left out", safetext.Clip(name, 40))
	}
	return ownAddress(body)
}

// writer writes a document of an editor as HTML.
type writer struct {
	out     strings.Builder
	unknown []string // cards that were left out
}

func (w *writer) leaveOut(name string) {
	if !slices.Contains(w.unknown, name) && len(w.unknown) < 20 {
		w.unknown = append(w.unknown, name)
	}
}

// node is a node of a document of Lexical, or the payload of a card.
type node struct {
	Type     string          `json:"type"`
	Children []node          `json:"children"`
	Text     string          `json:"text"`
	Format   json.RawMessage `json:"format"` // bits of a text; a word of a block
	Tag      string          `json:"tag"`
	ListType string          `json:"listType"`
	URL      string          `json:"url"`
	Src      string          `json:"src"`
	Alt      string          `json:"alt"`
	Caption  string          `json:"caption"`
	Code     string          `json:"code"`
	Language string          `json:"language"`
	HTML     string          `json:"html"`
	Markdown string          `json:"markdown"`
	Heading  string          `json:"heading"`
	Content  string          `json:"content"`
	Callout  string          `json:"calloutText"`
	Metadata struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		URL         string `json:"url"`
	} `json:"metadata"`
	Images []struct {
		Src string `json:"src"`
		Alt string `json:"alt"`
	} `json:"images"`
}

// lexical writes a document of Lexical.
func (w *writer) lexical(text string) (string, error) {
	var doc struct {
		Root node `json:"root"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	err := w.children(doc.Root, 0)
	return w.out.String(), err
}

func (w *writer) children(n node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the document is nested more than %d levels deep", maxDepth)
	}
	for _, c := range n.Children {
		if err := w.node(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// element writes an element with the children of a node.
func (w *writer) element(tag string, n node, depth int) error {
	w.out.WriteString("<" + tag + ">")
	err := w.children(n, depth)
	w.out.WriteString("</" + tag + ">")
	return err
}

// blocks are the elements of nodes with children.
var blocks = map[string]string{"paragraph": "p", "quote": "blockquote", "extended-quote": "blockquote",
	"aside": "blockquote", "listitem": "li"}

func (w *writer) node(n node, depth int) error {
	if tag, ok := blocks[n.Type]; ok {
		return w.element(tag, n, depth)
	}
	switch n.Type {
	case "text", "extended-text":
		w.formatted(n)
	case "linebreak":
		w.out.WriteString("<br>")
	case "heading", "extended-heading":
		if len(n.Tag) != 2 || n.Tag[0] != 'h' || n.Tag[1] < '1' || n.Tag[1] > '6' {
			n.Tag = "h2"
		}
		return w.element(n.Tag, n, depth)
	case "list":
		tag := "ul"
		if n.ListType == "number" {
			tag = "ol"
		}
		return w.element(tag, n, depth)
	case "link", "autolink":
		w.out.WriteString(`<a href="` + html.EscapeString(n.URL) + `">`)
		err := w.children(n, depth)
		w.out.WriteString("</a>")
		return err
	default:
		return w.card(n.Type, n)
	}
	return nil
}

// formats are the bits of Lexical's texts.
var formats = []string{"strong", "em", "s", "u", "code", "sub", "sup", "mark"}

func (w *writer) formatted(n node) {
	var bits int
	_ = json.Unmarshal(n.Format, &bits) // absent: none
	end := ""
	for i, tag := range formats {
		if bits&(1<<i) != 0 {
			w.out.WriteString("<" + tag + ">")
			end = "</" + tag + ">" + end
		}
	}
	w.out.WriteString(html.EscapeString(n.Text) + end)
}

// card writes a card: what both editors call it, with its payload.
func (w *writer) card(name string, n node) error {
	switch name {
	case "image":
		w.picture(n.Src, n.Alt, n.Caption)
	case "gallery":
		for _, i := range n.Images {
			w.picture(i.Src, i.Alt, "")
		}
	case "codeblock", "code":
		class := ""
		if n.Language != "" {
			class = ` class="language-` + html.EscapeString(n.Language) + `"`
		}
		w.out.WriteString("<pre><code" + class + ">" + html.EscapeString(n.Code) + "</code></pre>\n")
	case "html", "embed":
		w.out.WriteString(n.HTML + "\n")
	case "markdown", "card-markdown":
		return w.fromMarkdown(n.Markdown)
	case "horizontalrule", "hr":
		w.out.WriteString("<hr>\n")
	case "bookmark":
		title := cmp.Or(n.Metadata.Title, n.URL)
		w.out.WriteString(`<p><a href="` + html.EscapeString(n.URL) + `">` + html.EscapeString(title) + "</a></p>\n")
	case "toggle":
		w.out.WriteString("<details><summary>" + n.Heading + "</summary>" + n.Content + "</details>\n")
	case "callout":
		w.out.WriteString("<blockquote>" + n.Callout + "</blockquote>\n")
	case "video", "audio", "file":
		if n.Src != "" {
			w.out.WriteString(`<p><a href="` + html.EscapeString(n.Src) + `">` + html.EscapeString(n.Src) + "</a></p>\n")
		}
	case "paywall":
	default:
		w.leaveOut(name)
	}
	return nil
}

func (w *writer) picture(src, alt, caption string) {
	w.out.WriteString(`<figure><img src="` + html.EscapeString(src) + `" alt="` + html.EscapeString(alt) + `">`)
	if caption != "" {
		w.out.WriteString("<figcaption>" + caption + "</figcaption>") // HTML
	}
	w.out.WriteString("</figure>\n")
}

// markdown renders cards of Markdown, which may hold HTML: the site removes what it does not allow.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))

func (w *writer) fromMarkdown(text string) error {
	var out bytes.Buffer
	err := markdown.Convert([]byte(text), &out)
	w.out.Write(out.Bytes())
	return err
}

// mobiledoc writes a document of Mobiledoc
// (https://github.com/bustle/mobiledoc-kit/blob/master/MOBILEDOC.md).
func (w *writer) mobiledoc(text string) (string, error) {
	var doc struct {
		Markups  [][]json.RawMessage `json:"markups"`
		Atoms    [][]json.RawMessage `json:"atoms"`
		Cards    [][]json.RawMessage `json:"cards"`
		Sections [][]json.RawMessage `json:"sections"`
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	for _, section := range doc.Sections {
		var kind int
		if len(section) < 2 || json.Unmarshal(section[0], &kind) != nil {
			return "", fmt.Errorf("a section has no kind")
		}
		if err := w.section(kind, section, doc.Markups, doc.Atoms, doc.Cards); err != nil {
			return "", err
		}
	}
	return w.out.String(), nil
}

func (w *writer) section(kind int, section []json.RawMessage, markups, atoms, cards [][]json.RawMessage) error {
	switch kind {
	case 1, 3: // text, list
		var tag string
		if len(section) < 3 || json.Unmarshal(section[1], &tag) != nil {
			return fmt.Errorf("a section has no tag")
		}
		if !sectionTags[tag] {
			tag = "p"
		}
		lists := [][]json.RawMessage{}
		if kind == 3 {
			if err := json.Unmarshal(section[2], &lists); err != nil {
				return err
			}
			w.out.WriteString("<" + tag + ">")
			for _, item := range lists {
				w.out.WriteString("<li>")
				if err := w.markers(item, markups, atoms); err != nil {
					return err
				}
				w.out.WriteString("</li>")
			}
			w.out.WriteString("</" + tag + ">\n")
			return nil
		}
		var markers []json.RawMessage
		if err := json.Unmarshal(section[2], &markers); err != nil {
			return err
		}
		w.out.WriteString("<" + tag + ">")
		err := w.markers(markers, markups, atoms)
		w.out.WriteString("</" + tag + ">\n")
		return err
	case 2:
		var src string
		if err := json.Unmarshal(section[1], &src); err != nil {
			return err
		}
		w.picture(src, "", "")
	case 10:
		var at int
		if err := json.Unmarshal(section[1], &at); err != nil || at < 0 || at >= len(cards) || len(cards[at]) < 2 {
			return fmt.Errorf("a section names a card that the document lacks")
		}
		var name string
		var payload node
		if err := json.Unmarshal(cards[at][0], &name); err != nil {
			return err
		}
		if err := json.Unmarshal(cards[at][1], &payload); err != nil {
			return err
		}
		return w.card(name, payload)
	default:
		w.leaveOut(fmt.Sprintf("of kind %d", kind))
	}
	return nil
}

var sectionTags = map[string]bool{"p": true, "h1": true, "h2": true, "h3": true, "h4": true, "h5": true, "h6": true,
	"blockquote": true, "aside": true, "ul": true, "ol": true}

var inlineTags = map[string]bool{"a": true, "b": true, "strong": true, "i": true, "em": true, "code": true, "s": true,
	"u": true, "sub": true, "sup": true, "del": true, "mark": true}

// markers writes pieces of text: [kind, opened markups, number of closed ones, text or atom].
func (w *writer) markers(all []json.RawMessage, markups, atoms [][]json.RawMessage) error {
	var open []string
	for _, raw := range all {
		var m []json.RawMessage
		var kind, closed int
		var opened []int
		if err := json.Unmarshal(raw, &m); err != nil || len(m) < 4 || json.Unmarshal(m[0], &kind) != nil ||
			json.Unmarshal(m[1], &opened) != nil || json.Unmarshal(m[2], &closed) != nil {
			return fmt.Errorf("a marker does not have four parts")
		}
		for _, at := range opened {
			if at < 0 || at >= len(markups) || len(markups[at]) == 0 {
				return fmt.Errorf("the Mobiledoc is damaged: a piece of text names a markup that the document lacks")
			}
			open = append(open, w.openMarkup(markups[at]))
		}
		var text string
		if kind == 0 {
			if err := json.Unmarshal(m[3], &text); err != nil {
				return err
			}
			w.out.WriteString(html.EscapeString(text))
		} else {
			w.atom(m[3], atoms)
		}
		for ; closed > 0 && len(open) > 0; closed-- {
			w.out.WriteString(open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
	for i := len(open) - 1; i >= 0; i-- {
		w.out.WriteString(open[i])
	}
	return nil
}

// openMarkup writes the start of an element and returns its end; "" for an element that is not kept.
func (w *writer) openMarkup(markup []json.RawMessage) (end string) {
	var tag string
	var attributes []string
	if json.Unmarshal(markup[0], &tag) != nil || !inlineTags[tag] {
		return ""
	}
	w.out.WriteString("<" + tag)
	if len(markup) > 1 && json.Unmarshal(markup[1], &attributes) == nil {
		for i := 0; i+1 < len(attributes); i += 2 {
			if attributes[i] == "href" {
				w.out.WriteString(` href="` + html.EscapeString(attributes[i+1]) + `"`)
			}
		}
	}
	w.out.WriteString(">")
	return "</" + tag + ">"
}

// atom writes the part of a text that is a line break.
func (w *writer) atom(at json.RawMessage, atoms [][]json.RawMessage) {
	var i int
	var name string
	if json.Unmarshal(at, &i) != nil || i < 0 || i >= len(atoms) || len(atoms[i]) == 0 ||
		json.Unmarshal(atoms[i][0], &name) != nil {
		return
	}
	if name == "soft-return" {
		w.out.WriteString("<br>")
	} else {
		w.leaveOut(name)
	}
}
