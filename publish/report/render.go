package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var layoutCSS string

// pageCSS is the style sheet of every page: the page's own rules stand after the colors,
// because paper has others, and figures last.
var pageCSS = chart.Colors + layoutCSS + chart.Style

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// The style sheet is inserted as it is: the page's policy names its hash.
	"style":  func() template.HTML { return template.HTML("<style>" + pageCSS + "</style>") },
	"plural": unit.Count,
	"bytes":  func(n int64) string { return unit.Format(float64(n), "B") },
	"joined": keepJoined,
}).Parse(pageHTML))

// pagePolicy is the page's Content-Security-Policy. It permits this style sheet and
// nothing else: no script, and nothing from elsewhere. If foreign text got into
// the page unescaped, it still could do nothing.
func pagePolicy() string { return Policy(pageCSS, "") }

// Policy is the Content-Security-Policy of a page with one style sheet and at most one
// script ("" is none): both by their hashes, and nothing from elsewhere.
func Policy(style, script string) string {
	out := "default-src 'none'; style-src " + HashSource(style)
	if script != "" {
		out += "; script-src " + HashSource(script)
	}
	return out + "; base-uri 'none'; form-action 'none'"
}

// HashSource is what a policy calls a style sheet or a script with this text.
func HashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Style is the style sheet of bakeoff's pages.
func Style() string { return pageCSS }

// head is how every report begins: with a policy that permits one style sheet and no
// script. html/template writes quotes and plus signs as references.
var head = lazy.Compile(`^<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n` +
	`<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; ` +
	`style-src &#39;sha256-(?:[A-Za-z0-9/=]|&#43;)+&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;">\n`)

// Harmless reports whether a page begins as Write writes it, in this version or another:
// then its policy permits no script, whoever wrote the rest. It must have no other
// http-equiv, which could lead elsewhere.
func Harmless(page []byte) bool {
	return head.Match(page) && countHTTPEquiv(page) == 1
}

// countHTTPEquiv counts the attributes http-equiv, in upper or lower case. Pages are large and are
// not copied; the letter q is rare.
func countHTTPEquiv(page []byte) (n int) {
	const before, name = len("http-e"), "http-equiv"
	for _, q := range []byte("qQ") {
		for at := 0; ; at++ {
			i := bytes.IndexByte(page[at:], q)
			if i < 0 {
				break
			}
			at += i
			if from := at - before; from >= 0 && from+len(name) <= len(page) &&
				strings.EqualFold(string(page[from:from+len(name)]), name) {
				n++
			}
		}
	}
	return n
}

var joints = strings.NewReplacer(" % CI", "\u00a0%\u00a0CI", " %", "\u00a0%")

// keepJoined keeps numbers and their per cent signs on one line.
func keepJoined(s string) string { return joints.Replace(s) }

func renderPage(w io.Writer, p page) error { return pageTemplate.Execute(w, p) }
