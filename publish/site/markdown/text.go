package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"

	"bakeoff/base/safetext"
	"bakeoff/publish/site/search"
)

// excerptRunes bounds the excerpt of a text.
const excerptRunes = 200

// collect walks the tree once.
func (e *Engine) collect(doc ast.Node, source []byte, f *Facts) {
	var plain strings.Builder
	terms := search.Terms{}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock && plain.Len() < 8*excerptRunes {
				separateWords(&plain)
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			dest := string(n.Destination)
			if ref, ok := strings.CutPrefix(dest, "run:"); ok {
				f.Runs = append(f.Runs, ref)
			} else if marker, rest, ok := splitDestination(dest); ok {
				f.Images = append(f.Images, string(marker)+rest)
			} else if s := schemeOf(dest); s == "https" || s == "http" {
				f.Images = append(f.Images, dest)
			}
		case *ast.Link:
			if ref, ok := strings.CutPrefix(string(n.Destination), "run:"); ok {
				f.Runs = append(f.Runs, ref)
			}
		case *ast.RawHTML, *ast.HTMLBlock:
			f.RawHTML = f.RawHTML || !comment(n, source)
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			piece := string(n.Segment.Value(source))
			f.Words += countWords(piece)
			if e.opt.Terms {
				terms.Add(piece)
			}
			if plain.Len() < 8*excerptRunes && !inHeading(n) {
				plain.WriteString(piece)
				if n.SoftLineBreak() || n.HardLineBreak() {
					separateWords(&plain)
				}
			}
		case *ast.String:
			if plain.Len() < 8*excerptRunes {
				plain.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	f.Excerpt = shorten(safetext.Line(strings.Join(strings.Fields(plain.String()), " ")))
	f.Terms = terms.String()
}

// comment reports whether a piece of HTML is only a comment, such as <!--more-->.
func comment(n ast.Node, source []byte) bool {
	var s string
	switch n := n.(type) {
	case *ast.RawHTML:
		s = string(n.Segments.Value(source))
	case *ast.HTMLBlock:
		s = string(n.Lines().Value(source))
	}
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "<!--") && strings.HasSuffix(s, "-->")
}

func inHeading(n ast.Node) bool {
	for p := n.Parent(); p != nil; p = p.Parent() {
		if p.Kind() == ast.KindHeading {
			return true
		}
	}
	return false
}

func separateWords(b *strings.Builder) {
	if n := b.Len(); n > 0 && b.String()[n-1] != ' ' {
		b.WriteByte(' ')
	}
}

// countWords counts words; a character of a script without spaces counts as half a word.
func countWords(s string) int {
	words, dense, inside := 0, 0, false
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			dense++
			inside = false
		case unicode.IsSpace(r):
			inside = false
		case !inside && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			words++
			inside = true
		}
	}
	return words + (dense+1)/2
}

// shorten cuts plain text at a word.
func shorten(s string) string {
	if utf8.RuneCountInString(s) <= excerptRunes {
		return s
	}
	s = string([]rune(s)[:excerptRunes])
	if at := strings.LastIndexByte(s, ' '); at > len(s)/2 {
		s = s[:at]
	}
	return strings.TrimRight(s, " ,;:.–—-") + "…"
}
