package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"
	"sync"

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
	"plural": plural,
	"bytes":  func(n int64) string { return unit.Format(float64(n), "B") },
	"joined": joined,
}).Parse(pageHTML))

// policy is the page's Content-Security-Policy. It permits this style sheet and
// nothing else: no script, and nothing from elsewhere. If foreign text got into
// the page unescaped, it still could do nothing.
func policy() string { return Policy(pageCSS, "") }

// Policy is the Content-Security-Policy of a page with one style sheet and at most one
// script ("" is none): both by their hashes, and nothing from elsewhere.
func Policy(style, script string) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	out := "default-src 'none'; style-src " + hash(style)
	if script != "" {
		out += "; script-src " + hash(script)
	}
	return out + "; base-uri 'none'; form-action 'none'"
}

// Style is the style sheet of bakeoff's pages.
func Style() string { return pageCSS }

// Head is how every report begins, up to and including its policy: a page that begins
// otherwise was not written by this version.
var Head = sync.OnceValue(func() string {
	var b strings.Builder
	if err := pageTemplate.ExecuteTemplate(&b, "head", page{CSP: policy()}); err != nil {
		panic("report: " + err.Error()) // the template is part of the program
	}
	first, _, _ := strings.Cut(b.String(), `<meta name="viewport"`)
	return strings.TrimRight(first, "\n")
})

var joints = strings.NewReplacer(" % CI", "\u00a0%\u00a0CI", " %", "\u00a0%")

// joined keeps numbers and their per cent signs on one line.
func joined(s string) string { return joints.Replace(s) }

func render(w io.Writer, p page) error { return pageTemplate.Execute(w, p) }
