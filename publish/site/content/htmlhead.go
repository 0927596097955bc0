package content

import (
	"bytes"
	"path"
	"strings"

	"bakeoff/base/lists"

	"golang.org/x/net/html"
)

// IsHTML reports whether a file is HTML by its name. Other posts are Markdown.
func IsHTML(file string) bool {
	switch strings.ToLower(path.Ext(file)) {
	case ".html", ".htm":
		return true
	}
	return false
}

// htmlNames are the names of elements <meta> that have another name here.
var htmlNames = map[string]string{"keywords": "tags", "summary": "description", "modified": "lastmod",
	"authors": "author_name"}

// HeadField is a field of the head of a document.
type HeadField struct {
	Key, Value string
	Line       int
}

// HTMLHead returns the fields of the head of a document, by their names here.
func HTMLHead(text []byte) (out []HeadField) {
	return lists.Map(htmlHead(text), func(f field) HeadField { return HeadField{f.key, f.value, f.line} })
}

// htmlHead reads the head of a document as BSSG and Pelican do: <title>, and elements
// <meta name="date" content="…">. A text without a head has no fields.
func htmlHead(text []byte) (out []field) {
	z := html.NewTokenizer(bytes.NewReader(text[:min(len(text), maxFront)]))
	for line, inTitle := 1, false; ; {
		kind := z.Next()
		at := line
		line += bytes.Count(z.Raw(), []byte("\n"))
		switch kind {
		case html.ErrorToken:
			return out
		case html.EndTagToken:
			name, _ := z.TagName()
			if string(name) == "head" {
				return out
			}
			inTitle = inTitle && string(name) != "title"
		case html.TextToken:
			if inTitle {
				out = append(out, field{key: "title", value: strings.TrimSpace(string(z.Text())), line: at})
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch string(name) {
			case "html", "head", "link", "style", "script", "base":
			case "title":
				inTitle = true
			case "meta":
				var key, value string
				for more {
					var k, v []byte
					k, v, more = z.TagAttr()
					switch string(k) {
					case "name":
						key = strings.ToLower(string(v))
					case "content", "contents": // the latter in old posts of Pelican
						value = string(v)
					}
				}
				if name, ok := htmlNames[key]; ok {
					key = name
				}
				if key != "" {
					out = append(out, field{key: key, value: strings.TrimSpace(value), line: at})
				}
			default:
				return out
			}
		}
	}
}
