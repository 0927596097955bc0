package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"bakeoff/base/unit"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// The style sheet and the script are ours, and are inserted as they are:
	// the policy of the page names their hashes.
	"style":  func() template.HTML { return template.HTML("<style>" + pageCSS + "</style>") },
	"script": func() template.HTML { return template.HTML("<script>" + pageJS + "</script>") },
	"plural": plural,
	"bytes":  func(n int64) string { return unit.Format(float64(n), "B") },
	"symbol": symbol,
	"joined": func(s string) string { return strings.ReplaceAll(s, " %", "\u00a0%") },
}).Parse(pageHTML))

// policy is the page's Content-Security-Policy: nothing is loaded from
// anywhere, and only this style and this script run. Should something of a
// stranger's slip through unescaped, it would still be inert.
func policy() string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'", hash(pageCSS), hash(pageJS))
}

func render(w io.Writer, p page) error { return pageTemplate.Execute(w, p) }

// symbol is the sign beside a verdict: a shape for eyes that colours do not
// reach.
func symbol(word string) string {
	switch word {
	case "equivalent":
		return "="
	case "better":
		return "▲"
	case "worse":
		return "▼"
	case "missing":
		return "∅"
	}
	return "?"
}
