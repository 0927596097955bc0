package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"strings"

	"bakeoff/base/unit"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

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
func policy() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'"
}

var joints = strings.NewReplacer(" % CI", "\u00a0%\u00a0CI", " %", "\u00a0%")

// joined keeps numbers and their per cent signs on one line.
func joined(s string) string { return joints.Replace(s) }

func render(w io.Writer, p page) error { return pageTemplate.Execute(w, p) }
