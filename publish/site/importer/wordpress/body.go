package wordpress

import (
	"slices"
	"strings"

	"golang.org/x/net/html"

	"bakeoff/base/lazy"
)

var (
	dynamicBlock = lazy.Compile(`<!--\s*wp:([a-z0-9/-]+)[^>]*/-->`)
	comment      = lazy.Compile(`(?s)<!--.*?-->`)
	caption      = lazy.Compile(`(?s)\[caption[^\]]*\]\s*(<a[^>]*>\s*<img[^>]*>\s*</a>|<img[^>]*>)(.*?)\[/caption\]`)
	embed        = lazy.Compile(`\[embed[^\]]*\]\s*(https?://[^\s\[\]"<>]+)\s*\[/embed\]`)
	shortcode    = lazy.Compile(`\[([a-zA-Z][a-zA-Z0-9_-]*)((?:\s+[a-zA-Z0-9_-]+=[^\]]*)?)\s*/?\]`)
	preformatted = lazy.Compile(`(?is)<pre\b.*?</pre>`)
	blankLines   = lazy.Compile(`\n[ \t]*\n\s*`)
	blockStart   = lazy.Compile(`(?i)^</?(address|article|aside|blockquote|dd|details|div|dl|dt|` +
		`fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|iframe|li|main|nav|ol|p|pre|script|section|style|` +
		`table|tbody|td|tfoot|th|thead|tr|ul|video|audio|object)\b`)
	loneAddress = lazy.Compile(`^https?://[^\s"<>]+$`)
)

// ownShortcodes are those of WordPress itself. Those of plugins are known by their attributes or
// by their end: a word in brackets may be text.
var ownShortcodes = []string{"gallery", "playlist", "audio", "video", "embed", "caption", "wp_caption"}

// bodyOf makes a text of WordPress HTML without its comments, shortcodes and paragraphs that
// only blank lines show.
func (e *export) bodyOf(source, text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	noted := map[string]bool{}
	for _, m := range dynamicBlock.FindAllStringSubmatch(text, 100) {
		if noted[m[1]] {
			continue
		}
		noted[m[1]] = true
		e.Note(source, "the block %s has no text of its own; it is left out", m[1])
	}
	blocks := strings.Contains(text, "<!-- wp:")
	text = comment.ReplaceAllString(text, "")
	text = caption.ReplaceAllString(text, "<figure>$1<figcaption>$2</figcaption></figure>")
	text = embed.ReplaceAllString(text, `<a href="$1">$1</a>`)
	e.noteShortcodes(source, text)
	for _, base := range e.bases() {
		text = strings.ReplaceAll(text, `"`+base+"/wp-content/uploads/", `"/wp-content/uploads/`)
	}
	if blocks {
		return text
	}
	return paragraphs(text)
}

// noteShortcodes names what stays as text.
func (e *export) noteShortcodes(source, text string) {
	var named []string
	for _, m := range shortcode.FindAllStringSubmatch(text, 1000) {
		name := m[1]
		if slices.Contains(named, name) || !slices.Contains(ownShortcodes, name) && strings.TrimSpace(m[2]) == "" &&
			!strings.Contains(text, "[/"+name+"]") {
			continue
		}
		named = append(named, name)
	}
	for _, name := range named[:min(len(named), 20)] {
		e.Note(source, "the shortcode [%s] stays as text; replace it in the post", name)
	}
}

// paragraphs makes paragraphs of a text that has blank lines between them, as WordPress does when
// it shows a post.
func paragraphs(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		plain, block := text, ""
		at := preformatted.FindStringIndex(text)
		if at != nil {
			plain, block, text = text[:at[0]], text[at[0]:at[1]], text[at[1]:]
		} else {
			text = ""
		}
		for _, piece := range blankLines.Split(plain, -1) {
			piece = strings.TrimSpace(piece)
			switch {
			case piece == "":
			case loneAddress.MatchString(piece):
				address := html.EscapeString(html.UnescapeString(piece))
				out.WriteString(`<p><a href="` + address + `">` + address + "</a></p>\n")
			case blockStart.MatchString(piece):
				out.WriteString(piece + "\n")
			default:
				out.WriteString("<p>" + strings.ReplaceAll(piece, "\n", "<br>\n") + "</p>\n")
			}
		}
		if block != "" {
			out.WriteString(block + "\n")
		}
	}
	return out.String()
}
