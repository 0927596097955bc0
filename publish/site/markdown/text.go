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

// prose collects the words of a text.
type prose struct {
	plain     strings.Builder
	terms     search.Terms
	keepTerms bool
}

// hasRoom reports whether the excerpt needs more text.
func (p *prose) hasRoom() bool { return p.plain.Len() < 8*excerptRunes }

// add takes a piece of text; the words of a heading do not belong to the excerpt.
func (p *prose) add(f *Facts, piece string, heading bool) {
	f.Words += countWords(piece)
	if p.keepTerms {
		if p.terms == nil {
			p.terms = search.Terms{}
		}
		p.terms.Add(piece)
	}
	if p.hasRoom() && !heading {
		p.plain.WriteString(piece)
	}
}

// separate ends a word.
func (p *prose) separate() {
	if p.hasRoom() {
		separateWords(&p.plain)
	}
}

// finish sets the excerpt and the terms.
func (p *prose) finish(f *Facts) {
	f.Excerpt = shorten(safetext.Line(strings.Join(strings.Fields(p.plain.String()), " ")))
	f.Terms = p.terms.String()
}

// addImage notes an image, or the run that it shows.
func (f *Facts) addImage(dest string) {
	if ref, ok := strings.CutPrefix(dest, "run:"); ok {
		f.Runs = append(f.Runs, ref)
	} else if marker, rest, ok := splitDestination(dest); ok {
		f.Images = append(f.Images, string(marker)+rest)
	} else if s := schemeOf(dest); s == "https" || s == "http" {
		f.Images = append(f.Images, dest)
	}
}

// collect walks the tree once.
func (e *Engine) collect(doc ast.Node, source []byte, f *Facts) {
	p := prose{keepTerms: e.opt.Terms}
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				p.separate()
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			f.addImage(string(n.Destination))
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
			p.add(f, string(n.Segment.Value(source)), inHeading(n))
			if n.SoftLineBreak() || n.HardLineBreak() {
				p.separate()
			}
		case *ast.String:
			if p.hasRoom() {
				p.plain.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	p.finish(f)
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
